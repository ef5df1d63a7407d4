// SPDX-License-Identifier: Apache-2.0
#include "base/memory.h"

#include <gtest/gtest.h>

#include <vector>

namespace incipit {
namespace {

TEST(Memory, SomeIsAvailableAndItIsFinite) {
  EXPECT_GT(available_memory_bytes(), std::size_t{1} << 20U);
  EXPECT_LT(available_memory_bytes(), std::size_t{1} << 50U);
}

TEST(Memory, ThePeakGrowsWithWhatIsTouched) {
  const std::size_t before = peak_memory_bytes();
  ASSERT_GT(before, 0U);
  constexpr std::size_t kTouched = std::size_t{64} << 20U;
  std::vector<char> touched(before + kTouched, 1);
  ASSERT_EQ(touched[kTouched], 1);
  EXPECT_GE(peak_memory_bytes(), before + kTouched);
}

}  // namespace
}  // namespace incipit
