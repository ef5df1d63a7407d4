// SPDX-License-Identifier: Apache-2.0
#include "decode/label_scorer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/fake_runtime.h"
#include "support/label_scores.h"

namespace incipit::decode {
namespace {

using test::FakeRuntime;
using test::must;
using test::try_score;
using test::whole_prompts;

constexpr Token kEnd = 9;

LabelTree tree_of(const std::vector<TokenVector>& labels, LabelTreeOptions options = {}) {
  std::vector<std::string> names;
  std::vector<Surface> surfaces;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    names.push_back("label " + std::to_string(i));
    surfaces.push_back({i, names.back(), labels[i]});
  }
  options.end = kEnd;
  auto tree = LabelTree::build(names, surfaces, options);
  EXPECT_TRUE(tree) << tree.error().message;
  return std::move(*tree);
}

std::vector<LabelScores> score(FakeRuntime& runtime, const LabelTree& tree,
                               const std::vector<TokenVector>& prompts,
                               engine::BatcherLimits limits = {}) {
  return must(
      try_score(runtime, &tree, nullptr, {.parts = whole_prompts(prompts), .limits = limits}));
}

// Public report (C8): a score was read from the row before the last prompt token.
TEST(LabelScorer, ReadsTheRowOfTheLastPromptToken) {
  FakeRuntime runtime;
  runtime.script(TokenVector{1, 2}, {{20, 0.6}, {21, 0.3}});
  runtime.script(TokenVector{1, 2, 3}, {{20, 0.1}, {21, 0.7}});
  const auto scores = score(runtime, tree_of({{20}, {21}}), {{1, 2, 3}});
  EXPECT_NEAR(scores[0].raw[0], std::log(0.1), 1e-6);
  EXPECT_NEAR(scores[0].raw[1], std::log(0.7), 1e-6);
  EXPECT_NEAR(scores[0].mass, 0.8, 1e-6);
}

// Public report (C1): a greedy first token was committed to a start that two labels share.
TEST(LabelScorer, ComparesWholeLabelsAndNotTheirFirstTokens) {
  FakeRuntime runtime;
  const TokenVector prompt{1};
  runtime.script(prompt, {{20, 0.6}, {30, 0.35}});                    // "card" against "refund"
  runtime.script(TokenVector{1, 20}, {{21, 0.5}, {22, 0.5 - 1e-9}});  // "lost", "late"
  for (const Token tail : {21, 22}) runtime.script(TokenVector{1, 20, tail}, {{kEnd, 0.99}});
  runtime.script(TokenVector{1, 30}, {{kEnd, 0.99}});
  const auto scores = score(runtime, tree_of({{20, 21}, {20, 22}, {30}}), {prompt});
  EXPECT_NEAR(scores[0].raw[2], std::log(0.35 * 0.99), 1e-6);
  EXPECT_NEAR(scores[0].raw[0], std::log(0.6 * 0.5 * 0.99), 1e-6);
  EXPECT_GT(scores[0].raw[2], scores[0].raw[0]);
  EXPECT_GT(scores[0].raw[2], scores[0].raw[1]);
  EXPECT_NEAR(scores[0].first_tokens[0], std::log(0.6), 1e-6);
}

// Public report (C2): "yes no" and "no yes" got each other's conditionals.
TEST(LabelScorer, EachTokenIsConditionedOnItsOwnLabel) {
  FakeRuntime runtime;
  runtime.script(TokenVector{1}, {{20, 0.5}, {21, 0.25}});
  runtime.script(TokenVector{1, 20}, {{21, 0.125}});
  runtime.script(TokenVector{1, 21}, {{20, 0.75}});
  runtime.script(TokenVector{1, 20, 21}, {{kEnd, 0.5}});
  runtime.script(TokenVector{1, 21, 20}, {{kEnd, 0.25}});
  const LabelTree tree = tree_of({{20, 21}, {21, 20}}, {.scoring = Scoring::kSequence});
  const auto scores = score(runtime, tree, {{1}});
  EXPECT_NEAR(scores[0].raw[0], std::log(0.5 * 0.125 * 0.5), 1e-6);
  EXPECT_NEAR(scores[0].raw[1], std::log(0.25 * 0.75 * 0.25), 1e-6);
}

TEST(LabelScorer, PrefixLabelsCompeteFairly) {
  FakeRuntime runtime;
  runtime.script(TokenVector{1}, {{20, 0.9}});
  runtime.script(TokenVector{1, 20}, {{kEnd, 0.3}, {21, 0.6}});
  runtime.script(TokenVector{1, 20, 21}, {{kEnd, 0.9}});
  const auto scores = score(runtime, tree_of({{20}, {20, 21}}), {{1}});
  EXPECT_NEAR(scores[0].raw[0], std::log(0.9 * 0.3), 1e-6);
  EXPECT_NEAR(scores[0].raw[1], std::log(0.9 * 0.6 * 0.9), 1e-6);
  EXPECT_LT(scores[0].mass, 1);
}

TEST(LabelScorer, SumsSynonyms) {
  FakeRuntime runtime;
  runtime.script(TokenVector{1}, {{20, 0.2}, {21, 0.3}, {22, 0.4}});
  const std::vector<std::string> names{"a", "b"};
  const std::vector<Surface> surfaces{{0, "x", {20}}, {1, "y", {22}}, {0, "z", {21}}};
  const auto tree = LabelTree::build(names, surfaces, {});
  ASSERT_TRUE(tree);
  const auto scores = score(runtime, *tree, {{1}});
  EXPECT_NEAR(scores[0].raw[0], std::log(0.5), 1e-6);
  EXPECT_NEAR(scores[0].raw[1], std::log(0.4), 1e-6);
}

// Public reports (C11, C13): no probabilities for a choice, or zero outside the top k.
TEST(LabelScorer, EveryOneOf77LabelsHasAFiniteScore) {
  FakeRuntime runtime({.vocabulary = 200});
  std::vector<TokenVector> labels;
  for (Token i = 0; i < 77; ++i) labels.push_back({100 + i % 10, 20 + i});
  const auto scores = score(runtime, tree_of(labels), {{1, 2}});
  ASSERT_EQ(scores[0].raw.size(), 77U);
  for (const double raw : scores[0].raw) EXPECT_TRUE(std::isfinite(raw));
}

// Public reports (C29, C31): logits of every token, and cost by the number of labels.
TEST(LabelScorer, AsksForOneRowOfLogitsForEachPromptInFirstMode) {
  FakeRuntime runtime({.vocabulary = 200});
  std::vector<TokenVector> labels;
  for (Token i = 0; i < 77; ++i) labels.push_back({100 + i, 20});
  const LabelTree tree = tree_of(labels);
  const std::vector<TokenVector> prompts(64, TokenVector(30, 5));
  score(runtime, tree, prompts, {.rows_max = 64 * 30});
  EXPECT_EQ(runtime.counters().passes, 1U);
  EXPECT_EQ(runtime.counters().logits_rows, 64U);
  EXPECT_EQ(runtime.counters().rows, 64U * 30);
}

TEST(LabelScorer, EvaluatesEachSegmentOnceForEachPromptInOnePassForEachFork) {
  FakeRuntime runtime;
  // Below the prompt: [20 21] and [30]; below [20 21]: [22] and [23 24].
  const LabelTree tree = tree_of({{20, 21, 22}, {20, 21, 23, 24}, {30}});
  score(runtime, tree, {{1, 2}, {3, 4}, {5, 6}});
  EXPECT_EQ(runtime.counters().passes, 3U);
  EXPECT_EQ(runtime.counters().rows, 3U * (2 + 3 + 3));
  EXPECT_EQ(runtime.counters().logits_rows, 3U * (1 + 3 + 3));
}

// Public report (C53): not-a-number logits made the first label win.
TEST(LabelScorer, LogitsThatAreNotFiniteFailTheirPromptAlone) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    FakeRuntime runtime;
    const LabelTree tree = tree_of({{20}, {21}}, {.scoring = Scoring::kSequence});
    const auto whole = score(runtime, tree, {{1, 2}, {3, 4}, {5, 6}});
    runtime.poison(TokenVector{3, 4}, bad);
    runtime.poison(TokenVector{5, 6, 21}, bad);
    const auto scores = score(runtime, tree, {{1, 2}, {3, 4}, {5, 6}});
    EXPECT_EQ(scores[0].raw, whole[0].raw);
    EXPECT_EQ(scores[1].error, "nonfinite");
    EXPECT_EQ(scores[2].error, "nonfinite");
    EXPECT_TRUE(scores[1].raw.empty());
  }
}

