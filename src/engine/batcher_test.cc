// SPDX-License-Identifier: Apache-2.0
//
// On the fake runtime: whatever runs beside a job, its logits are those of a run of its own.
// Tests src/engine/batcher_start.cc
// Tests src/kv/prefix_cache_files.cc
#include "engine/batcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "support/batcher_jobs.h"
#include "support/must.h"
#include "support/seed.h"
#include "support/temp_dir.h"

namespace incipit::engine {
namespace {

using test::count_from;
using test::FakeRuntime;
using test::joined;
using test::must;
using test::Outcome;
using test::Recorder;

class BatcherTest : public test::BatcherJobs {
 protected:
  void open(std::size_t cells, KvOptions kv = {}, BatcherLimits limits = {},
            std::uint64_t folder_bytes = 0, std::size_t sequences = 0) {
    close();
    runtime_ = std::make_unique<FakeRuntime>(
        test::FakeOptions{.cells = cells, .block_cells = 4, .sequences = sequences});
    if (folder_bytes > 0) {
      folder_ = must(store::StateFolder::open({.path = dir_.path("states"),
                                               .fingerprint = runtime_->fingerprint(),
                                               .bytes_max = folder_bytes}));
    }
    cache_ =
        std::make_unique<kv::PrefixCache>(*runtime_, folder_.get(), kv, [this] { return now_ms_; });
    batcher_ = std::make_unique<Batcher>(*runtime_, *cache_, limits);
  }
  template <typename Answer>
  Outcome& add(const TokenVector& tokens, Answer answer, Job job = {}) {
    job.tokens = tokens;
    return add_job(std::move(job), std::move(answer));
  }
  // The same job alone on a fresh runtime without a cache.
  static Outcome alone(const TokenVector& tokens, std::size_t answer) {
    FakeRuntime runtime({.cells = 4096});
    kv::PrefixCache cache(runtime, nullptr, {}, [] { return 0; });
    Batcher batcher(runtime, cache, {.drafts = false});
    Outcome outcome;
    Job job{.tokens = tokens, .reads_cache = false, .writes_cache = false};
    job.reader = std::make_unique<Recorder>(outcome, answer);
    batcher.add(1, std::move(job));
    while (batcher.step()) {
    }
    return outcome;
  }
  static void expect_as_alone(const Outcome& outcome, const TokenVector& tokens,
                              std::size_t answer) {
    const Outcome expected = alone(tokens, answer);
    ASSERT_TRUE(outcome.is_over);
    ASSERT_TRUE(outcome.report) << outcome.report.error().message;
    EXPECT_EQ(outcome.tokens, expected.tokens);
    EXPECT_EQ(outcome.logits, expected.logits);
  }

