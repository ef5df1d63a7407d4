// SPDX-License-Identifier: Apache-2.0
//
// Passes of every size do not fill the memory: OpenVINO keeps the kernels that it compiles for
// each number of rows, so the runtime lets it see few.
#include <gtest/gtest.h>

#include <cstdio>

#include "base/memory.h"
#include "support/installed_models.h"
#include "support/real_runtime.h"

namespace incipit::test {
namespace {

void run_sizes(model::Runtime& runtime, std::size_t most) {
  for (std::size_t size = 1; size <= most; ++size) {
    const TokenVector tokens(size, 42);
    const auto sequence = model::Sequence::create(runtime).value();
    const std::uint32_t last = static_cast<std::uint32_t>(size) - 1;
    const model::Step step{.sequence = sequence.id(), .tokens = tokens, .logits_rows = {&last, 1}};
    ASSERT_TRUE(runtime.evaluate({&step, 1}));
  }
}

TEST(RuntimeMemory, PassesOfEverySizeTakeLittleMoreThanAFew) {
  const RealRuntime real =
      open_runtime(smollm_path(), {.precision = Precision::kF32, .kv_type = KvType::kF32});
  run_sizes(*real, 8);
  const std::size_t few = peak_memory_bytes() >> 20U;
  run_sizes(*real, 160);
  const std::size_t many = peak_memory_bytes() >> 20U;
  std::printf("peak memory after 8 sizes %zu MiB, after 160 sizes %zu MiB\n", few, many);
  EXPECT_LE(many, few + 200);
}

}  // namespace
}  // namespace incipit::test
