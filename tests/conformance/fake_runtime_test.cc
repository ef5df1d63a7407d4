// SPDX-License-Identifier: Apache-2.0
//
// The fake keeps the contract; and where it is told to break the law, the suite's means see it.
#include "support/fake_runtime.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "conformance/runtime_conformance.h"

namespace incipit::test {
namespace {

using model::Sequence;
using model::Step;

RuntimeUnderTest fake(std::string name, FakeOptions options) {
  const auto runtime = std::make_shared<FakeRuntime>(options);
  options.seed += 1;
  const auto other = std::make_shared<FakeRuntime>(options);
  return {.name = std::move(name),
          .open = [runtime]() -> model::Runtime& { return *runtime; },
          .open_other = [other]() -> model::Runtime& { return *other; },
          .tokens = {0, 1, 2, 3, 17, 63},
          .operations = 2000,
          .tolerance = 2 * options.drift};
}

INSTANTIATE_TEST_SUITE_P(
    Fake, RuntimeConformance,
    testing::Values(fake("cells", {.context_tokens = 512}),
                    fake("blocks", {.context_tokens = 512, .cells = 1024, .block_cells = 8}),
                    fake("large_blocks", {.context_tokens = 512, .cells = 2048, .block_cells = 32}),
                    fake("few_sequences", {.context_tokens = 512, .sequences = 40}),
                    fake("drifting", {.context_tokens = 512, .exact = false})),
    [](const auto& subject) { return subject.param.name; });

std::vector<float> last_row(FakeRuntime& runtime, TokenSpan first, TokenSpan second) {
  const auto sequence = Sequence::create(runtime);
  const Step step{.sequence = sequence->id(), .tokens = first, .logits_rows = {}};
  EXPECT_TRUE(runtime.evaluate({&step, 1}));
  const std::vector<std::uint32_t> row{static_cast<std::uint32_t>(second.size() - 1)};
  const Step last{.sequence = sequence->id(), .tokens = second, .logits_rows = row};
  const auto logits = runtime.evaluate({&last, 1});
  EXPECT_TRUE(logits);
  return {logits->values.begin(), logits->values.end()};
}

const TokenVector kAbc{1, 2, 3};
const TokenVector kDe{4, 5};

TEST(FakeRuntime, DriftsWithTheShapeOfThePassOnlyWhereToldTo) {
  const TokenVector all{1, 2, 3, 4, 5};
  FakeRuntime exact;
  EXPECT_EQ(last_row(exact, kAbc, kDe), last_row(exact, {all.data(), 1}, {all.data() + 1, 4}));
  FakeRuntime drifting({.exact = false});
  EXPECT_NE(last_row(drifting, kAbc, kDe),
            last_row(drifting, {all.data(), 1}, {all.data() + 1, 4}));
}

TEST(FakeRuntime, EveryTokenOfThePrefixMatters) {
  FakeRuntime runtime;
  const std::vector<float> before = last_row(runtime, kAbc, kDe);
  const TokenVector changed{0, 2, 3};
  EXPECT_NE(before, last_row(runtime, changed, kDe));
  FakeRuntime other({.seed = 2});
  EXPECT_NE(before, last_row(other, kAbc, kDe));
}

TEST(FakeRuntime, FailsThePlannedEvaluateOnce) {
  FakeRuntime runtime;
  runtime.fail_evaluate(2);
  const auto sequence = Sequence::create(runtime);
  const Step step{.sequence = sequence->id(), .tokens = kAbc, .logits_rows = {}};
  EXPECT_TRUE(runtime.evaluate({&step, 1}));
  const auto failed = runtime.evaluate({&step, 1});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kInternal);
  EXPECT_EQ(sequence->length(), 3U);
  EXPECT_TRUE(runtime.evaluate({&step, 1}));
  EXPECT_EQ(runtime.counters().passes, 2U);
  EXPECT_EQ(runtime.counters().rows, 6U);
}

TEST(FakeRuntime, PoisonsOneRow) {
  FakeRuntime runtime;
  runtime.poison(TokenVector{1, 2, 3, 4, 5}, std::nanf(""));
  const std::vector<float> row = last_row(runtime, kAbc, kDe);
  EXPECT_TRUE(std::isnan(row[row.size() / 2]));
}

TEST(FakeRuntime, ScriptsProbabilities) {
  FakeRuntime runtime({.vocabulary = 10});
  runtime.script(TokenVector{1, 2, 3, 4, 5}, {{7, 0.5}, {8, 0.1}});
  const std::vector<float> row = last_row(runtime, kAbc, kDe);
  EXPECT_FLOAT_EQ(row[7], std::log(0.5F));
  EXPECT_FLOAT_EQ(row[8], std::log(0.1F));
  EXPECT_FLOAT_EQ(row[0], std::log(0.4F / 8));
}

TEST(FakeRuntime, WithholdsCells) {
  FakeRuntime runtime({.cells = 8});
  const auto sequence = Sequence::create(runtime);
  const Step step{.sequence = sequence->id(), .tokens = kAbc, .logits_rows = {}};
  runtime.withhold_cells(6);
  EXPECT_EQ(runtime.cells_free(), 2U);
  const auto refused = runtime.evaluate({&step, 1});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  runtime.withhold_cells(0);
  EXPECT_TRUE(runtime.evaluate({&step, 1}));
}

}  // namespace
}  // namespace incipit::test