  test::TempDir dir_;
  std::int64_t now_ms_ = 0;
};

TEST_F(BatcherTest, ARepeatComputesOneToken) {
  open(4096);
  const TokenVector prompt = count_from(0, 100);
  add(prompt, 3);
  run();
  const Outcome& again = add(prompt, 3);
  run();
  expect_as_alone(again, prompt, 3);
  EXPECT_EQ(again.report->lookup.matched, 99U);
  EXPECT_EQ(again.report->computed, 4U) << "the last prompt token and three answers";
  EXPECT_EQ(again.report->lookup.miss, KvMiss::kNone);
}

TEST_F(BatcherTest, GeneratedTokensAreReused) {
  open(4096);
  const TokenVector prompt = count_from(0, 50);
  const Outcome first = (add(prompt, 10), run(), std::move(*outcomes_.back()));
  const TokenVector next = joined(joined(prompt, first.tokens), {7, 8, 9});
  const Outcome& second = add(next, 2);
  run();
  expect_as_alone(second, next, 2);
  EXPECT_EQ(second.report->lookup.matched, 60U);
}

TEST_F(BatcherTest, WhatIsDroppedWhileItIsUsedDoesNotComeBack) {
  open(4096);
  const TokenVector prompt = count_from(0, 50);
  add(prompt, 0);
  run();
  const Outcome& hit = add(joined(prompt, {1, 2}), 20);
  batcher_->step();
  const Outcome& shared = add(joined(prompt, {1, 3}), 30);
  batcher_->step();
  ASSERT_FALSE(hit.is_over);
  EXPECT_EQ(cache_->drop("", prompt), 50U);
  // It may not take the cells from those that still use them either.
  const Outcome& after = add(joined(prompt, {1, 2, 5}), 1, {.writes_cache = false});
  run();
  EXPECT_EQ(hit.report->lookup.matched, 50U);
  EXPECT_EQ(shared.report->shared, 51U);
  EXPECT_EQ(after.report->lookup.matched, 0U);
  expect_as_alone(hit, joined(prompt, {1, 2}), 20);
  expect_as_alone(shared, joined(prompt, {1, 3}), 30);
  EXPECT_EQ(cache_->matched({.tenant = "", .tokens = prompt, .limit = 50}), 0U);
}

TEST_F(BatcherTest, RightDraftsHalveThePasses) {
  const TokenVector prompt = joined(count_from(0, 60), count_from(0, 10));
  const TokenVector text = count_from(10, 40);
  const Outcome* outcomes[2];
  std::uint64_t passes[2];
  for (const bool drafts : {false, true}) {
    open(4096, {}, {.drafts = drafts});
    outcomes[drafts] = &add(prompt, text);
    run();
    passes[drafts] = batcher_->counters().passes;
  }
  EXPECT_EQ(outcomes[1]->tokens, outcomes[0]->tokens);
  EXPECT_EQ(outcomes[1]->logits, outcomes[0]->logits);
  EXPECT_EQ(passes[0], 41U);
  EXPECT_EQ(passes[1], 21U);
  EXPECT_EQ(outcomes[1]->report->accepted, 20U);
  // The cells of right drafts are as good as others, and a match may end in them.
  const Outcome& next = add(joined(joined(prompt, text), {7, 8}), 2);
  run();
  expect_as_alone(next, joined(joined(prompt, text), {7, 8}), 2);
  EXPECT_EQ(next.report->lookup.matched, prompt.size() + text.size());
}

TEST_F(BatcherTest, WrongDraftsEndSoonAndLeaveNothing) {
  open(4096);
  // Ever "1 2", and each time another token behind it.
  TokenVector text;
  for (Token i = 3; i < 60; ++i) text.insert(text.end(), {i, 1, 2});
  const Outcome& outcome = add({1, 2}, text);
  run();
  EXPECT_EQ(outcome.report->accepted, 0U);
  EXPECT_GT(outcome.report->drafted, 0U);
  EXPECT_LE(outcome.report->drafted, 5U);
  EXPECT_EQ(outcome.report->computed, 2 + text.size() + outcome.report->drafted);
  const TokenVector whole = joined(joined({1, 2}, text), {5});
  const Outcome& next = add(whole, 1);
  run();
  expect_as_alone(next, whole, 1);
  EXPECT_EQ(next.report->lookup.matched, whole.size() - 1);
}

TEST_F(BatcherTest, SixtyFourCallersComputeANewPrefixOnce) {
  open(8192);
  const TokenVector prefix = count_from(3, 1000);
  std::vector<TokenVector> prompts;
  for (Token i = 0; i < 64; ++i) prompts.push_back(joined(prefix, {i % 60, 59 - i % 50, 5}));
  std::vector<Outcome*> outcomes;
  for (const TokenVector& prompt : prompts) outcomes.push_back(&add(prompt, 2));
  run();
  for (std::size_t i = 0; i < prompts.size(); ++i) expect_as_alone(*outcomes[i], prompts[i], 2);
  EXPECT_LE(runtime_->counters().rows, 1000U + 64 * (3 + 2));
}

TEST_F(BatcherTest, ABusyPrefixIsShared) {
  open(4096);
  const TokenVector prompt = count_from(0, 300);
  Outcome& first = add(prompt, 200);
  for (int pass = 0; pass < 20; ++pass) batcher_->step();
  ASSERT_FALSE(first.is_over);
  const TokenVector other = joined(prompt, {1, 1, 1});
  const Outcome& second = add(other, 2);
  while (!second.is_over) batcher_->step();
  EXPECT_FALSE(first.is_over) << "the second did not wait for the first to end";
  EXPECT_GE(second.report->lookup.matched, 300U);
  run();
  expect_as_alone(second, other, 2);
  expect_as_alone(first, prompt, 200);
}

TEST_F(BatcherTest, WhatACallerLeftHalfDoneIsKept) {
  open(4096, {}, {.rows_max_alone = 100});
  const TokenVector prompt = count_from(0, 400);
  const Outcome& first = add(prompt, 1);
  batcher_->step();
  batcher_->step();
  batcher_->cancel(last_id_);
  ASSERT_TRUE(first.is_over);
  EXPECT_EQ(first.report.error().code, ErrorCode::kCancelled);
  const Outcome& second = add(prompt, 1);
  run();
  EXPECT_EQ(second.report->lookup.matched, 200U);
  expect_as_alone(second, prompt, 1);
}

TEST_F(BatcherTest, WaitersGoOnWhenTheOneTheyWaitForGivesUp) {
  open(4096, {}, {.rows_max = 100});
  const TokenVector prefix = count_from(0, 400);
  const TokenVector one = joined(prefix, {1});
  const TokenVector two = joined(prefix, {2});
  add(one, 1);
  const Outcome& second = add(two, 1);
  batcher_->step();
  batcher_->cancel(1);
  run();
  expect_as_alone(second, two, 1);
  EXPECT_EQ(second.report->lookup.matched, 100U);
}

TEST_F(BatcherTest, TenantsTakeTurns) {
  open(100'000, {}, {.jobs_max = 4, .rows_max = 100});
  for (int i = 0; i < 40; ++i)
    add(joined({static_cast<Token>(i)}, count_from(1, 500)), 0, {.tenant = "many"});
  batcher_->step();
  const Outcome& one = add(count_from(9, 300), 0, {.tenant = "few"});
  for (int pass = 0; pass < 60 && !one.is_over; ++pass) batcher_->step();
  EXPECT_TRUE(one.is_over) << "one prompt of three passes waited for forty of five";
  run();
}

TEST_F(BatcherTest, NothingCrossesBetweenTenants) {
  open(4096);
  const TokenVector prompt = count_from(0, 100);
  add(prompt, 0, {.tenant = "a"});
  run();
  const Outcome& other = add(prompt, 0, {.tenant = "b"});
  run();
  EXPECT_EQ(other.report->lookup.matched, 0U);
  const kv::Wanted wanted{.tenant = "c", .tokens = prompt, .limit = 99};
  EXPECT_EQ(cache_->explain(wanted).miss, KvMiss::kOtherTenant);
}

TEST_F(BatcherTest, TooManyJobsForTheCellsAllEndRight) {
  open(260, {.memory_bytes = 0});
  std::vector<TokenVector> prompts;
  for (Token i = 0; i < 12; ++i) prompts.push_back(count_from(i * 5, 40));
  std::vector<Outcome*> outcomes;
  for (const TokenVector& prompt : prompts) outcomes.push_back(&add(prompt, 30));
  run();
  for (std::size_t i = 0; i < prompts.size(); ++i) expect_as_alone(*outcomes[i], prompts[i], 30);
  EXPECT_GT(batcher_->counters().preempted, 0U);
}

TEST_F(BatcherTest, ARuntimeWithFewSequencesServesAsManyJobsAsAnother) {
  open(8000, {}, {}, 0, 20);
  std::vector<TokenVector> prompts;
  for (Token i = 0; i < 60; ++i) prompts.push_back(count_from(i, 30));
  std::vector<Outcome*> outcomes;
  for (const TokenVector& prompt : prompts)
    outcomes.push_back(&add(prompt, 5, {.reads_cache = prompt[0] % 3 != 0}));
  run();
  for (std::size_t i = 0; i < prompts.size(); ++i) expect_as_alone(*outcomes[i], prompts[i], 5);
  EXPECT_EQ(batcher_->counters().jobs_most, 5U) << "a quarter of the sequences";
}

TEST_F(BatcherTest, AJobThatCanNeverRunIsRefusedByReason) {
  open(100);
  const Outcome& no_cells = add(count_from(0, 200), 1);
  const Outcome& too_long = add(count_from(0, 3000), 1);
  const Outcome& empty = add({}, 1);
  const Outcome& unknown = add({1, 99'999}, 1);
  run();
  EXPECT_EQ(no_cells.report.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(too_long.report.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(empty.report.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(unknown.report.error().code, ErrorCode::kInvalidArgument);
}

TEST_F(BatcherTest, AFailedPassIsToldAndTheNextJobRuns) {
  open(1000);
  runtime_->fail_evaluate(1);
  const TokenVector prompt = count_from(0, 20);
  const Outcome& failed = add(prompt, 1);
  run();
  EXPECT_EQ(failed.report.error().code, ErrorCode::kInternal);
  const Outcome& next = add(prompt, 1);
  run();
  expect_as_alone(next, prompt, 1);
  EXPECT_EQ(next.report->lookup.matched, 0U) << "cells of a failed pass are not kept";
}

// Random prompts over a small alphabet, so that they share openings of every length; too few
// cells, two tenants, cancellations, priorities, expiry, drops. Every job that ends gives the bits
// of a run of its own. The argument is the seed.
class AnyMix : public BatcherTest, public testing::WithParamInterface<std::uint64_t> {
 protected:
  struct Asked {
    TokenVector tokens;
    std::size_t answer = 0;
    Outcome* outcome = nullptr;
  };

  void ask() {
    TokenVector tokens(2 + random_() % 80);
    const auto other = static_cast<Token>(1 + random_() % 2);
    for (Token& token : tokens) token = random_() % 20 == 0 ? other : 0;
    Job job{.tenant = random_() % 2 == 0 ? "a" : "b"};
    job.commit = {.priority = static_cast<int>(random_() % 2),
                  .protect_ms = static_cast<std::int64_t>(random_() % 50),
                  .ttl_ms = static_cast<std::int64_t>(random_() % 3 == 0 ? random_() % 100 : 0)};
    const std::size_t answer = random_() % 6;
    Outcome& outcome = add(tokens, answer, std::move(job));
    asked_.push_back({std::move(tokens), answer, &outcome});
  }
  void operate() {
    for (std::size_t i = random_() % 4; i > 0; --i) ask();
    for (std::size_t pass = random_() % 6; pass > 0; --pass) {
      batcher_->step();
      cache_->check_invariants();
    }
    if (random_() % 10 == 0) batcher_->cancel(1 + random_() % (last_id_ + 1));
    if (random_() % 30 == 0) cache_->drop("a", {});
    now_ms_ += static_cast<std::int64_t>(random_() % 20);
  }

  void check() {
    std::size_t matched = 0;
    for (const Asked& one : asked_) {
      ASSERT_TRUE(one.outcome->is_over);
      if (!one.outcome->report) {
        ASSERT_EQ(one.outcome->report.error().code, ErrorCode::kCancelled)
            << one.outcome->report.error().message;
        continue;
      }
      expect_as_alone(*one.outcome, one.tokens, one.answer);
      matched += one.outcome->report->lookup.matched;
    }
    EXPECT_GT(matched, 1000U) << "a test of hits without hits";
  }

  KvOptions options_{
      .memory_bytes = 200'000, .second_sight = false, .break_even = false, .tenant_cells = 300};
  BatcherLimits limits_{.jobs_max = 6, .rows_max = 24, .rows_max_alone = 40};

  std::mt19937_64 random_{test::seed_of(GetParam())};
  std::vector<Asked> asked_;
};

TEST_P(AnyMix, GivesTheBitsOfARunAlone) {
  open(600, options_, limits_);
  for (int round = 0; round < 1000; ++round) operate();
  run();
  check();
  EXPECT_GT(cache_->counters().tokens_restored, 100U) << "nothing came back from memory";
  EXPECT_GT(cache_->counters().expiries, 0U);
  batcher_.reset();
  for (const char* tenant : {"a", "b"}) cache_->drop(tenant, {});
  EXPECT_TRUE(cache_->entries().empty());
  EXPECT_EQ(runtime_->sequence_count(), 0U);
}

// With files: little memory, so that much is written, and a restart now and then.
TEST_P(AnyMix, GivesTheSameBitsOverRestarts) {
  options_.memory_bytes = 6'000;
  std::uint64_t restored = 0;
  for (int run_count = 0; run_count < 5; ++run_count) {
    open(600, options_, limits_, 60'000);
    for (int round = 0; round < 60; ++round) {
      operate();
      cache_->write_behind();
    }
    run();
    cache_->finish_writing();
    cache_->check_invariants();
    EXPECT_LE(folder_->bytes(), 60'000U);
    restored += cache_->counters().tokens_restored;
    EXPECT_GT(cache_->counters().written, 0U);
    EXPECT_EQ(cache_->counters().lost, 0U);
  }
  check();
  EXPECT_GT(restored, 100U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, AnyMix, testing::Range<std::uint64_t>(0, 10));

}  // namespace
}  // namespace incipit::engine
