// SPDX-License-Identifier: Apache-2.0
#include "base/utf8.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace incipit {
namespace {

#define FFFD "\xEF\xBF\xBD"

std::string repaired(std::string_view text) { return repair_utf8(text, nullptr); }

// Encodes by arithmetic, as a second opinion on the table in utf8.cc.
std::string encoded(std::uint32_t point) {
  const auto tail = [point](unsigned shift) {
    return static_cast<char>(0x80U | ((point >> shift) & 0x3FU));
  };
  if (point < 0x80) return {static_cast<char>(point)};
  if (point < 0x800) return {static_cast<char>(0xC0U | (point >> 6U)), tail(0)};
  if (point < 0x10000) return {static_cast<char>(0xE0U | (point >> 12U)), tail(6), tail(0)};
  return {static_cast<char>(0xF0U | (point >> 18U)), tail(12), tail(6), tail(0)};
}

TEST(Utf8, EveryCodePointIsValidAndStaysAsItIs) {
  for (std::uint32_t point = 0; point <= 0x10FFFF; ++point) {
    const std::string text = encoded(point);
    const bool surrogate = point >= 0xD800 && point <= 0xDFFF;
    ASSERT_EQ(is_valid_utf8(text), !surrogate) << point;
    ASSERT_EQ(utf8_step(text).bytes, surrogate ? 1 : text.size()) << point;
  }
  EXPECT_FALSE(is_valid_utf8(encoded(0x110000)));
}

TEST(Utf8, LatinOneBytesBecomeReplacementCharacters) {
  std::size_t count = 0;
  EXPECT_EQ(repair_utf8("caf\xE9 bill", &count), "caf" FFFD " bill");
  EXPECT_EQ(count, 1U);
}

// The examples of the Unicode standard, tables 3-8 to 3-11.
TEST(Utf8, ReplacesMaximalParts) {
  EXPECT_EQ(repaired("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD "A");
  EXPECT_EQ(repaired("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"),
            FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD "A");
  EXPECT_EQ(repaired("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            FFFD FFFD FFFD FFFD FFFD "A" FFFD FFFD "B");
  EXPECT_EQ(repaired("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), FFFD FFFD FFFD FFFD "A");
}

TEST(Utf8, ACharacterCutAtTheEndIsOnePart) {
  EXPECT_EQ(repaired("a\xF0\x9F\x98"), "a" FFFD);
  EXPECT_EQ(repaired(""), "");
  EXPECT_EQ(repaired(std::string_view("a\0b", 3)), std::string("a\0b", 3));
}

RC_GTEST_PROP(Utf8, RepairGivesValidTextOnceAndForAll, (const std::vector<std::uint8_t>& bytes)) {
  const std::string text(bytes.begin(), bytes.end());
  std::size_t count = 0;
  const std::string once = repair_utf8(text, &count);
  RC_ASSERT(is_valid_utf8(once));
  RC_ASSERT(repaired(once) == once);
  RC_ASSERT((count == 0) == is_valid_utf8(text));
  RC_ASSERT((count == 0) == (once == text));
}

}  // namespace
}  // namespace incipit
