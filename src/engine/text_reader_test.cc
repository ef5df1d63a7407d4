// SPDX-License-Identifier: Apache-2.0
#include "engine/text_reader.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/scheduler.h"
#include "kv/prefix_cache.h"
#include "support/fake_runtime.h"
#include "support/must.h"

namespace incipit::engine {
namespace {

using test::must;

class TextReaderTest : public testing::Test {
 protected:
  Result<TextScore> score(TokenVector prompt, const TokenVector& tail, std::size_t rows,
                          Window window = {}) {
    std::promise<Result<TextScore>> done;
    auto score = done.get_future();
    Job job{.tokens = std::move(prompt), .logits_rows = rows, .window = window};
    job.reader = std::make_unique<TextReader>(
        tail, [this](std::size_t count) { return count <= tokens_max_; }, std::move(done));
    must(scheduler_.submit(std::move(job)));
    return score.get();
  }

  std::size_t tokens_max_ = 10'000;
  test::FakeRuntime runtime_{{.context_tokens = 64, .cells = 1024}};
  kv::PrefixCache cache_{runtime_, nullptr, {}, [] { return 0; }};
  Scheduler scheduler_{runtime_, cache_, {}, 4};
};

TEST_F(TextReaderTest, ScoresTheGivenTokens) {
  runtime_.script(TokenVector{1, 2}, {{3, 0.5}});
  runtime_.script(TokenVector{1, 2, 3}, {{4, 0.25}});
  const TextScore one_by_one = must(score({1, 2}, {3, 4}, 1));
  ASSERT_EQ(one_by_one.log_probabilities.size(), 2U);
  EXPECT_NEAR(one_by_one.log_probabilities[0], std::log(0.5), 1e-6);
  EXPECT_NEAR(one_by_one.log_probabilities[1], std::log(0.25), 1e-6);
  const TextScore at_once = must(score({1, 2, 3}, {3, 4}, 2));
  EXPECT_EQ(at_once.log_probabilities, one_by_one.log_probabilities);
  EXPECT_FALSE(at_once.lossy);
}

TEST_F(TextReaderTest, SaysWhatAWindowForgot) {
  const TokenVector tail(200, 7);
  const TextScore slid = must(score({1, 2}, tail, 1, {.cells = 64, .sink = 4}));
  EXPECT_EQ(slid.log_probabilities.size(), 200U);
  EXPECT_TRUE(slid.lossy);
  // 201 tokens were given to the model; each slide forgets 7 of 64.
  EXPECT_NE(slid.lossy_reason.find("forgot 140 tokens"), std::string::npos) << slid.lossy_reason;
}

TEST_F(TextReaderTest, EndsWhereItIsTold) {
  tokens_max_ = 3;
  const auto ended = score({1, 2}, TokenVector(20, 7), 1);
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, ErrorCode::kCancelled);
}

TEST(WindowOf, IsTheWholeContextOrWhatWasAsked) {
  const model::Limits limits{.context_tokens = 1000, .can_move = true};
  EXPECT_EQ(must(window_of({}, limits)).cells, 1000U);
  const Window window = must(window_of({.sink_tokens = 8, .recent_tokens = 200}, limits));
  EXPECT_EQ(window.cells, 208U);
  EXPECT_EQ(window.sink, 8U);
  EXPECT_EQ(window_of({.recent_tokens = 997}, limits).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(window_of({.recent_tokens = 2}, limits).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(window_of({}, {.context_tokens = 1000}).error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace incipit::engine
