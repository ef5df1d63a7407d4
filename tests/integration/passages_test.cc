// SPDX-License-Identifier: Apache-2.0
//
// Passages in another order on a real model: marked lossy, near the truth, and exact for everybody
// who did not ask for it.
// Tests src/engine/batcher_lossy.cc
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "incipit/engine.h"
#include "integration/same_answer.h"
#include "support/installed_models.h"
#include "support/must.h"

namespace incipit {
namespace {

using test::expect_same;
using test::must;

class PassagesOnModel : public testing::Test {
 protected:
  void SetUp() override {
    first_ = must(generator_->plain_tokens(
        "\nThe parcel was sent on Monday from the warehouse in Lyon and should arrive on Friday."));
    second_ =
        must(generator_->plain_tokens("\nRefunds are paid within ten days to the card that was "
                                      "used for the order, not in cash."));
    question_ = must(generator_->plain_tokens("\nQuestion: how are refunds paid? Answer: to the"));
  }
  GenerateRequest request(bool swapped) const {
    GenerateRequest request;
    request.tokens = {1, 400, 401, 402};
    for (const TokenVector* passage :
         {swapped ? &second_ : &first_, swapped ? &first_ : &second_}) {
      const std::size_t begin = request.tokens.size();
      request.tokens.insert(request.tokens.end(), passage->begin(), passage->end());
      request.passages.ranges.push_back({.begin = begin, .end = request.tokens.size()});
    }
    request.passages.recompute_tokens = 4;
    request.tokens.insert(request.tokens.end(), question_.begin(), question_.end());
    request.tokens_max = 4;
    request.sampling = {.temperature = 0, .logprobs = 5};
    return request;
  }
  std::unique_ptr<Engine> engine_ =
      must(Engine::open({.model = test::smollm_path(), .ctx_size = 1024}));
  std::unique_ptr<Generator> generator_ = must(engine_->generator({}));
  TokenVector first_, second_, question_;
};

TEST_F(PassagesOnModel, MovedPassagesAreMarkedAndNobodyElseSeesThem) {
  const Generated in_order = must(generator_->generate(request(false)));
  EXPECT_FALSE(in_order.lossy);
  const Generated moved = must(generator_->generate(request(true)));
  EXPECT_TRUE(moved.lossy);
  EXPECT_NE(moved.lossy_reason.find("passages"), std::string::npos) << moved.lossy_reason;
  EXPECT_EQ(generator_->counters().moved, first_.size() + second_.size() - 8);
  EXPECT_LE(moved.tokens_computed, 4 + 8 + question_.size() + 4);

  GenerateRequest plain = request(true);
  plain.passages = {};
  const Generated cached = must(generator_->generate(plain));
  EXPECT_FALSE(cached.lossy);
  plain.reads_cache = plain.writes_cache = false;
  const Generated fresh = must(generator_->generate(plain));
  expect_same(cached, fresh);
  // Near the truth: keys that were turned the wrong way give another word.
  EXPECT_EQ(moved.tokens[0], fresh.tokens[0]);
  EXPECT_NEAR(moved.logprobs[0].chosen.logprob, fresh.logprobs[0].chosen.logprob, 1.0);
}

TEST_F(PassagesOnModel, ScoresOfContinuationsAreMarkedToo) {
  must(generator_->generate(request(false)));
  ScoreRequest score;
  static_cast<PromptRequest&>(score) = request(true);
  score.continuations = {" card", " parcel"};
  const ContinuationScores moved = must(generator_->score(score));
  EXPECT_TRUE(moved.lossy);
  EXPECT_FALSE(moved.lossy_reason.empty());
  score.passages = {};
  const ContinuationScores fresh = must(generator_->score(score));
  EXPECT_FALSE(fresh.lossy);
  EXPECT_GT(fresh.log_probabilities[0], fresh.log_probabilities[1]);
  EXPECT_GT(moved.log_probabilities[0], moved.log_probabilities[1]);
}

TEST_F(PassagesOnModel, ATenantThatIsForgottenHasNone) {
  must(generator_->generate(request(false)));
  generator_->drop("other", {});
  EXPECT_TRUE(must(generator_->generate(request(true))).lossy);
  generator_->drop("", {});
  EXPECT_FALSE(must(generator_->generate(request(true))).lossy);
}

TEST_F(PassagesOnModel, RangesGoWithTokens) {
  GenerateRequest wrong = request(false);
  wrong.tokens.clear();
  wrong.turns = {{"user", "x"}};
  const auto refused = generator_->generate(wrong);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("passages"), std::string::npos);
}

}  // namespace
}  // namespace incipit