TEST(LabelScorer, APromptThatDoesNotFitFailsAlone) {
  FakeRuntime runtime({.context_tokens = 60, .cells = 40});
  const LabelTree tree = tree_of({{20}, {21, 22}}, {.scoring = Scoring::kSequence});
  const TokenVector small{1, 2, 3};
  const TokenVector more_than_cells(50, 4);
  const TokenVector more_than_context(100, 4);
  const auto scores = score(runtime, tree, {small, more_than_cells, more_than_context, small});
  EXPECT_EQ(scores[1].error, "too_long");
  EXPECT_EQ(scores[2].error, "too_long");
  EXPECT_EQ(scores[0].error, "");
  EXPECT_EQ(scores[0].raw, scores[3].raw);
  EXPECT_EQ(scores[0].raw, score(runtime, tree, {small})[0].raw);
}

// Four prompts leave nine cells, and the label behind each needs ten: one at a time they fit.
TEST(LabelScorer, APromptThatDoesNotFitBesideOthersIsScoredAlone) {
  FakeRuntime tight({.cells = 17});
  FakeRuntime roomy;
  const LabelTree tree = tree_of({TokenVector(10, 20), {21}}, {.scoring = Scoring::kSequence});
  const std::vector<TokenVector> prompts{{1, 2}, {3, 4}, {5, 6}, {7, 8}};
  const auto got = score(tight, tree, prompts);
  const auto want = score(roomy, tree, prompts);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    EXPECT_EQ(got[i].error, "");
    EXPECT_EQ(got[i].raw, want[i].raw);
  }
  EXPECT_EQ(tight.cells_free(), 17U);
}

