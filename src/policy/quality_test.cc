// SPDX-License-Identifier: Apache-2.0
#include "policy/quality.h"

#include <gtest/gtest.h>

namespace incipit::policy {
namespace {

Label label_of(std::size_t best, double confidence, Status status = Status::kOk) {
  Label label;
  label.status = status;
  label.best = best;
  if (status == Status::kOk) label.label = best;
  label.confidence = confidence;
  return label;
}

TEST(QualityMeter, HasHandComputedFigures) {
  QualityMeter meter(3);
  meter.add(0, label_of(0, 0.9));
  meter.add(0, label_of(0, 0.7));
  meter.add(0, label_of(1, 0.6, Status::kReview));
  meter.add(1, label_of(1, 0.9));
  meter.add(1, Label{});  // An error.
  const Quality quality = meter.quality();
  EXPECT_EQ(quality.rows, 5U);
  EXPECT_EQ(quality.unscored, 1U);
  EXPECT_DOUBLE_EQ(quality.accuracy, 3.0 / 5);
  EXPECT_DOUBLE_EQ(quality.coverage, 3.0 / 5);
  EXPECT_DOUBLE_EQ(quality.accepted_accuracy, 1);
  // Label 0: 2 hits, right 3 times, chosen twice. Label 1: 1 hit, right twice, chosen twice.
  EXPECT_DOUBLE_EQ(quality.macro_f1, (4.0 / 5 + 2.0 / 4) / 2);
  EXPECT_EQ(quality.confusion[0][1], 1U);
  EXPECT_EQ(quality.confusion[1][0], 0U);
  // Bins: 0.9 twice, both right; 0.7 right; 0.6 wrong.
  EXPECT_NEAR(quality.ece, (0.2 + 0.3 + 0.6) / 4, 1e-12);
}

TEST(QualityMeter, OfNothingIsZero) {
  const Quality quality = QualityMeter(2).quality();
  EXPECT_EQ(quality.accuracy, 0);
  EXPECT_EQ(quality.macro_f1, 0);
  EXPECT_EQ(quality.ece, 0);
}

TEST(CalibrationError, IsZeroWhereConfidenceIsAccuracy) {
  CalibrationError error;
  for (int i = 0; i < 100; ++i) error.add(0.75, i % 4 != 0);
  EXPECT_NEAR(error.value(), 0, 1e-12);
  CalibrationError certain;
  certain.add(1.0, false);
  EXPECT_EQ(certain.value(), 1);
}

// Public report (C5): one arbitrary label for every text, and nobody said so.
TEST(WinnerCounts, WarnsWhereOneLabelWinsMoreThanNineOfTenTexts) {
  WinnerCounts colours(8);
  for (int i = 0; i < 7; ++i) colours.add(label_of(3, 0.4));
  EXPECT_FALSE(colours.dominant()) << "too few texts to tell";
  colours.add(label_of(3, 0.4));
  ASSERT_TRUE(colours.dominant());
  EXPECT_EQ(colours.dominant()->label, 3U);
  colours.add(label_of(1, 0.4));
  EXPECT_FALSE(colours.dominant()) << "8 of 9 are less than nine tenths";
  for (int i = 0; i < 11; ++i) colours.add(label_of(3, 0.4));
  EXPECT_DOUBLE_EQ(colours.dominant()->share, 0.95);
}

TEST(WinnerCounts, OneLabelAloneIsNoBias) {
  WinnerCounts only(1);
  for (int i = 0; i < 20; ++i) only.add(label_of(0, 1));
  EXPECT_FALSE(only.dominant());
}

TEST(OrderFlips, CountsTextsThatAreNotTheSameInEveryOrder) {
  using Labels = std::vector<std::optional<std::size_t>>;
  OrderFlips flips;
  flips.add(Labels{0, 0, 0});
  flips.add(Labels{0, 1, 0});
  flips.add(Labels{2, 2, std::nullopt});
  flips.add(Labels{1, 1, 1});
  EXPECT_EQ(flips.texts(), 4U);
  EXPECT_EQ(flips.flipped(), 2U);
  EXPECT_DOUBLE_EQ(flips.share(), 0.5);
  EXPECT_EQ(OrderFlips().share(), 0);
}

}  // namespace
}  // namespace incipit::policy
