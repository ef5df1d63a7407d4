// SPDX-License-Identifier: Apache-2.0
//
// Jobs with passages, on the fake runtime, where a moved cell is not the cell that was computed in
// place: their logits tell of every one.
// Tests src/engine/batcher_lossy.cc
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "support/batcher_jobs.h"
#include "support/must.h"

namespace incipit::engine {
namespace {

using model::Sequence;
using model::Step;
using test::count_from;
using test::FakeRuntime;
using test::must;
using test::Outcome;

const TokenVector kOpening = count_from(0, 10);
const TokenVector kA = count_from(20, 30);
const TokenVector kB = count_from(35, 25);
const TokenVector kC = count_from(50, 40);
const TokenVector kQuestion = count_from(7, 6);

struct Prompt {
  TokenVector tokens;
  Passages passages;
};

Prompt prompt_of(const std::vector<TokenVector>& parts, std::size_t head = 4) {
  Prompt prompt{.tokens = kOpening, .passages = {.recompute_tokens = head}};
  for (const TokenVector& part : parts) {
    const std::size_t begin = prompt.tokens.size();
    prompt.tokens.insert(prompt.tokens.end(), part.begin(), part.end());
    prompt.passages.ranges.push_back({.begin = begin, .end = prompt.tokens.size()});
  }
  prompt.tokens.insert(prompt.tokens.end(), kQuestion.begin(), kQuestion.end());
  return prompt;
}

class PassagesTest : public test::BatcherJobs {
 protected:
  void open(test::FakeOptions options = {.cells = 1024, .block_cells = 8},
            BatcherLimits limits = {}, std::size_t passage_bytes = 1 << 20U) {
    close();
    runtime_ = std::make_unique<FakeRuntime>(options);
    fragments_ = std::make_unique<kv::FragmentCache>(passage_bytes);
    cache_ = std::make_unique<kv::PrefixCache>(*runtime_, nullptr, KvOptions{}, [] { return 0; });
    batcher_ = std::make_unique<Batcher>(*runtime_, *cache_, limits, fragments_.get());
  }
  Outcome& add(const Prompt& prompt, Job job = {}, std::size_t answer = 0) {
    job.tokens = prompt.tokens;
    job.passages = prompt.passages;
    return add_job(std::move(job), TokenVector(answer, 5));
  }
  Outcome& ask(const Prompt& prompt, Job job = {}) {
    Outcome& outcome = add(prompt, std::move(job));
    run();
    return outcome;
  }
  // The row of the last token where all is computed.
  static std::vector<float> computed(const TokenVector& tokens) {
    FakeRuntime runtime({.cells = 1024});
    const Sequence sequence = must(Sequence::create(runtime));
    const auto row = static_cast<std::uint32_t>(tokens.size() - 1);
    const Step step{.sequence = sequence.id(), .tokens = tokens, .logits_rows = {&row, 1}};
    const auto logits = must(runtime.evaluate({&step, 1}));
    return {logits.values.begin(), logits.values.end()};
  }
};

TEST_F(PassagesTest, TheFirstTimeAllIsComputedAndExact) {
  open();
  const Prompt prompt = prompt_of({kA, kB, kC});
  const Outcome& first = ask(prompt);
  ASSERT_TRUE(first.report) << first.report.error().message;
  EXPECT_EQ(first.logits, computed(prompt.tokens));
  EXPECT_EQ(first.report->moved, 0U);
  EXPECT_EQ(first.report->computed, prompt.tokens.size());
  EXPECT_EQ(fragments_->size(), 3U);
  const Outcome& again = ask(prompt);
  EXPECT_EQ(again.logits, first.logits);
  EXPECT_EQ(again.report->moved, 0U) << "the same prompt is the prefix cache's";
}

// As the cells are put together by hand.
TEST_F(PassagesTest, InAnotherOrderTheCellsAreMovedAndTheHeadsComputed) {
  open();
  ask(prompt_of({kA, kB}));
  const Prompt swapped = prompt_of({kB, kA});
  const Outcome& moved = ask(swapped);
  ASSERT_TRUE(moved.report);
  EXPECT_EQ(moved.report->moved, kA.size() + kB.size() - 8);
  EXPECT_EQ(moved.report->computed + moved.report->lookup.matched,
            kOpening.size() + 8 + kQuestion.size());

  FakeRuntime runtime({.cells = 1024});
  const auto evaluate = [&](const Sequence& sequence, TokenSpan tokens) {
    const auto row = static_cast<std::uint32_t>(tokens.size() - 1);
    const Step step{.sequence = sequence.id(), .tokens = tokens, .logits_rows = {&row, 1}};
    const auto logits = must(runtime.evaluate({&step, 1}));
    return std::vector<float>(logits.values.begin(), logits.values.end());
  };
  const Sequence source = must(Sequence::create(runtime));
  evaluate(source, prompt_of({kA, kB}).tokens);
  const std::size_t a = kOpening.size();
  const std::size_t b = a + kA.size();
  const auto cells_a = must(runtime.save(source.id(), a + 4, b));
  const auto cells_b = must(runtime.save(source.id(), b + 4, b + kB.size()));
  const Sequence target = must(Sequence::create(runtime));
  evaluate(target, kOpening);
  evaluate(target, TokenSpan(kB).first(4));
  must(runtime.restore_moved(target.id(), cells_b));
  evaluate(target, TokenSpan(kA).first(4));
  must(runtime.restore_moved(target.id(), cells_a));
  EXPECT_EQ(moved.logits, evaluate(target, kQuestion));
  EXPECT_NE(moved.logits, computed(swapped.tokens)) << "lossy, or this test tells nothing";
}

TEST_F(PassagesTest, OnlyTheExactOpeningIsCached) {
  open();
  ask(prompt_of({kA, kB}));
  const Prompt swapped = prompt_of({kB, kA});
  ASSERT_GT(ask(swapped).report->moved, 0U);
  const std::size_t exact = kOpening.size() + 4;
  EXPECT_EQ(cache_->matched({.tokens = swapped.tokens, .limit = swapped.tokens.size()}), exact);
  const Prompt plain{.tokens = swapped.tokens, .passages = {}};
  const Outcome& afterwards = ask(plain);
  EXPECT_EQ(afterwards.report->lookup.matched, exact);
  EXPECT_EQ(afterwards.logits, computed(swapped.tokens));
}

// A plain job beside a lossy one forks from it no further than it is exact.
TEST_F(PassagesTest, NeighboursKeepTheirBits) {
  open();
  ask(prompt_of({kA, kB}));
  const Prompt swapped = prompt_of({kB, kA});
  const Outcome& lossy = add(swapped, {}, 200);
  const Outcome& beside = add({.tokens = swapped.tokens, .passages = {}});
  for (int pass = 0; pass < 3; ++pass) batcher_->step();
  const Outcome& later = add({.tokens = swapped.tokens, .passages = {}});
  while (!beside.is_over || !later.is_over) batcher_->step();
  ASSERT_FALSE(lossy.is_over);
  EXPECT_EQ(beside.logits, computed(swapped.tokens));
  EXPECT_EQ(later.logits, computed(swapped.tokens));
  run();
  EXPECT_GT(lossy.report->moved, 0U);
}

TEST_F(PassagesTest, NothingCrossesBetweenTenants) {
  open();
  ask(prompt_of({kA, kB}), {.tenant = "a"});
  const Prompt swapped = prompt_of({kB, kA});
  const Outcome& other = ask(swapped, {.tenant = "b"});
  EXPECT_EQ(other.report->moved, 0U);
  EXPECT_EQ(other.logits, computed(swapped.tokens));
}

TEST_F(PassagesTest, ARequestThatLeavesNothingBehindKeepsNoPassages) {
  open();
  ask(prompt_of({kA}), {.writes_cache = false});
  EXPECT_EQ(fragments_->size(), 0U);
}

TEST_F(PassagesTest, WithoutAStoreOrARuntimeThatMovesAllIsComputed) {
  open({.cells = 1024, .can_move = false});
  const Prompt swapped = prompt_of({kB, kA});
  ask(prompt_of({kA, kB}));
  EXPECT_EQ(ask(swapped).logits, computed(swapped.tokens));
  open({.cells = 1024}, {}, 0);
  ask(prompt_of({kA, kB}));
  EXPECT_EQ(ask(swapped).logits, computed(swapped.tokens));
}

TEST_F(PassagesTest, APassageMayBeShorterThanItsHeadAndAHeadMayBeEmpty) {
  open();
  for (const std::size_t head : {std::size_t{0}, std::size_t{25}, std::size_t{1000}}) {
    ask(prompt_of({kA, kB}, head));
    const Outcome& swapped = ask(prompt_of({kB, kA}, head));
    ASSERT_TRUE(swapped.report) << swapped.report.error().message;
    EXPECT_EQ(swapped.report->moved, head == 0    ? kA.size() + kB.size()
                                     : head == 25 ? kA.size() - 25
                                                  : 0);
  }
}

TEST_F(PassagesTest, ANewPassageBesideAKnownOneIsComputedAndKept) {
  open();
  ask(prompt_of({kB}));
  const Outcome& mixed = ask(prompt_of({kA, kB, kC}));
  EXPECT_EQ(mixed.report->moved, kB.size() - 4);
  EXPECT_EQ(fragments_->size(), 3U);
}

// The cache matches the opening of a passage that begins like another one.
TEST_F(PassagesTest, AMatchThatEndsInsideAPassageIsCutBack) {
  open();
  TokenVector like_a = kB;
  std::copy_n(kA.begin(), 8, like_a.begin());
  ask(prompt_of({kA, like_a}));
  const Outcome& swapped = ask(prompt_of({like_a, kA}));
  EXPECT_EQ(swapped.report->moved, kA.size() + kB.size() - 8);
  EXPECT_EQ(swapped.report->lookup.matched, kOpening.size() + 4);
  EXPECT_EQ(swapped.report->computed, 4 + kQuestion.size());
}

TEST_F(PassagesTest, ADamagedPassageIsComputed) {
  open();
  const Prompt prompt = prompt_of({kA});
  fragments_->insert({.tenant = "", .tokens = kA, .head = 4}, std::vector<std::byte>(500));
  const Outcome& outcome = ask(prompt);
  ASSERT_TRUE(outcome.report);
  EXPECT_EQ(outcome.logits, computed(prompt.tokens));
}

TEST_F(PassagesTest, BadRangesAreRefused) {
  open();
  const Prompt good = prompt_of({kA, kB});
  const std::size_t size = good.tokens.size();
  const std::vector<std::vector<Passages::Range>> bad{
      {{.begin = 5, .end = 5}},
      {{.begin = 9, .end = 3}},
      {{.begin = 3, .end = size}},
      {{.begin = 3, .end = size + 9}},
      {{.begin = 0, .end = 20}, {.begin = 19, .end = 30}}};
  for (const auto& ranges : bad) {
    const Outcome& refused = ask({.tokens = good.tokens, .passages = {.ranges = ranges}});
    ASSERT_FALSE(refused.report);
    EXPECT_EQ(refused.report.error().code, ErrorCode::kInvalidArgument);
  }
  const Outcome& both = ask(good, {.window = {.cells = 64, .sink = 4}});
  ASSERT_FALSE(both.report);
  EXPECT_EQ(both.report.error().code, ErrorCode::kInvalidArgument);
}

// Too few cells for all at once: what was placed is placed again after a preemption.
TEST_F(PassagesTest, ManyJobsOverFewCellsAllEnd) {
  open({.cells = 300, .block_cells = 4}, {.jobs_max = 6});
  ask(prompt_of({kA, kB, kC}));
  const std::vector<std::vector<TokenVector>> orders{
      {kA, kC, kB}, {kB, kA, kC}, {kB, kC, kA}, {kC, kA, kB}, {kC, kB, kA}};
  std::vector<Outcome*> outcomes;
  for (int round = 0; round < 4; ++round) {
    for (const auto& order : orders) outcomes.push_back(&add(prompt_of(order), {}, 30));
  }
  run();
  for (const Outcome* outcome : outcomes) {
    ASSERT_TRUE(outcome->report) << outcome->report.error().message;
    EXPECT_GT(outcome->report->moved, 0U);
  }
  EXPECT_GT(batcher_->counters().preempted, 0U);
  batcher_.reset();
  cache_->drop("", {});
  EXPECT_EQ(runtime_->sequence_count(), 0U);
}

}  // namespace
}  // namespace incipit::engine
