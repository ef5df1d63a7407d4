// SPDX-License-Identifier: Apache-2.0
//
// The law of bits (docs/adr/0002) on a real model: whatever way the tokens took, the bits are
// those of the whole prompt in one piece.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "integration/law_scenario.h"
#include "model/cpu.h"
#include "support/installed_models.h"
#include "support/real_runtime.h"

namespace incipit::test {
namespace {

// Around the sizes at which kernels and blocks change.
const std::vector<std::size_t> kOddSizes{1,  2,  3,  4,  5,  7,  8,  9,  15, 16,
                                         17, 24, 31, 32, 33, 63, 64, 65, 127, 129};

struct Mode {
  const char* name;
  Precision precision;
  KvType kv_type;
};

void PrintTo(const Mode& mode, std::ostream* out) { *out << mode.name; }

std::vector<Mode> modes() {
  std::vector<Mode> all{{"f32", Precision::kF32, KvType::kF32},
                        {"f32_int8", Precision::kF32, KvType::kInt8}};
  if (has_bf16()) {
    all.push_back({"bf16", Precision::kBf16, KvType::kBf16});
    all.push_back({"bf16_int8", Precision::kBf16, KvType::kInt8});
  }
  return all;
}

// Two runtimes for each mode, opened once: one on two threads that is put through everything, one
// on one thread that sees whole prompts only.
class Law : public testing::TestWithParam<Mode> {
 protected:
  static void TearDownTestSuite() { pairs().clear(); }

  struct Pair {
    std::string mode;
    RealRuntime subject;
    RealRuntime oracle;
  };
  static std::vector<Pair>& pairs() {
    static std::vector<Pair> opened;
    return opened;
  }
  static Pair& pair() {
    for (Pair& each : pairs()) {
      if (each.mode == GetParam().name) return each;
    }
    const RealRuntimeOptions options{.precision = GetParam().precision,
                                     .kv_type = GetParam().kv_type,
                                     .cells = 16384,
                                     .threads = 2};
    RealRuntimeOptions lonely = options;
    lonely.threads = 1;
    pairs().push_back({.mode = GetParam().name,
                       .subject = open_proved_runtime(smollm_path(), options),
                       .oracle = open_proved_runtime(smollm_path(), lonely)});
    return pairs().back();
  }
  static void expect_law(const Scenario& scenario) {
    EXPECT_EQ(run_scenario(scenario, *pair().subject, *pair().oracle), "");
  }
};

INSTANTIATE_TEST_SUITE_P(SmolLM2, Law, testing::ValuesIn(modes()),
                         [](const auto& mode) { return mode.param.name; });

TEST_P(Law, IsProvedOnThisCpu) {
  if (model::cpu_facts().has("avx512f")) {
    EXPECT_TRUE(pair().subject->limits().exact) << pair().subject->limits().approximate_reason;
  }
}

TEST_P(Law, HoldsInRandomMixes) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    expect_law({.sequences = 6, .tokens_max = 150, .pieces = kOddSizes, .seed = seed});
  }
}

TEST_P(Law, HoldsForSequencesOfAFewTokens) {
  expect_law({.sequences = 40, .tokens_max = 3, .pieces = {1, 2}, .rows_watched = 1, .seed = 4});
}

TEST_P(Law, HoldsForManySequencesBehindOnePrefix) {
  expect_law({.sequences = 70,
              .tokens_min = 5,
              .tokens_max = 30,
              .pieces = {1, 8, 17, 30},
              .rows_watched = 1,
              .shared_tokens = 145,
              .seed = 5});
}

TEST_P(Law, HoldsInVeryUnevenMixes) {
  expect_law({.sequences = 5, .tokens_max = 700, .pieces = {1, 2, 600}, .rows_watched = 1, .seed = 6});
}

}  // namespace
}  // namespace incipit::test
