// SPDX-License-Identifier: Apache-2.0
#include "decode/log_softmax.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace incipit::decode {
namespace {

double oracle(const std::vector<float>& logits) {
  const long double top = *std::ranges::max_element(logits);
  long double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<long double>(logit) - top);
  return static_cast<double>(top + std::log(sum));
}

std::vector<float> random_logits(std::size_t count, float spread, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> distribution;
  std::vector<float> logits(count);
  std::ranges::generate(logits, [&] { return spread * distribution(random); });
  return logits;
}

TEST(LogSumExp, EqualsALongDoubleSum) {
  for (const std::size_t count : {1U, 2U, 7U, 8U, 15U, 16U, 17U, 1000U, 151936U}) {
    for (const float spread : {0.0F, 0.1F, 1.0F, 5.0F, 100.0F, 1e30F}) {
      const auto logits = random_logits(count, spread, count);
      const double want = oracle(logits);
      EXPECT_NEAR(log_sum_exp(logits), want, 1e-9 * std::max(1.0, std::abs(want)) * 0.1)
          << count << " logits, spread " << spread;
    }
  }
}

TEST(LogSumExp, HasKnownValues) {
  EXPECT_DOUBLE_EQ(log_sum_exp(std::vector<float>{3.5F}), 3.5);
  EXPECT_NEAR(log_sum_exp(std::vector<float>(1000, -2.0F)), std::log(1000.0) - 2, 1e-12);
  EXPECT_NEAR(log_sum_exp(std::vector<float>{0.0F, 1.0F}), std::log(1 + std::exp(1.0)), 1e-11);
  EXPECT_EQ(log_sum_exp(std::vector<float>{1e30F, -1e30F}), static_cast<double>(1e30F));
}

TEST(LogSumExp, HasTheSameBitsOnEveryInstructionLevel) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const auto logits = random_logits(1 + seed * 7, 1 + static_cast<float>(seed % 20), seed);
    EXPECT_EQ(std::bit_cast<std::uint64_t>(log_sum_exp(logits)),
              std::bit_cast<std::uint64_t>(log_sum_exp_baseline(logits)));
  }
}

// Public report (C53): not-a-number logits must be seen, wherever they stand.
TEST(LogSumExp, SeesEveryLogitThatIsNotFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {std::nanf(""), -std::nanf(""), infinity, -infinity}) {
    for (std::size_t place = 0; place < 37; ++place) {
      std::vector<float> logits = random_logits(37, 3, 1);
      logits[place] = bad;
      EXPECT_TRUE(std::isnan(log_sum_exp(logits))) << bad << " at " << place;
      EXPECT_TRUE(std::isnan(log_sum_exp_baseline(logits))) << bad << " at " << place;
    }
  }
  EXPECT_TRUE(std::isnan(log_sum_exp({})));
}

}  // namespace
}  // namespace incipit::decode
