// SPDX-License-Identifier: Apache-2.0
#include "policy/calibration.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "policy/label_decision.h"

namespace incipit::policy {
namespace {

TEST(ContentFreeBias, IsTheMeanOverTexts) {
  const std::vector<std::vector<double>> scores{{-1, -4}, {-3, -8}};
  EXPECT_EQ(content_free_bias(scores).value(), (std::vector<double>{-2, -6}));
  EXPECT_FALSE(content_free_bias({}));
  EXPECT_FALSE(content_free_bias(std::vector<std::vector<double>>{{-1, -2}, {-1}}));
}

// Public report (C5): the same label for every text. The correction takes the common part away.
TEST(ContentFreeBias, ATextWithoutContentBecomesUndecided) {
  const std::vector<std::vector<double>> scores{{-0.1, -3.0, -5.0}};
  std::vector<double> corrected = scores[0];
  const auto bias = content_free_bias(scores).value();
  for (std::size_t i = 0; i < 3; ++i) corrected[i] -= bias[i];
  for (const double p : softmax(corrected, 1)) EXPECT_NEAR(p, 1.0 / 3, 1e-12);
}

TEST(PriorBias, IsLessTheLogOfTheScaledPrior) {
  const auto bias = prior_bias(std::vector<double>{3, 1}).value();
  EXPECT_NEAR(bias[0], -std::log(0.75), 1e-12);
  EXPECT_NEAR(bias[1], -std::log(0.25), 1e-12);
  EXPECT_FALSE(prior_bias(std::vector<double>{1, 0}));
  EXPECT_FALSE(prior_bias(std::vector<double>{1, std::nan("")}));
}

TEST(BatchBias, IsTheLogOfTheMeanProbability) {
  BatchBias batch(2);
  EXPECT_EQ(batch.bias(), (std::vector<double>{0, 0}));
  batch.add(std::vector<double>{std::log(0.9), std::log(0.1)});
  batch.add(std::vector<double>{std::log(0.3), std::log(0.3)});
  EXPECT_NEAR(batch.bias()[0], std::log(0.7), 1e-12);
  EXPECT_NEAR(batch.bias()[1], std::log(0.3), 1e-12);
}

TEST(BatchBias, StaysFiniteForALabelThatNobodyWants) {
  BatchBias batch(2);
  for (int i = 0; i < 1000; ++i) batch.add(std::vector<double>{0, -5000});
  EXPECT_NEAR(batch.bias()[0], 0, 1e-12);
  EXPECT_TRUE(std::isfinite(batch.bias()[1]));
  EXPECT_LT(batch.bias()[1], -60);
}

// A file whose rows were shuffled gets the same labels: the bits of the bias are the same.
TEST(BatchBias, HasTheSameBitsInAnyOrder) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> score(-12, 0);
  std::vector<std::vector<double>> texts(3000);
  for (auto& text : texts) text = {score(random), score(random), score(random)};
  BatchBias sorted(3);
  for (const auto& text : texts) sorted.add(text);
  std::vector<double> plain(3, 0.0);
  for (const auto& text : texts) {
    const auto probabilities = softmax(text, 1);
    for (std::size_t i = 0; i < 3; ++i) plain[i] += probabilities[i] / 3000;
  }
  std::ranges::shuffle(texts, random);
  BatchBias shuffled(3);
  for (const auto& text : texts) shuffled.add(text);
  EXPECT_EQ(sorted.bias(), shuffled.bias());
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(sorted.bias()[i], std::log(plain[i]), 1e-12);
}

// Rows whose right label is drawn from softmax(scores / temperature).
std::vector<LabelledScores> rows_at(double temperature, std::size_t count) {
  std::mt19937_64 random(11);
  std::normal_distribution<double> score(0, 3);
  std::vector<LabelledScores> rows(count);
  for (LabelledScores& row : rows) {
    row.scores = {score(random), score(random), score(random)};
    const auto probabilities = softmax(row.scores, temperature);
    row.gold =
        std::discrete_distribution<std::size_t>(probabilities.begin(), probabilities.end())(random);
  }
  return rows;
}

TEST(Temperature, TheLikelihoodHasItsHandComputedValue) {
  const std::vector<LabelledScores> rows{{.scores = {std::log(0.8), std::log(0.2)}, .gold = 0},
                                         {.scores = {std::log(0.8), std::log(0.2)}, .gold = 1}};
  EXPECT_NEAR(mean_nll(rows, 1), -(std::log(0.8) + std::log(0.2)) / 2, 1e-12);
  // At temperature 2 the odds of 4:1 become 2:1.
  EXPECT_NEAR(mean_nll(rows, 2), -(std::log(2.0 / 3) + std::log(1.0 / 3)) / 2, 1e-12);
}

TEST(Temperature, FindsTheOneThatMadeTheRowsAndImprovesTheOtherHalf) {
  const auto fit = fit_temperature(rows_at(2.5, 4000));
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->temperature, 2.5, 0.25);
  EXPECT_TRUE(fit->is_kept);
  EXPECT_LT(fit->nll_after, fit->nll_before);
  EXPECT_LT(fit->ece_after, fit->ece_before);
}

