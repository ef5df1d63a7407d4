// SPDX-License-Identifier: Apache-2.0
//
// Tests src/model/bit_law.cc
//
// Each rule of the law has a twin that switches it off and must see drift; otherwise the rule
// would be superstition. Where a CPU needs less than the rule gives, the measurement must say so.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "integration/law_scenario.h"
#include "support/installed_models.h"
#include "support/real_runtime.h"

namespace incipit::test {
namespace {

using model::LawSettings;
using model::Sequence;
using model::Step;

class LawTwin : public testing::TestWithParam<Mode> {
 protected:
  LawTwin()
      : real_(open_proved_runtime(
            smollm_path(), {.precision = GetParam().precision, .kv_type = GetParam().kv_type})) {}

  // Logits of the last of `count` tokens, grown by pieces of `piece` tokens, one pass each.
  std::vector<float> grown(std::size_t count, std::size_t piece, const LawSettings& law) {
    const LawSettings before = real_->law();
    real_->set_law(law);
    const TokenVector tokens = random_tokens(count, 9, real_->limits().vocabulary);
    const Sequence sequence = Sequence::create(*real_).value();
    std::vector<float> last;
    while (sequence.length() < count) {
      const std::size_t size = std::min(piece, count - sequence.length());
      const std::uint32_t row = static_cast<std::uint32_t>(size) - 1;
      const Step step{.sequence = sequence.id(),
                      .tokens = TokenSpan(tokens).subspan(sequence.length(), size),
                      .logits_rows = {&row, 1}};
      const auto logits = real_->evaluate({&step, 1});
      EXPECT_TRUE(logits) << logits.error().message;
      last.assign(logits->values.begin(), logits->values.end());
    }
    real_->set_law(before);
    return last;
  }

  RealRuntime real_;
};

INSTANTIATE_TEST_SUITE_P(SmolLM2, LawTwin, testing::ValuesIn(float_modes()),
                         [](const auto& mode) { return mode.param.name; });

// Rule 1: a lone token takes another attention kernel.
TEST_P(LawTwin, ALoneTokenWithoutAShadowDrifts) {
  const std::vector<float> whole = grown(40, 40, real_->law());
  EXPECT_EQ(grown(40, 1, real_->law()), whole);
  LawSettings bare = real_->law();
  bare.shadow_lone_token = false;
  EXPECT_NE(grown(40, 1, bare), whole) << "the shadow is superstition on this CPU";
}

// Rule 2: below the least rows other kernels run. How many that are is measured, and the
// measurement is held against the logits: drift below it, none at it.
TEST_P(LawTwin, DriftBeginsWhereTheMeasurementSaysSo) {
  const auto measured = model::measure_law(*real_);
  ASSERT_TRUE(measured) << measured.error().message;
  std::printf("%s: least rows %zu, least logits rows %zu, a lone token needs a shadow: %s\n",
              GetParam().name, measured->rows_min, measured->logits_rows_min,
              measured->lone_token_needs_shadow ? "yes" : "no");
  ASSERT_GT(measured->rows_min, 0U);
  ASSERT_GT(measured->logits_rows_min, 0U);
  EXPECT_TRUE(measured->lone_token_needs_shadow);
  EXPECT_LE(measured->rows_min, real_->law().rows_min);
  EXPECT_LE(measured->logits_rows_min, real_->law().logits_rows_min);
  const std::vector<float> whole = grown(40, 40, real_->law());
  const auto drifts = [&](std::size_t LawSettings::* setting, std::size_t rows) {
    LawSettings law = real_->law();
    law.*setting = rows;
    law.few_sizes = false;
    return grown(40, 2, law) != whole || grown(40, 1, law) != whole;
  };
  for (const auto& [setting, least] :
       {std::pair{&LawSettings::rows_min, measured->rows_min},
        std::pair{&LawSettings::logits_rows_min, measured->logits_rows_min}}) {
    EXPECT_FALSE(drifts(setting, least));
    // Two or fewer: a piece of two has them by itself, so nothing is left to switch off.
    if (least > 2) {
      EXPECT_TRUE(drifts(setting, least - 1));
    }
  }
}

// Rule 3: INT8 by channel quantises a half-full block again with each of its tokens.
TEST(LawTwinOfInt8, AScalePerChannelDrifts) {
  const auto runs = [](bool by_token) {
    LawSettings law;
    law.int8_by_token = by_token;
    const RealRuntime real = open_runtime(
        smollm_path(), {.precision = Precision::kF32, .kv_type = KvType::kInt8, .law = law});
    const TokenVector tokens = random_tokens(40, 9, real->limits().vocabulary);
    std::vector<std::vector<float>> last;
    for (const std::size_t piece : {40U, 3U}) {
      const Sequence sequence = Sequence::create(*real).value();
      while (sequence.length() < tokens.size()) {
        const std::size_t size = std::min<std::size_t>(piece, tokens.size() - sequence.length());
        const std::uint32_t row = static_cast<std::uint32_t>(size) - 1;
        const Step step{.sequence = sequence.id(),
                        .tokens = TokenSpan(tokens).subspan(sequence.length(), size),
                        .logits_rows = {&row, 1}};
        const auto logits = real->evaluate({&step, 1}).value();
        if (sequence.length() == tokens.size())
          last.emplace_back(logits.values.begin(), logits.values.end());
      }
    }
    return last;
  };
  const auto by_token = runs(true);
  EXPECT_EQ(by_token[0], by_token[1]);
  const auto by_channel = runs(false);
  EXPECT_NE(by_channel[0], by_channel[1]) << "a scale per channel would be exact on this CPU";
}

}  // namespace
}  // namespace incipit::test