// Two branches of three cells leave six, and what stands below each needs seven: one branch at
// a time it fits.
TEST(LabelScorer, ATreeThatDoesNotFitAtOnceIsWalkedBranchByBranch) {
  const auto path = [](Token branch, Token leaf, std::size_t length) {
    TokenVector tokens(3, branch);
    tokens.insert(tokens.end(), length, leaf);
    return tokens;
  };
  FakeRuntime tight({.cells = 14});
  FakeRuntime roomy;
  const LabelTree tree =
      tree_of({path(20, 21, 7), path(20, 22, 1), path(30, 31, 1), path(30, 32, 7)});
  const auto got = score(tight, tree, {{1, 2}});
  EXPECT_EQ(got[0].error, "");
  EXPECT_EQ(got[0].raw, score(roomy, tree, {{1, 2}})[0].raw);
}

TEST(LabelScorer, AFailureOfTheModelIsReportedAndNothingIsLeftBehind) {
  FakeRuntime runtime;
  const LabelTree tree = tree_of({{20, 21}, {20, 22}});
  const std::size_t cells = runtime.cells_free();
  for (std::size_t nth = 1; nth <= 3; ++nth) {
    runtime.fail_evaluate(nth);
    const auto scores = try_score(runtime, &tree, nullptr, {.parts = whole_prompts({{1, 2}, {3}})});
    ASSERT_FALSE(scores);
    EXPECT_EQ(scores.error().code, ErrorCode::kInternal);
    EXPECT_EQ(runtime.cells_free(), cells);
    EXPECT_EQ(runtime.sequence_count(), 0U);
  }
}

TEST(LabelScorer, RefusesAPromptWithoutTokens) {
  FakeRuntime runtime;
  const LabelTree tree = tree_of({{20}, {21}});
  const auto scores = try_score(runtime, &tree, nullptr, {.parts = whole_prompts({{}})});
  ASSERT_FALSE(scores);
  EXPECT_EQ(scores.error().code, ErrorCode::kInvalidArgument);
}

// Public report (C50): cells of the last request stayed, and answers repeated.
TEST(LabelScorer, LeavesNoCellBehind) {
  FakeRuntime runtime({.cells = 4096, .block_cells = 32});
  const LabelTree tree = tree_of({{20, 21}, {20, 22}, {30}});
  const std::size_t cells = runtime.cells_free();
  const std::vector<engine::PromptPart> parts(5, {.suffix = {1, 2, 3}});
  const auto scores =
      must(try_score(runtime, &tree, nullptr, {.prefix = TokenVector(100, 7), .parts = parts}));
  EXPECT_EQ(scores[0].raw, scores[4].raw);
  EXPECT_EQ(runtime.cells_free(), cells);
  EXPECT_EQ(runtime.sequence_count(), 0U);
}

TEST(LabelScorer, BoundsTheLogitsOfAPass) {
  FakeRuntime runtime;
  const LabelTree tree = tree_of({{20}, {21}});
  const std::vector<TokenVector> prompts(10, TokenVector{1, 2});
  score(runtime, tree, prompts, {.logits_rows_max = 4});
  EXPECT_EQ(runtime.counters().passes, 3U);
  score(runtime, tree, prompts, {.rows_max = 6, .rows_max_alone = 6});
  EXPECT_EQ(runtime.counters().passes, 3U + 4U);
}

}  // namespace
}  // namespace incipit::decode