TEST(Temperature, IsTheMinimumOfAGrid) {
  const auto rows = rows_at(0.5, 400);
  std::vector<LabelledScores> even;
  for (std::size_t i = 0; i < rows.size(); i += 2) even.push_back(rows[i]);
  const double fitted = fit_temperature(rows)->fitted;
  for (double t = 0.06; t < 19; t *= 1.05)
    EXPECT_LE(mean_nll(even, fitted), mean_nll(even, t) + 1e-9);
}

TEST(Temperature, IsNotKeptWhereTheOtherHalfGetsWorse) {
  std::vector<LabelledScores> rows;
  for (std::size_t i = 0; i < 20;
       ++i) {  // Even rows are all right, odd rows are right half the time.
    rows.push_back({.scores = {1, 0}, .gold = i % 4 == 1 ? 1U : 0U});
  }
  const auto fit = fit_temperature(rows);
  ASSERT_TRUE(fit);
  EXPECT_LT(fit->fitted, 0.2);
  EXPECT_FALSE(fit->is_kept);
  EXPECT_EQ(fit->temperature, 1);
  EXPECT_FALSE(fit_temperature(std::span(rows).first(9)));
}

TEST(Threshold, IsTheLeastThatReachesTheTargetAndHolds) {
  std::vector<ConfidentRow> rows;
  for (int i = 0; i < 100; ++i) {  // Right above 0.5, wrong below; both halves alike.
    const double confidence = (i / 2) / 50.0;
    rows.push_back({.confidence = confidence, .is_right = confidence >= 0.5});
  }
  const auto fit = fit_threshold(rows, 1.0);
  ASSERT_TRUE(fit) << fit.error().message;
  EXPECT_DOUBLE_EQ(fit->threshold, 0.5);
  EXPECT_DOUBLE_EQ(fit->fit_coverage, 0.5);
  EXPECT_DOUBLE_EQ(fit->held_accuracy, 1.0);
  EXPECT_NEAR(fit->held_wilson, 0.8668, 1e-4);
  // 25 of 31 right are 0.806, 25 of 32 are less than 0.8.
  EXPECT_DOUBLE_EQ(fit_threshold(rows, 0.8)->threshold, 0.38);
}

TEST(Threshold, RefusesWhatItCannotReachOrHold) {
  std::vector<ConfidentRow> wrong(20, {.confidence = 0.9, .is_right = false});
  EXPECT_TRUE(fit_threshold(wrong, 0.9).error().message.contains("90.0 %"));
  std::vector<ConfidentRow> lucky;
  for (int i = 0; i < 20; ++i) lucky.push_back({.confidence = 0.9, .is_right = i % 2 == 0});
  EXPECT_TRUE(fit_threshold(lucky, 0.9).error().message.contains("other"));
  EXPECT_FALSE(fit_threshold(lucky, 0));
  EXPECT_FALSE(fit_threshold(lucky, 1.1));
  EXPECT_FALSE(fit_threshold({}, 0.9));
}

RC_GTEST_PROP(Threshold, EqualsATryOfEveryThreshold, ()) {
  const auto raw = *rc::gen::container<std::vector<std::pair<int, bool>>>(
      40, rc::gen::pair(rc::gen::inRange(0, 12), rc::gen::arbitrary<bool>()));
  std::vector<ConfidentRow> rows;
  for (const auto& [confidence, is_right] : raw)
    rows.push_back({confidence / 12.0, is_right || confidence > 8});
  double least = 2;
  for (int step = 11; step >= 0; --step) {
    int accepted = 0;
    int right = 0;
    for (std::size_t i = 0; i < rows.size(); i += 2) {
      if (rows[i].confidence < step / 12.0) continue;
      ++accepted;
      right += rows[i].is_right ? 1 : 0;
    }
    const bool occurs = std::ranges::any_of(rows, [&](const auto& row) {
      return row.confidence == step / 12.0 && (&row - rows.data()) % 2 == 0;
    });
    if (occurs && accepted > 0 && right >= 0.75 * accepted) least = step / 12.0;
  }
  const auto fit = fit_threshold(rows, 0.75);
  if (fit) RC_ASSERT(fit->threshold == least);
  if (least == 2) RC_ASSERT(!fit);
}

TEST(Wilson, HasKnownValues) {
  EXPECT_NEAR(wilson_lower(10, 10), 0.7225, 1e-4);
  EXPECT_NEAR(wilson_lower(95, 100), 0.8882, 1e-4);
  EXPECT_NEAR(wilson_lower(0, 10), 0, 1e-12);
  EXPECT_EQ(wilson_lower(0, 0), 0);
}

}  // namespace
}  // namespace incipit::policy
