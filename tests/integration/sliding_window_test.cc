// SPDX-License-Identifier: Apache-2.0
//
// A window that slides, on a real model: text of three contexts in the cells of one, marked lossy,
// and nobody beside it or after it notices.
// Tests src/engine/batcher.cc
// Tests src/model/openvino_slide.cc
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "engine/batcher.h"
#include "incipit/engine.h"
#include "integration/same_answer.h"
#include "kv/prefix_cache.h"
#include "support/installed_models.h"
#include "support/must.h"
#include "support/real_runtime.h"

namespace incipit {
namespace {

using test::drawn_answer;
using test::expect_same;
using test::must;

constexpr std::size_t kContext = 256;
constexpr std::size_t kAnswer = 3 * kContext;

// Takes the likeliest token, so many times, and never an end.
class Greedy final : public engine::RowReader {
 public:
  Greedy(TokenVector& answer, Result<engine::JobReport>& report)
      : answer_(answer), report_(report) {}
  Result<std::optional<Token>> read(const model::Logits& logits, std::size_t first_row,
                                    std::size_t rows) override {
    if (answer_.size() == kAnswer) return std::nullopt;
    const auto row = logits.row(first_row + rows - 1);
    answer_.push_back(static_cast<Token>(std::ranges::max_element(row) - row.begin()));
    return answer_.back();
  }
  void finish(Result<engine::JobReport> report) override { report_ = std::move(report); }

 private:
  TokenVector& answer_;
  Result<engine::JobReport>& report_;
};

TEST(SlidingWindowOnModel, ThreeContextsTakeTheCellsOfOne) {
  const test::RealRuntime real = test::open_proved_runtime(test::smollm_path(), {.cells = 512});
  kv::PrefixCache cache(*real, nullptr, {}, [] { return 0; });
  engine::Batcher batcher(*real, cache, {});
  TokenVector answer;
  Result<engine::JobReport> report;
  engine::Job job;
  job.tokens = TokenVector(40, 400);
  job.tokens[3] = 500;
  job.window = {.cells = kContext, .sink = 4};
  job.writes_cache = false;
  job.reader = std::make_unique<Greedy>(answer, report);
  batcher.add(1, std::move(job));
  std::set<std::size_t> cells_free;  // At full windows: seen at the end of every eighth of it.
  std::uint64_t slides = 0;
  while (batcher.step()) {
    if (batcher.counters().slides == slides) continue;
    slides = batcher.counters().slides;
    cells_free.insert(real->cells_free());
  }
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(answer.size(), kAnswer);
  EXPECT_GT(slides, 15U);
  EXPECT_EQ(report->forgotten, slides * 31);
  EXPECT_EQ(cells_free.size(), 1U) << "the text grew, and so did its cells";
  EXPECT_TRUE(cache.entries().empty());
}

class GeneratorWithWindow : public testing::Test {
 protected:
  // Never ends by itself.
  static GenerateRequest endless(std::size_t answer) {
    GenerateRequest endless = drawn_answer(TokenVector(60, 400), answer);
    endless.sliding_window = SlidingWindow{.recent_tokens = 252};
    endless.sampling.logit_bias = {{0, -100}, {1, -100}, {2, -100}};
    return endless;
  }
  std::unique_ptr<Engine> engine_ =
      must(Engine::open({.model = test::smollm_path(), .ctx_size = 1024}));
  std::unique_ptr<Generator> generator_ = must(engine_->generator({}));
};

TEST_F(GeneratorWithWindow, NeighboursKeepTheirBitsAndItsOwnAreThoseOfARunAlone) {
  ASSERT_TRUE(generator_->exact());
  std::vector<GenerateRequest> neighbours;
  for (Token i = 0; i < 12; ++i) {
    TokenVector tokens(60, 400);  // The opening of the endless one.
    tokens.push_back(600 + i % 4);
    neighbours.push_back(drawn_answer(std::move(tokens), 20));
    neighbours.back().sampling.seed = static_cast<std::uint32_t>(i);
  }
  const GenerateRequest long_one = endless(kAnswer);
  Result<Generated> crowded;
  std::vector<Result<Generated>> answers(neighbours.size());
  {
    const std::jthread writer([&] { crowded = generator_->generate(long_one); });
    const std::jthread others([&] {
      for (std::size_t i = 0; i < neighbours.size(); ++i)
        answers[i] = generator_->generate(neighbours[i]);
    });
  }
  ASSERT_TRUE(crowded) << crowded.error().message;
  EXPECT_EQ(crowded->tokens.size(), kAnswer);
  EXPECT_TRUE(crowded->lossy);
  EXPECT_NE(crowded->lossy_reason.find("window"), std::string::npos);
  EXPECT_GT(generator_->counters().slides, 15U);
  for (std::size_t i = 0; i < neighbours.size(); ++i) {
    neighbours[i].reads_cache = neighbours[i].writes_cache = false;
    const Generated alone = must(generator_->generate(neighbours[i]));
    expect_same(must(answers[i]), alone);
    EXPECT_FALSE(answers[i]->lossy);
    EXPECT_TRUE(answers[i]->lossy_reason.empty());
  }
  expect_same(*crowded, must(generator_->generate(long_one)));
}

TEST_F(GeneratorWithWindow, WhatSlidIsNotCached) {
  const Generated answer = must(generator_->generate(endless(400)));
  ASSERT_TRUE(answer.lossy);
  GenerateRequest next = drawn_answer(TokenVector(60, 400), 3);
  next.tokens.insert(next.tokens.end(), answer.tokens.begin(), answer.tokens.end());
  const Generated after = must(generator_->generate(next));
  EXPECT_EQ(after.kv.matched, 60U) << "the prompt and not what came after it";
  next.reads_cache = next.writes_cache = false;
  expect_same(after, must(generator_->generate(next)));
}

TEST_F(GeneratorWithWindow, RefusesWindowsThatCannotBe) {
  GenerateRequest wrong = endless(5);
  for (const SlidingWindow& window :
       {SlidingWindow{.sink_tokens = 4, .recent_tokens = 5000},
        SlidingWindow{.sink_tokens = 4, .recent_tokens = 3},
        SlidingWindow{.sink_tokens = ~std::size_t{0}, .recent_tokens = 100}}) {
    wrong.sliding_window = window;
    const auto refused = generator_->generate(wrong);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(refused.error().message.find("sliding_window"), std::string::npos);
  }
  wrong.sliding_window = SlidingWindow{};
  EXPECT_FALSE(must(generator_->generate(wrong)).lossy) << "the whole context, never full";
}

}  // namespace
}  // namespace incipit
