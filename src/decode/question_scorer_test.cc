// SPDX-License-Identifier: Apache-2.0
#include "decode/question_scorer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/fake_runtime.h"
#include "support/label_scores.h"

namespace incipit::decode {
namespace {

using test::FakeRuntime;

const std::vector<TokenVector> kTails{{20, 21}, {22}, {23, 24, 25}};
const AnswerTokens kAnswers{.yes = {30, 31}, .no = {32}};

std::vector<LabelScores> score(FakeRuntime& runtime, const std::vector<TokenVector>& texts) {
  test::ScoredPrompts prompts{.parts = test::whole_prompts(texts)};
  for (engine::PromptPart& part : prompts.parts) part.questions = kTails;
  auto scores = test::must(test::try_score(runtime, nullptr, &kAnswers, prompts));
  EXPECT_EQ(runtime.sequence_count(), 0U);
  return scores;
}

TEST(QuestionScorer, AsksEachQuestionOfEachText) {
  FakeRuntime runtime;
  runtime.script(TokenVector{1, 2, 20, 21}, {{30, 0.5}, {31, 0.2}, {32, 0.1}});
  runtime.script(TokenVector{1, 2, 22}, {{30, 0.1}, {31, 0.1}, {32, 0.7}});
  runtime.script(TokenVector{1, 2, 23, 24, 25}, {{30, 0.3}, {31, 0.1}, {32, 0.4}});
  const auto scores = score(runtime, {{1, 2}});
  EXPECT_NEAR(scores[0].raw[0], std::log(0.7), 1e-6);
  EXPECT_NEAR(scores[0].raw[1] - scores[0].surfaces[1], std::log(0.7), 1e-6) << "no";
  EXPECT_NEAR(scores[0].surfaces[1], std::log(0.2 / 0.7), 1e-6);
  EXPECT_NEAR(scores[0].surfaces[2], 0, 1e-6);
  EXPECT_NEAR(scores[0].mass, 0.8, 1e-6);
}

TEST(QuestionScorer, ComputesTheTextOnceAndTheTailsInOnePass) {
  FakeRuntime runtime;
  score(runtime, {TokenVector(10, 1), TokenVector(12, 2)});
  EXPECT_EQ(runtime.counters().passes, 2U);
  EXPECT_EQ(runtime.counters().rows, 10U + 12 + 2 * (2 + 1 + 3));
  EXPECT_EQ(runtime.counters().logits_rows, 6U);
}

TEST(QuestionScorer, DoesNotDependOnNeighboursOrCells) {
  FakeRuntime roomy;
  FakeRuntime tight({.cells = 18});
  const std::vector<TokenVector> texts{{1, 2}, {3, 4, 5}, TokenVector(17, 6), {7}};
  const auto all = score(roomy, texts);
  const auto few = score(tight, texts);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto alone = score(roomy, {texts[i]});
    EXPECT_EQ(all[i].raw, alone[0].raw);
    EXPECT_EQ(all[i].surfaces, alone[0].surfaces);
    if (i == 2) continue;
    EXPECT_EQ(few[i].error, "");
    EXPECT_EQ(few[i].raw, alone[0].raw);
  }
  EXPECT_EQ(few[2].error, "too_long");
}

TEST(QuestionScorer, ABadRowFailsItsTextAlone) {
  FakeRuntime runtime;
  runtime.poison(TokenVector{3, 4, 22}, std::nanf(""));
  const auto scores = score(runtime, {{1, 2}, {3, 4}, {5, 6}});
  EXPECT_EQ(scores[0].error, "");
  EXPECT_EQ(scores[1].error, "nonfinite");
  EXPECT_TRUE(scores[1].raw.empty());
  EXPECT_EQ(scores[2].raw.size(), 3U);
}

TEST(QuestionScorer, RefusesAnswersThatCannotBeToldApart) {
  const std::vector<TokenVector> empty_tail{{}};
  EXPECT_FALSE(QuestionScorer::create(kTails, {.yes = {1, 2}, .no = {2}}));
  EXPECT_FALSE(QuestionScorer::create(kTails, {.yes = {}, .no = {2}}));
  EXPECT_FALSE(QuestionScorer::create(empty_tail, kAnswers));
}

}  // namespace
}  // namespace incipit::decode
