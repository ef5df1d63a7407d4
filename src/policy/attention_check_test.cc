// SPDX-License-Identifier: Apache-2.0
#include "policy/attention_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace incipit::policy {
namespace {

TEST(OwnTokenWeight, IsWhatLiesOnTheTokenBeyondChance) {
  // The row's token, 7, stands at 0 (the sink), 2 and 5 (itself) as well.
  const TokenVector tokens{7, 1, 7, 3, 4, 7};
  const float weights[] = {0.5F, 0.0625F, 0.25F, 0.0625F, 0.0625F, 0.0625F};
  // Prefix of four: cells 1 to 3 have 0.375 in all, one of three is alike.
  EXPECT_DOUBLE_EQ(*own_token_weight(weights, tokens, 4), 0.25 - 0.375 / 3);
}

TEST(OwnTokenWeight, IsNothingWithoutSuchACell) {
  const TokenVector tokens{7, 1, 2, 3, 4, 7};
  const float weights[] = {0.5F, 0.1F, 0.1F, 0.1F, 0.1F, 0.1F};
  EXPECT_FALSE(own_token_weight(weights, tokens, 4)) << "the sink counts for nothing";
  EXPECT_FALSE(own_token_weight(weights, tokens, 0));
}

TEST(OwnTokenWeight, OfWeightThatFallsAnywhereIsNought) {
  const TokenVector tokens{0, 7, 1, 7, 2, 3, 7, 7};
  const std::vector<float> weights(8, 0.125F);
  EXPECT_NEAR(*own_token_weight(weights, tokens, 7), 0, 1e-12);
}

TEST(OwnTokenWeight, CountsCellsInsideTheWindowAlone) {
  const TokenVector tokens{7, 7, 7, 7, 1, 7};
  const float weights[] = {0, 0, 0, 0.5F, 0.25F, 0.25F};
  EXPECT_DOUBLE_EQ(*own_token_weight(weights, tokens, 5), 0.5 - 0.75 / 2);
}

TEST(LargestWeight, LeavesTheSinkOut) {
  const float weights[] = {0.6F, 0.125F, 0.25F, 0.025F};
  EXPECT_DOUBLE_EQ(largest_weight(weights, 3), 0.25);
  EXPECT_DOUBLE_EQ(largest_weight(weights, 2), 0.125);
  EXPECT_DOUBLE_EQ(largest_weight(weights, 1), 0);
}

TEST(AttentionFit, AucCountsThePairsInOrder) {
  const AttentionQuality quality = quality_of({.right = {3, 5, 2}, .wrong = {1, 2}});
  EXPECT_DOUBLE_EQ(quality.auc, 5.5 / 6);
  EXPECT_DOUBLE_EQ(quality.right_least, 2);
  EXPECT_DOUBLE_EQ(quality.right_median, 3);
  EXPECT_DOUBLE_EQ(quality.wrong_median, 1.5);
  EXPECT_DOUBLE_EQ(quality.wrong_most, 2);
}

TEST(AttentionFit, NamesTheHeadsThatTell) {
  // Head 1 tells always, head 2 mostly, head 0 never, head 3 the wrong way round.
  const FitSamples samples{.right = {{0.1, 0.9, 0.9, 0.0}, {0.2, 0.8, 0.3, 0.0}},
                           .wrong = {{0.1, 0.1, 0.2, 0.5}, {0.2, 0.2, 0.4, 0.5}}};
  EXPECT_EQ(best_heads(samples, 2), (std::vector<std::size_t>{1, 2}));
  EXPECT_EQ(best_heads(samples, 9).size(), 4U);
  EXPECT_DOUBLE_EQ(mean_of(samples.right[0], std::vector<std::size_t>{1, 3}), 0.45);
}

TEST(AttentionFit, TheThresholdKeepsFalseAlarmsToTheirShare) {
  std::vector<double> right;
  for (int i = 100; i > 0; --i) right.push_back(i);
  for (const double share : {0.0, 0.02, 0.5, 1.0}) {
    const double threshold = threshold_for(right, share);
    const auto below = std::ranges::count_if(right, [&](double one) { return one < threshold; });
    EXPECT_LE(static_cast<double>(below), share * 100);
    EXPECT_GE(static_cast<double>(below), share * 100 - 1);
  }
}

TEST(AttentionCheckText, HasAThresholdThatCanBeCopied) {
  const double threshold = threshold_for({0.123456789, 0.2}, 0);
  EXPECT_EQ(to_string({.heads = {{2, 4}}, .threshold = threshold}), "2.4:0.1234");
}

TEST(AttentionCheckText, ComesBackAsItWas) {
  const AttentionCheck check{.heads = {{2, 4}, {11, 0}}, .threshold = 0.1834};
  EXPECT_EQ(to_string(check), "2.4,11.0:0.1834");
  const auto read = parse_attention_check(to_string(check));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->heads, check.heads);
  EXPECT_EQ(read->threshold, check.threshold);
}

TEST(AttentionCheckText, IsRefusedByName) {
  for (const char* text : {"", ":", ":0.1", "2.4", "2.4:", "2:0.1", "2.4,:0.1", "2.4:0.1x",
                           "-1.0:1", "2.4;0.1:1", "2.4:abc"}) {
    const auto read = parse_attention_check(text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
    EXPECT_TRUE(read.error().message.contains(text)) << read.error().message;
  }
}

TEST(AttentionCheckText, AWrongOneSaysWhy) {
  EXPECT_EQ(wrong_with({.heads = {{1, 1}}, .threshold = 0.1}, 2, 2), "");
  EXPECT_TRUE(wrong_with({.threshold = 0.1}, 2, 2).contains("no head"));
  EXPECT_TRUE(wrong_with({.heads = {{2, 0}}, .threshold = 0.1}, 2, 2).contains("2.0"));
  EXPECT_TRUE(wrong_with({.heads = {{0, 2}}, .threshold = 0.1}, 2, 2).contains("0.2"));
  EXPECT_TRUE(wrong_with({.heads = {{0, 0}, {0, 0}}, .threshold = 0.1}, 2, 2).contains("twice"));
  for (const double threshold : {0.0, 1.0, -0.5, std::nan("")})
    EXPECT_TRUE(
        wrong_with({.heads = {{0, 0}}, .threshold = threshold}, 2, 2).contains("threshold"));
}

}  // namespace
}  // namespace incipit::policy
