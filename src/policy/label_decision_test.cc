// SPDX-License-Identifier: Apache-2.0
#include "policy/label_decision.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace incipit::policy {
namespace {

Task task_of(const std::vector<std::string>& names, TaskOptions options = {}) {
  Task task;
  for (const std::string& name : names) task.labels.push_back({.name = name});
  task.options = std::move(options);
  return task;
}

Scored scored_of(std::vector<double> probabilities) {
  Scored scored;
  for (const double probability : probabilities) {
    scored.scores.push_back(std::log(probability));
    scored.mass += probability;
  }
  scored.raw = scored.scores;
  return scored;
}

Label decide(const Task& task, const Scored& scored, std::span<const double> bias = {}) {
  const auto decision = LabelDecision::create(task);
  EXPECT_TRUE(decision) << decision.error().message;
  return decision->decide(scored, bias);
}

const std::vector<std::string> kLbl{"billing", "technical", "account"};

// Public reports (C11, C52): no probabilities for a choice, or ones that do not sum to 1.
TEST(LabelDecision, GivesAProbabilityForEachLabelAsDeclared) {
  const Label label = decide(task_of(kLbl), scored_of({0.1, 0.6, 0.1}));
  EXPECT_EQ(label.status, Status::kOk);
  EXPECT_EQ(label.label, 1U);
  EXPECT_NEAR(label.probabilities[0], 0.125, 1e-12);
  EXPECT_NEAR(label.probabilities[1], 0.75, 1e-12);
  EXPECT_NEAR(label.confidence, 0.75, 1e-12);
  EXPECT_NEAR(label.margin, 0.625, 1e-12);
  EXPECT_NEAR(label.gap, std::log(6.0), 1e-12);
  EXPECT_NEAR(label.mass, 0.8, 1e-12);
  EXPECT_FALSE(label.tie);
}

RC_GTEST_PROP(LabelDecision, ProbabilitiesSumToOne, (const std::vector<int>& raw)) {
  RC_PRE(!raw.empty());
  std::vector<double> scores;
  for (const int value : raw) scores.push_back(value / 3.0);
  const auto probabilities = softmax(scores, 1 + static_cast<double>(raw.size() % 5));
  const double sum = std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
  RC_ASSERT(std::abs(sum - 1) < 1e-9);
}

RC_GTEST_PROP(LabelDecision, TheWinnerIsTheFirstOfTheBestScores, ()) {
  const auto raw = *rc::gen::container<std::vector<int>>(3, rc::gen::inRange(-3, 3));
  Scored scored;
  for (const int value : raw) scored.scores.push_back(value);
  const Label label = decide(task_of(kLbl), scored);
  const auto best = std::ranges::max_element(raw);
  RC_ASSERT(label.best == static_cast<std::size_t>(best - raw.begin()));
  RC_ASSERT(label.tie == (std::ranges::count(raw, *best) > 1));
}

TEST(LabelDecision, TheLabelDeclaredFirstWinsAnExactTie) {
  const Label label = decide(task_of(kLbl), scored_of({0.2, 0.4, 0.4}));
  EXPECT_EQ(label.label, 1U);
  EXPECT_TRUE(label.tie);
  EXPECT_EQ(label.gap, 0);
}

// Public report (C20): a second squashing kept every score between 0.5 and 0.73.
TEST(LabelDecision, AClearTextReachesACloseToCertainConfidence) {
  EXPECT_GT(decide(task_of({"a", "b"}), scored_of({0.97, 0.01})).confidence, 0.98);
}

TEST(LabelDecision, TemperatureFlattensAndKeepsTheWinner) {
  const Label label = decide(task_of(kLbl, {.temperature = 2}), scored_of({0.64, 0.16, 0.04}));
  EXPECT_NEAR(label.probabilities[0], 0.8 / 1.4, 1e-12);
  EXPECT_NEAR(label.probabilities[1], 0.4 / 1.4, 1e-12);
}

TEST(LabelDecision, ABiasIsSubtracted) {
  const std::vector<double> bias{0, std::log(4.0), 0};
  const Label label = decide(task_of(kLbl), scored_of({0.2, 0.6, 0.05}), bias);
  EXPECT_EQ(label.label, 0U);
  EXPECT_NEAR(label.probabilities[0], 0.2 / 0.4, 1e-12);
  EXPECT_NEAR(label.mass, 0.85, 1e-12) << "mass is of the unadjusted scores";
}

TEST(LabelDecision, PeakConfidenceIsZeroAtChance) {
  const TaskOptions options{.confidence = ConfidenceKind::kPeak};
  EXPECT_NEAR(decide(task_of(kLbl, options), scored_of({0.2, 0.2, 0.2})).confidence, 0, 1e-12);
  EXPECT_NEAR(decide(task_of(kLbl, options), scored_of({0.5, 0.25, 0.25})).confidence, 0.25, 1e-12);
}

TEST(LabelDecision, OneLabelIsCertain) {
  const Label label = decide(task_of({"only"}), scored_of({0.2}));
  EXPECT_EQ(label.label, 0U);
  EXPECT_EQ(label.confidence, 1);
  EXPECT_EQ(label.margin, 1);
  EXPECT_FALSE(label.tie);
}

// Public report (C14): an answer that could not be used became a random label.
TEST(LabelDecision, WhatFailsAThresholdIsUnderReviewAndKeepsItsBestLabel) {
  const Scored odd = scored_of({0.0010, 0.0012, 0.0009});
  const auto reason = [&](TaskOptions options) {
    const Label label = decide(task_of(kLbl, options), odd);
    EXPECT_EQ(label.status, Status::kReview);
    EXPECT_FALSE(label.label);
    EXPECT_EQ(label.best, 1U);
    return label.reason;
  };
  EXPECT_EQ(reason({.min_confidence = 0.5}), "low_confidence");
  EXPECT_EQ(reason({.min_margin = 0.5}), "low_margin");
  EXPECT_EQ(reason({.min_mass = 0.1}), "low_mass");
  EXPECT_EQ(reason({.none_label = "technical"}), "none_label");
  EXPECT_EQ(reason({.min_confidence = 0.5, .min_margin = 0.5, .min_mass = 0.1}), "low_mass");
  const Label kept = decide(task_of(kLbl), odd);
  EXPECT_EQ(kept.status, Status::kOk);
  EXPECT_LT(kept.mass, 0.01);
}

TEST(LabelDecision, AThresholdThatIsReachedAccepts) {
  const Task task =
      task_of(kLbl, {.min_confidence = 0.5, .min_mass = 0.5, .none_label = "account"});
  EXPECT_EQ(decide(task, scored_of({0.5, 0.25, 0.25})).status, Status::kOk);
}

// Public report (C53): scores that are no numbers made the first label win.
TEST(LabelDecision, ErrorsNeverBecomeALabel) {
  Scored scored = scored_of({0.5, 0.3, 0.1});
  scored.scores[2] = std::numeric_limits<double>::quiet_NaN();
  const Label nonfinite = decide(task_of(kLbl), scored);
  EXPECT_EQ(nonfinite.status, Status::kError);
  EXPECT_EQ(nonfinite.error, "nonfinite");
  EXPECT_FALSE(nonfinite.label || nonfinite.best);
  Scored failed;
  failed.error = "too_long";
  failed.facts.tokens = 9;
  const Label label = decide(task_of(kLbl), failed);
  EXPECT_EQ(label.error, "too_long");
  EXPECT_EQ(label.facts.tokens, 9U);
}

TEST(LabelDecision, EmptyTextsGoToReviewWhereTheTaskSaysSo) {
  Scored empty;
  empty.error = "empty_text";
  EXPECT_EQ(decide(task_of(kLbl), empty).status, Status::kError);
  const Label label = decide(task_of(kLbl, {.empty_text = EmptyTextPolicy::kReview}), empty);
  EXPECT_EQ(label.status, Status::kReview);
  EXPECT_EQ(label.reason, "empty_text");
}

TEST(LabelDecision, AnUnsureLeafNamesItsParent) {
  const std::vector<std::string> names{"billing/refund/status", "billing/refund/how",
                                       "billing/price", "technical"};
  const Task task = task_of(names, {.hierarchy_threshold = 0.6});
  const Label parent = decide(task, scored_of({0.4, 0.3, 0.2, 0.1}));
  EXPECT_EQ(parent.node, "billing/refund");
  EXPECT_FALSE(parent.label);
  EXPECT_EQ(parent.best, 0U);
  EXPECT_EQ(parent.status, Status::kOk);
  EXPECT_NEAR(parent.confidence, 0.7, 1e-12);
  const Label leaf = decide(task, scored_of({0.1, 0.1, 0.1, 0.7}));
  EXPECT_EQ(leaf.node, "technical");
  EXPECT_EQ(leaf.label, 3U);
  const Label none =
      decide(task_of(names, {.hierarchy_threshold = 0.95}), scored_of({0.4, 0.3, 0.2, 0.1}));
  EXPECT_EQ(none.status, Status::kReview);
  EXPECT_EQ(none.reason, "low_confidence");
}

// Public report (C17): every label of a multi-label task at 0.99.
TEST(LabelDecision, MultiLabelAnswersEachQuestionAndMayAcceptNone) {
  Scored scored;
  scored.scores = {std::log(0.9 / 0.1), std::log(0.2 / 0.8), std::log(0.6 / 0.4)};
  scored.mass = 0.9;
  const Label label = decide(task_of(kLbl, {.multi_label = true}), scored);
  EXPECT_EQ(label.chosen, (std::vector<std::size_t>{0, 2}));
  EXPECT_NEAR(label.probabilities[0], 0.9, 1e-12);
  EXPECT_NEAR(label.probabilities[1], 0.2, 1e-12);
  EXPECT_NEAR(label.confidence, 0.6, 1e-12);
  EXPECT_NEAR(label.margin, 0.2, 1e-12);
  EXPECT_FALSE(label.label);
  scored.scores = {-1, -2, -3};
  const Label nothing = decide(task_of(kLbl, {.multi_label = true}), scored);
  EXPECT_EQ(nothing.status, Status::kOk);
  EXPECT_TRUE(nothing.chosen.empty());
  EXPECT_EQ(nothing.best, 0U);
}

TEST(LabelDecision, RefusesOptionsOutOfRangeByName) {
  const auto message = [](TaskOptions options) {
    const auto decision = LabelDecision::create(task_of(kLbl, std::move(options)));
    return decision ? "" : decision.error().message;
  };
  EXPECT_TRUE(message({.temperature = 0}).contains("temperature"));
  EXPECT_TRUE(message({.min_confidence = 1.5}).contains("min_confidence"));
  EXPECT_TRUE(message({.min_mass = std::nan("")}).contains("min_mass"));
  EXPECT_TRUE(message({.none_label = "nowhere"}).contains("nowhere"));
  EXPECT_EQ(message({}), "");
}

TEST(NeedsRescore, WatchesTheGapAndEveryThresholdThatIsSet) {
  EXPECT_TRUE(needs_rescore(0.01, 0.05));
  EXPECT_FALSE(needs_rescore(0.06, 0.05));
  const TaskOptions options{.min_confidence = 0.7};
  const Label near = decide(task_of(kLbl, options), scored_of({0.71, 0.2, 0.09}));
  const Label far = decide(task_of(kLbl, options), scored_of({0.9, 0.05, 0.05}));
  EXPECT_TRUE(needs_rescore(near, options, 0.05));
  EXPECT_FALSE(needs_rescore(far, options, 0.05));
  EXPECT_FALSE(needs_rescore(near, {}, 0.05));
}

}  // namespace
}  // namespace incipit::policy
