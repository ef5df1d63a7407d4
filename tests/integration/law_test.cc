// SPDX-License-Identifier: Apache-2.0
//
// Tests src/model/graph_builder.cc
//
// The law of bits (docs/adr/0002) on a real model: whatever way the tokens took, the bits are
// those of the whole prompt in one piece.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "integration/law_scenario.h"
#include "model/cpu.h"
#include "support/installed_models.h"
#include "support/real_runtime.h"

namespace incipit::test {
namespace {

// Around the sizes at which kernels and blocks change.
const std::vector<std::size_t> kOddSizes{1,  2,  3,  4,  5,  7,  8,  9,  15,  16,
                                         17, 24, 31, 32, 33, 63, 64, 65, 127, 129};

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

INSTANTIATE_TEST_SUITE_P(SmolLM2, Law, testing::ValuesIn(all_modes()),
                         [](const auto& mode) { return mode.param.name; });

TEST_P(Law, IsProvedOnThisCpu) {
  if (model::cpu_facts().has("avx512f")) {
    EXPECT_TRUE(pair().subject->limits().exact) << pair().subject->limits().approximate_reason;
  }
}

TEST_P(Law, HoldsInRandomMixes) {
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    expect_law({.sequences = 5, .tokens_max = 140, .pieces = kOddSizes, .seed = seed});
  }
}

TEST_P(Law, HoldsForSequencesOfAFewTokens) {
  expect_law({.sequences = 40, .tokens_max = 3, .pieces = {1, 2}, .rows_watched = 1, .seed = 4});
}

TEST_P(Law, HoldsForManySequencesBehindOnePrefix) {
  expect_law({.sequences = 24,
              .tokens_min = 5,
              .tokens_max = 30,
              .pieces = {1, 8, 17, 30},
              .rows_watched = 1,
              .shared_tokens = 145,
              .seed = 5});
}

TEST_P(Law, HoldsInVeryUnevenMixes) {
  expect_law(
      {.sequences = 3, .tokens_max = 700, .pieces = {1, 2, 600}, .rows_watched = 1, .seed = 6});
}

// Passes of every size up to 1,400 rows, with 1 to 300 rows of logits.
TEST_P(Law, HoldsInPassesOfEverySize) {
  model::OpenVinoRuntime& subject = *pair().subject;
  const std::size_t vocabulary = subject.limits().vocabulary;
  const TokenVector tokens = random_tokens(24, 7, vocabulary);
  const std::vector<std::uint32_t> last{23};
  const WholePrompt want = evaluate_whole(*pair().oracle, tokens, last);
  for (const std::size_t neighbours : {0, 2, 3, 16, 41, 104, 488, 1376}) {
    const auto own = model::Sequence::create(subject).value();
    const auto other = model::Sequence::create(subject).value();
    const TokenVector more = random_tokens(std::max<std::size_t>(neighbours, 1), 8, vocabulary);
    std::vector<std::uint32_t> rows(std::min<std::size_t>(neighbours, 299));
    std::iota(rows.begin(), rows.end(), 0U);
    const model::Step steps[] = {{own.id(), tokens, last}, {other.id(), more, rows}};
    const auto logits = subject.evaluate(std::span(steps).first(neighbours == 0 ? 1 : 2));
    ASSERT_TRUE(logits) << logits.error().message;
    ASSERT_EQ(logits->rows(), 1 + rows.size());
    EXPECT_TRUE(std::ranges::equal(logits->row(0), want.logits)) << neighbours << " neighbours";
    EXPECT_TRUE(saved_payload(subject, own.id()) == want.payload) << neighbours << " neighbours";
  }
}

// More rows than one pass takes: the runtime cuts, here in the middle of sequences, and once so
// that a single token is left alone at the end of a pass.
TEST_P(Law, HoldsInCallsOfMoreThanOnePass) {
  model::OpenVinoRuntime& subject = *pair().subject;
  const std::size_t vocabulary = subject.limits().vocabulary;
  const std::size_t lengths[] = {1000, 1047, 40, 2};
  std::vector<TokenVector> prompts;
  std::vector<model::Sequence> sequences;
  std::vector<model::Step> steps;
  const std::vector<std::uint32_t> rows{0, 1};
  for (const std::size_t length : lengths) {
    prompts.push_back(random_tokens(length, length, vocabulary));
    sequences.push_back(model::Sequence::create(subject).value());
  }
  for (std::size_t i = 0; i < prompts.size(); ++i)
    steps.push_back({sequences[i].id(), prompts[i], rows});
  const auto logits = subject.evaluate(steps);
  ASSERT_TRUE(logits) << logits.error().message;
  const std::vector<float> values(logits->values.begin(), logits->values.end());
  ASSERT_EQ(values.size(), 2 * prompts.size() * vocabulary);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const WholePrompt want = evaluate_whole(*pair().oracle, prompts[i], rows);
    EXPECT_TRUE(std::ranges::equal(std::span(values).subspan(2 * i * vocabulary, 2 * vocabulary),
                                   want.logits))
        << prompts[i].size() << " tokens";
    EXPECT_TRUE(saved_payload(subject, sequences[i].id()) == want.payload)
        << prompts[i].size() << " tokens";
  }
}

// The last token of the last cell: there is no cell behind it for a filler.
TEST_P(Law, HoldsForALoneTokenInTheLastCell) {
  RealRuntime real = open_proved_runtime(
      smollm_path(),
      {.precision = GetParam().precision, .kv_type = GetParam().kv_type, .cells = 64});
  const TokenVector tokens = random_tokens(64, 5, real->limits().vocabulary);
  const WholePrompt want = evaluate_whole(*real, tokens, {63});
  const auto sequence = model::Sequence::create(*real).value();
  const std::vector<std::uint32_t> first{0};
  const model::Step most{sequence.id(), TokenSpan(tokens).first(63), {}};
  ASSERT_TRUE(real->evaluate({&most, 1}));
  const model::Step last{sequence.id(), TokenSpan(tokens).last(1), first};
  const auto logits = real->evaluate({&last, 1});
  ASSERT_TRUE(logits) << logits.error().message;
  EXPECT_TRUE(std::ranges::equal(logits->values, want.logits));
  EXPECT_TRUE(saved_payload(*real, sequence.id()) == want.payload);
}

// A shorter run on the default model.
TEST(LawOfTheDefaultModel, HoldsInARandomMix) {
  for (const Mode& mode : all_modes()) {
    if (mode.kv_type == KvType::kInt8) continue;
    const RealRuntimeOptions options{.precision = mode.precision, .kv_type = mode.kv_type};
    const RealRuntime subject = open_proved_runtime(qwen_path(), options);
    const RealRuntime oracle = open_proved_runtime(qwen_path(), options);
    EXPECT_TRUE(subject->limits().exact || !model::cpu_facts().has("avx512f")) << mode.name;
    EXPECT_EQ(run_scenario({.sequences = 4, .tokens_max = 60, .pieces = kOddSizes, .seed = 8},
                           *subject, *oracle),
              "")
        << mode.name;
  }
}

}  // namespace
}  // namespace incipit::test
