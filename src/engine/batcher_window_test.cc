// SPDX-License-Identifier: Apache-2.0
//
// Jobs with a window, on the fake runtime, against a slow loop: one token at a time, a slide where
// the window is full. In any crowd the same logits, and nothing of them in the cache.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "support/batcher_jobs.h"
#include "support/must.h"
#include "support/seed.h"

namespace incipit::engine {
namespace {

using model::Sequence;
using model::Step;
using test::best;
using test::count_from;
using test::FakeRuntime;
using test::must;
using test::Outcome;

// What a window means, as slowly as it can be said.
Outcome slowly(TokenVector tokens, std::size_t answer, Window window) {
  FakeRuntime runtime({.cells = 4096});
  const Sequence sequence = must(Sequence::create(runtime));
  Outcome outcome;
  const std::uint32_t row = 0;
  const std::size_t prompt_size = tokens.size();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (window.cells > 0 && sequence.length() == window.cells) {
      must(runtime.slide(sequence.id(), {.sink = window.sink, .dropped = window.step()}));
    }
    const Step step{.sequence = sequence.id(),
                    .tokens = TokenSpan(tokens).subspan(i, 1),
                    .logits_rows = {&row, 1}};
    const auto logits = must(runtime.evaluate({&step, 1}));
    if (i + 1 < prompt_size) continue;
    outcome.logits.insert(outcome.logits.end(), logits.values.begin(), logits.values.end());
    if (outcome.tokens.size() == answer) break;
    outcome.tokens.push_back(best(logits.row(0)));
    tokens.push_back(outcome.tokens.back());
  }
  return outcome;
}

class WindowTest : public test::BatcherJobs {
 protected:
  void open(test::FakeOptions options, BatcherLimits limits = {}) {
    close();
    runtime_ = std::make_unique<FakeRuntime>(options);
    cache_ = std::make_unique<kv::PrefixCache>(*runtime_, nullptr, KvOptions{}, [] { return 0; });
    batcher_ = std::make_unique<Batcher>(*runtime_, *cache_, limits);
  }
  Outcome& add(const TokenVector& tokens, std::size_t answer, Window window) {
    return add_job({.tokens = tokens, .window = window}, answer);
  }
  static void expect_as_slowly(const Outcome& outcome, const TokenVector& tokens,
                               std::size_t answer, Window window) {
    ASSERT_TRUE(outcome.is_over);
    ASSERT_TRUE(outcome.report) << outcome.report.error().message;
    const Outcome expected = slowly(tokens, answer, window);
    EXPECT_EQ(outcome.tokens, expected.tokens);
    EXPECT_EQ(outcome.logits, expected.logits);
  }
  // Longest run of tokens that the cache has from the beginning.
  std::size_t cached(const TokenVector& tokens) {
    return cache_->matched({.tenant = "", .tokens = tokens, .limit = tokens.size()});
  }
};

constexpr Window kWindow{.cells = 64, .sink = 4};

TEST_F(WindowTest, AnAnswerGoesOnBeyondTheContextInTheSameCells) {
  open({.context_tokens = 64, .cells = 128, .block_cells = 8});
  const TokenVector prompt = count_from(0, 20);
  const Outcome& answer = add(prompt, 300, kWindow);
  std::size_t fewest = runtime_->cells_free();
  while (batcher_->step()) fewest = std::min(fewest, runtime_->cells_free());
  expect_as_slowly(answer, prompt, 300, kWindow);
  // Its window, and the prompt that went to the cache.
  EXPECT_GE(fewest, 128U - 64 - 24);
  EXPECT_EQ(answer.report->forgotten, batcher_->counters().slides * kWindow.step());
  EXPECT_GT(batcher_->counters().slides, 30U);
  EXPECT_GT(answer.report->forgotten, 320U - 64);
}

TEST_F(WindowTest, TheCacheGetsThePromptAndNothingThatSlid) {
  open({.cells = 1024, .block_cells = 8});
  const TokenVector prompt = count_from(0, 40);
  const Outcome& answer = add(prompt, 200, kWindow);
  run();
  ASSERT_GT(answer.report->forgotten, 0U);
  TokenVector all = prompt;
  all.insert(all.end(), answer.tokens.begin(), answer.tokens.end());
  EXPECT_EQ(cached(all), prompt.size());
  const Outcome& plain = add(all, 2, {});
  run();
  expect_as_slowly(plain, all, 2, {});
  EXPECT_EQ(plain.report->lookup.matched, prompt.size());
  EXPECT_EQ(plain.report->forgotten, 0U);
}

TEST_F(WindowTest, AWindowThatNeverFillsIsExact) {
  open({.cells = 1024});
  const TokenVector prompt = count_from(0, 40);
  const Outcome& answer = add(prompt, 20, kWindow);
  run();
  expect_as_slowly(answer, prompt, 20, {});
  EXPECT_EQ(answer.report->forgotten, 0U);
  TokenVector all = prompt;
  all.insert(all.end(), answer.tokens.begin(), answer.tokens.end());
  EXPECT_EQ(cached(all), 60U);
}

TEST_F(WindowTest, APromptMayBeLongerThanTheWindow) {
  open({.context_tokens = 64, .cells = 256, .block_cells = 8});
  const TokenVector prompt = count_from(0, 500);
  const Outcome& first = add(prompt, 5, kWindow);
  run();
  expect_as_slowly(first, prompt, 5, kWindow);
  EXPECT_EQ(cached(prompt), 64U) << "what fitted into the window before it slid";
  const Outcome& second = add(prompt, 5, kWindow);
  run();
  expect_as_slowly(second, prompt, 5, kWindow);
  EXPECT_EQ(second.report->lookup.matched, 64U);
}

// Another job may share the opening of one that slides, before and after it does.
TEST_F(WindowTest, ItsOpeningIsSharedAsLongAsItIsExact) {
  open({.cells = 1024, .block_cells = 8});
  const TokenVector prompt = count_from(0, 50);
  const Outcome& slides = add(prompt, 200, kWindow);
  for (int pass = 0; pass < 5; ++pass) batcher_->step();
  ASSERT_FALSE(slides.is_over);
  const TokenVector early = [&] {
    TokenVector tokens = prompt;
    tokens.push_back(9);
    return tokens;
  }();
  const Outcome& before = add(early, 3, {});
  for (int pass = 0; pass < 60; ++pass) batcher_->step();
  ASSERT_FALSE(slides.is_over);
  ASSERT_GT(batcher_->counters().slides, 0U);
  const Outcome& after = add(early, 4, {});
  run();
  EXPECT_EQ(before.report->lookup.matched, 50U);
  EXPECT_GE(after.report->lookup.matched, 50U);
  expect_as_slowly(slides, prompt, 200, kWindow);
  expect_as_slowly(before, early, 3, {});
  expect_as_slowly(after, early, 4, {});
}

TEST_F(WindowTest, BadWindowsAreRefused) {
  open({.context_tokens = 64, .cells = 256});
  const TokenVector prompt = count_from(0, 10);
  for (const Window& window : {Window{.cells = 65, .sink = 4}, Window{.cells = 8, .sink = 8}}) {
    const Outcome& refused = add(prompt, 5, window);
    run();
    ASSERT_TRUE(refused.is_over);
    EXPECT_EQ(refused.report.error().code, ErrorCode::kInvalidArgument);
  }
  open({.cells = 256, .can_move = false});
  const Outcome& declined = add(prompt, 5, kWindow);
  run();
  EXPECT_EQ(declined.report.error().code, ErrorCode::kInvalidArgument);
}

// Windows and plain jobs over too few cells, with shared openings, cancellations and preemption.
class AnyWindows : public WindowTest, public testing::WithParamInterface<std::uint64_t> {};

TEST_P(AnyWindows, GiveTheLogitsOfTheSlowLoop) {
  open({.cells = 260, .block_cells = 4}, {.jobs_max = 6, .rows_max = 24, .rows_max_alone = 40});
  struct Asked {
    TokenVector tokens;
    std::size_t answer = 0;
    Window window;
    const Outcome* outcome = nullptr;
  };
  std::vector<Asked> asked;
  std::mt19937_64 random(test::seed_of(GetParam()));
  for (int round = 0; round < 120; ++round) {
    for (std::size_t i = random() % 3; i > 0; --i) {
      Asked one{.tokens = TokenVector(2 + random() % 90), .answer = random() % 60};
      for (Token& token : one.tokens) token = random() % 20 == 0 ? 1 : 0;
      if (random() % 3 != 0) one.window = {.cells = 24 + random() % 60, .sink = random() % 8};
      one.outcome = &add(one.tokens, one.answer, one.window);
      asked.push_back(std::move(one));
    }
    for (std::size_t pass = random() % 20; pass > 0; --pass) {
      batcher_->step();
      cache_->check_invariants();
    }
    if (random() % 10 == 0) batcher_->cancel(1 + random() % (last_id_ + 1));
  }
  run();
  std::size_t slid = 0;
  for (const Asked& one : asked) {
    ASSERT_TRUE(one.outcome->is_over);
    if (!one.outcome->report) {
      ASSERT_EQ(one.outcome->report.error().code, ErrorCode::kCancelled)
          << one.outcome->report.error().message;
      continue;
    }
    expect_as_slowly(*one.outcome, one.tokens, one.answer, one.window);
    slid += one.outcome->report->forgotten > 0 ? 1 : 0;
  }
  EXPECT_GT(slid, 20U);
  EXPECT_GT(batcher_->counters().preempted, 0U);
  batcher_.reset();
  cache_->drop("", {});
  EXPECT_EQ(runtime_->sequence_count(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, AnyWindows, testing::Range<std::uint64_t>(0, 10));

}  // namespace
}  // namespace incipit::engine
