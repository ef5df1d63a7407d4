// SPDX-License-Identifier: Apache-2.0
#include "policy/normalisation.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

namespace incipit::policy {
namespace {

// "bill" as one token and the end token; "billing address change request" as four and the end.
const std::vector<SurfaceFacts> kTwo{{.label = 0, .tokens = 2, .characters = 4},
                                     {.label = 1, .tokens = 5, .characters = 30}};
const std::vector<double> kLogs{std::log(0.30) + std::log(0.50),
                                std::log(0.10) + std::log(0.60) + 3 * std::log(0.95)};

std::vector<double> scores(Normalise kind, std::span<const double> content_free = {}) {
  auto result = normalised_scores(kind, kTwo, kLogs, 2, content_free);
  EXPECT_TRUE(result) << result.error().message;
  return result.value_or(std::vector<double>{});
}

// Public report (C7): the mean per token favours long labels with a predictable tail.
TEST(Normalisation, TheSumIsNotFooledByAPredictableTail) {
  const auto sum = scores(Normalise::kNone);
  EXPECT_NEAR(sum[0], std::log(0.15), 1e-12);
  EXPECT_NEAR(sum[1], std::log(0.0514425), 1e-9);
  EXPECT_GT(sum[0], sum[1]);
  const auto mean = scores(Normalise::kMean);
  EXPECT_NEAR(mean[0], std::log(0.15) / 2, 1e-12);
  EXPECT_NEAR(mean[1], std::log(0.0514425) / 5, 1e-9);
  EXPECT_LT(mean[0], mean[1]);
}

TEST(Normalisation, CharDividesByCharacters) {
  EXPECT_NEAR(scores(Normalise::kChar)[0], std::log(0.15) / 4, 1e-12);
  EXPECT_NEAR(scores(Normalise::kChar)[1], std::log(0.0514425) / 30, 1e-9);
  EXPECT_EQ(count_characters("caf\xC3\xA9 \xE2\x82\xAC"), 6U);
}

TEST(Normalisation, PmiSubtractsTheContentFreeScore) {
  const std::vector<double> content_free{-1, -6};
  const auto pmi = scores(Normalise::kPmi, content_free);
  EXPECT_NEAR(pmi[0], std::log(0.15) + 1, 1e-12);
  EXPECT_NEAR(pmi[1], std::log(0.0514425) + 6, 1e-9);
  const auto missing = normalised_scores(Normalise::kPmi, kTwo, kLogs, 2, {});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kInvalidArgument);
}

TEST(Normalisation, SynonymsAddUpAndUnderAMeanTheBestOneCounts) {
  const std::vector<SurfaceFacts> facts{{0, 2, 4}, {1, 1, 1}, {0, 4, 4}};
  const std::vector<double> logs{std::log(0.2), std::log(0.4), std::log(0.3)};
  const auto sum = normalised_scores(Normalise::kNone, facts, logs, 2, {}).value();
  EXPECT_NEAR(sum[0], std::log(0.5), 1e-12);
  const auto mean = normalised_scores(Normalise::kMean, facts, logs, 2, {}).value();
  EXPECT_NEAR(mean[0], std::log(0.3) / 4, 1e-12);
}

RC_GTEST_PROP(Normalisation, LogSumExpEqualsALongDoubleSum, ()) {
  const auto raw =
      *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(-9000, 9000)));
  std::vector<double> values;
  long double sum = 0;
  for (const int value : raw) {
    values.push_back(value / 7.0);
    sum += std::exp(static_cast<long double>(values.back()));
  }
  RC_ASSERT(std::abs(log_sum_exp(values) - static_cast<double>(std::log(sum))) < 1e-9);
}

// Shifting every surface shifts every label: nothing but differences decides.
RC_GTEST_PROP(Normalisation, AShiftOfAllSurfacesShiftsAllLabels, (int shift)) {
  const double by = shift % 1000;
  std::vector<double> moved = kLogs;
  for (double& value : moved) value += by;
  const auto before = label_log_probabilities(kTwo, kLogs, 2);
  const auto after = label_log_probabilities(kTwo, moved, 2);
  for (std::size_t i = 0; i < 2; ++i) RC_ASSERT(std::abs(after[i] - before[i] - by) < 1e-9);
}

TEST(Normalisation, LogSumExpSurvivesExtremes) {
  EXPECT_EQ(log_sum_exp(std::vector<double>{-1e300, 0}), 0);
  EXPECT_NEAR(log_sum_exp(std::vector<double>{-1e5, -1e5}), -1e5 + std::log(2), 1e-9);
  EXPECT_TRUE(std::isinf(log_sum_exp({})));
}

}  // namespace
}  // namespace incipit::policy
