// SPDX-License-Identifier: Apache-2.0
//
// The attention check on the fake runtime, whose head 0 looks for cells of a row's own token: cells
// of another prompt under these tokens are found, whichever level they lie on, and never answered
// from.
// Tests src/engine/batcher_attention.cc
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "engine/batcher.h"
#include "store/state_file.h"
#include "support/batcher_jobs.h"
#include "support/must.h"
#include "support/seed.h"
#include "support/states.h"
#include "support/temp_dir.h"

namespace incipit::engine {
namespace {

using test::FakeRuntime;
using test::joined;
using test::must;
using test::Outcome;
using test::Recorder;

constexpr Token kTokens = 8;  // So few that every row has its like in the prefix.

class BatcherAttention : public test::BatcherJobs {
 protected:
  void open(KvOptions kv, bool with_folder = false, std::size_t cells = 4096) {
    close();
    runtime_ = std::make_unique<FakeRuntime>(
        test::FakeOptions{.cells = cells, .block_cells = 4, .shows_attention = true});
    if (with_folder) {
      folder_ = must(store::StateFolder::open({.path = dir_.path("states"),
                                               .fingerprint = runtime_->fingerprint(),
                                               .bytes_max = 1U << 20U}));
    }
    cache_ = std::make_unique<kv::PrefixCache>(*runtime_, folder_.get(), kv, [] { return 0; });
    batcher_ = std::make_unique<Batcher>(*runtime_, *cache_,
                                         BatcherLimits{.jobs_max = 6,
                                                       .rows_max = 24,
                                                       .rows_max_alone = 40,
                                                       .attention_check = kv.attention_check});
  }
  void open() { open({.attention_check = check()}); }
  static AttentionCheck check(double threshold = 0.3) {
    return {.heads = {{0, 0}}, .threshold = threshold};
  }
  TokenVector random_tokens(std::size_t count) {
    TokenVector tokens(count);
    for (Token& token : tokens) token = static_cast<Token>(random_() % kTokens);
    return tokens;
  }
  model::Sequence computed(TokenSpan tokens) {
    cache_->make_room(tokens.size() + runtime_->limits().fork_cells);
    model::Sequence sequence = must(model::Sequence::create(*runtime_));
    const model::Step step{.sequence = sequence.id(), .tokens = tokens, .logits_rows = {}};
    must(runtime_->evaluate({&step, 1}));
    return sequence;
  }
  // Cells of other tokens, from `right` on, under these.
  model::Sequence forged(TokenSpan tokens, std::size_t right = 0) {
    const auto part = static_cast<std::ptrdiff_t>(right);
    TokenVector others(tokens.begin(), tokens.begin() + part);
    const TokenVector more = random_tokens(tokens.size() - right);
    others.insert(others.end(), more.begin(), more.end());
    return computed(others);
  }
  Outcome& ask(const TokenVector& tokens, bool writes_cache = true) {
    return add_job({.tokens = tokens, .writes_cache = writes_cache}, std::size_t{2});
  }
  // Run to its end, and the same as without a cache.
  const Outcome& answered(const TokenVector& tokens, bool writes_cache = true) {
    const Outcome& outcome = ask(tokens, writes_cache);
    run();
    expect_right(outcome, tokens);
    return outcome;
  }
  static void expect_right(const Outcome& outcome, const TokenVector& tokens) {
    FakeRuntime runtime({.cells = 4096});
    kv::PrefixCache cache(runtime, nullptr, {}, [] { return 0; });
    Batcher batcher(runtime, cache, {.drafts = false});
    Outcome expected;
    Job job{.tokens = tokens, .reads_cache = false, .writes_cache = false};
    job.reader = std::make_unique<Recorder>(expected, std::size_t{2});
    batcher.add(1, std::move(job));
    while (batcher.step()) {
    }
    ASSERT_TRUE(outcome.is_over);
    ASSERT_TRUE(outcome.report) << outcome.report.error().message;
    EXPECT_EQ(outcome.tokens, expected.tokens);
    EXPECT_EQ(outcome.logits, expected.logits);
  }

  test::TempDir dir_;
  std::mt19937_64 random_{test::seed_of(11)};
};

TEST_F(BatcherAttention, WrongCellsAreFoundAndLeaveNothing) {
  open();
  const TokenVector prefix = random_tokens(60);
  cache_->commit("", prefix, forged(prefix));
  const TokenVector prompt = joined(prefix, random_tokens(12));
  const Outcome& first = answered(prompt);
  EXPECT_EQ(first.report->lookup.miss, KvMiss::kSuspect);
  EXPECT_EQ(first.report->lookup.matched, 0U);
  EXPECT_EQ(first.report->computed, 12 + prompt.size() + 2);
  EXPECT_EQ(batcher_->counters().looked_at, 1U);
  EXPECT_EQ(batcher_->counters().suspects, 1U);
  EXPECT_EQ(batcher_->counters().suspects_wrong, 1U);
  EXPECT_EQ(cache_->counters().tokens_matched, 0U) << "what was computed was not reused";
  const Outcome& second = answered(prompt);
  EXPECT_EQ(second.report->lookup.matched, prompt.size() - 1);
  EXPECT_EQ(batcher_->counters().suspects, 1U);
}

TEST_F(BatcherAttention, WithoutItWrongCellsAnswer) {
  open({});
  const TokenVector prefix = random_tokens(60);
  cache_->commit("", prefix, forged(prefix));
  const TokenVector prompt = joined(prefix, random_tokens(12));
  const Outcome& outcome = ask(prompt);
  run();
  const Outcome& computed = add_job({.tokens = prompt, .reads_cache = false}, std::size_t{2});
  run();
  EXPECT_NE(outcome.logits, computed.logits) << "the other tests would pass without a check";
  EXPECT_EQ(batcher_->counters().looked_at, 0U);
}

TEST_F(BatcherAttention, RightHitsAreLeftInPeace) {
  open();
  const TokenVector prefix = random_tokens(60);
  for (int i = 0; i < 20; ++i) {
    const TokenVector prompt = joined(prefix, random_tokens(12));
    const Outcome& outcome = answered(prompt);
    EXPECT_GE(outcome.report->lookup.matched, i == 0 ? 0 : prefix.size());
  }
  EXPECT_EQ(batcher_->counters().looked_at, 19U);
  EXPECT_EQ(batcher_->counters().suspects, 0U);
}

TEST_F(BatcherAttention, AFalseAlarmCostsTimeAndKeepsTheEntry) {
  open({.attention_check = check(0.99)});
  const TokenVector prefix = random_tokens(60);
  cache_->commit("", prefix, computed(prefix));
  const TokenVector prompt = joined(prefix, random_tokens(12));
  const Outcome& outcome = answered(prompt, false);
  EXPECT_EQ(outcome.report->lookup.miss, KvMiss::kSuspect);
  EXPECT_EQ(batcher_->counters().suspects, 1U);
  EXPECT_EQ(batcher_->counters().suspects_wrong, 0U);
  EXPECT_EQ(cache_->matched({.tenant = "", .tokens = prompt, .limit = prompt.size()}), 60U);
}

TEST_F(BatcherAttention, AFewTokensAreNotWorthALook) {
  open({.attention_check = check(0.99)});
  const TokenVector prefix = random_tokens(31);
  cache_->commit("", prefix, computed(prefix));
  const TokenVector prompt = joined(prefix, random_tokens(12));
  const Outcome& outcome = answered(prompt);
  EXPECT_EQ(outcome.report->lookup.matched, 31U);
  EXPECT_EQ(batcher_->counters().looked_at, 0U);
}

TEST_F(BatcherAttention, WhatIsRightBeforeTheFirstWrongCellStays) {
  open({.attention_check = check(0.99)});
  const TokenVector prefix = random_tokens(120);
  cache_->commit("", TokenSpan(prefix).first(40), computed(TokenSpan(prefix).first(40)));
  cache_->commit("", prefix, forged(prefix, 80));
  const TokenVector prompt = joined(prefix, random_tokens(12));
  answered(prompt, false);
  EXPECT_EQ(batcher_->counters().suspects_wrong, 1U);
  EXPECT_EQ(cache_->matched({.tenant = "", .tokens = prompt, .limit = prompt.size()}), 40U);
}

// One row is too few to have its like, and a prefix may hold none of a row's tokens.
TEST_F(BatcherAttention, WhatCannotBeJudgedIsUsed) {
  open();
  const TokenVector prefix(60, 20);
  cache_->commit("", prefix, computed(prefix));
  const TokenVector prompt = joined(prefix, {30, 31, 32});
  const Outcome& outcome = answered(prompt);
  EXPECT_EQ(outcome.report->lookup.matched, 60U);
  EXPECT_EQ(batcher_->counters().looked_at, 0U);
}

TEST_F(BatcherAttention, WrongCellsInMemoryAreDroppedThere) {
  open({.second_sight = false, .break_even = false, .attention_check = check()});
  const TokenVector prefix = random_tokens(60);
  cache_->commit("", prefix, forged(prefix));
  cache_->make_room(runtime_->limits().cells);
  ASSERT_GT(cache_->counters().memory_bytes, 0U);
  const TokenVector prompt = joined(prefix, random_tokens(12));
  answered(prompt, false);
  EXPECT_EQ(batcher_->counters().suspects_wrong, 1U);
  EXPECT_EQ(cache_->counters().memory_bytes, 0U);
  EXPECT_EQ(cache_->counters().tokens_restored, 0U);
  EXPECT_TRUE(cache_->entries().empty());
}

// A file whose every checksum is right, and whose cells are another prompt's.
TEST_F(BatcherAttention, WrongCellsInAFileAreDroppedThere) {
  open({.attention_check = check()}, true);
  const TokenVector prefix = random_tokens(60);
  const model::Sequence other = forged(prefix);
  store::StateFacts facts{.fingerprint = runtime_->fingerprint(), .tenant = "a", .tokens = prefix};
  must(test::write_state_file(dir_.path("forged"), facts, must(runtime_->save(other.id(), 0, 60))));
  must(cache_->restore_from(dir_.path("forged")));
  ASSERT_EQ(folder_->entries().size(), 1U);
  const TokenVector prompt = joined(prefix, random_tokens(12));
  const Outcome& outcome =
      add_job({.tenant = "a", .tokens = prompt, .writes_cache = false}, std::size_t{2});
  run();
  expect_right(outcome, prompt);
  EXPECT_EQ(batcher_->counters().suspects_wrong, 1U);
  EXPECT_TRUE(folder_->entries().empty());
}

// What every tenant may use lies under no tenant's name.
TEST_F(BatcherAttention, WrongCellsOfAPublicOpeningAreDropped) {
  open();
  const TokenVector prefix = random_tokens(60);
  cache_->publish(prefix);
  cache_->commit("a", prefix, forged(prefix));
  ASSERT_EQ(cache_->matched({.tenant = "b", .tokens = prefix, .limit = 60}), 60U);
  const TokenVector prompt = joined(prefix, random_tokens(12));
  answered(prompt, false);
  EXPECT_EQ(batcher_->counters().suspects_wrong, 1U);
  EXPECT_EQ(cache_->matched({.tenant = "b", .tokens = prefix, .limit = 60}), 0U);
}

// A second job stands on the same wrong cells and ends after they were found.
TEST_F(BatcherAttention, WhoeverStillUsesDroppedCellsDoesNotBringThemBack) {
  open();
  const TokenVector prefix = random_tokens(60);
  cache_->commit("", prefix, forged(prefix));
  const TokenVector unseen(prefix.begin(), prefix.begin() + 60);
  // Its only new token is one row, too few to be judged: it runs on, with a long answer.
  const TokenVector user = joined(unseen, {kTokens + 50});
  add_job({.tokens = user}, std::size_t{30});
  batcher_->step();
  const TokenVector prompt = joined(prefix, random_tokens(12));
  answered(prompt);
  ASSERT_EQ(batcher_->counters().suspects_wrong, 1U);
  run();
  answered(joined(user, random_tokens(12)));
  EXPECT_EQ(batcher_->counters().suspects, 1U) << "it was met again";
}

// A second job forks from the first before that one has looked at what it stands on.
TEST_F(BatcherAttention, DoubtGoesWithAFork) {
  open();
  const TokenVector prefix = random_tokens(60);
  cache_->commit("", prefix, forged(prefix));
  const TokenVector first_prompt = joined(prefix, random_tokens(100));
  Outcome& first = ask(first_prompt);
  batcher_->step();
  ASSERT_TRUE(first.logits.empty());
  const TokenVector second_prompt =
      joined(TokenVector(first_prompt.begin(), first_prompt.begin() + 80), {1, 2, 3});
  const Outcome& second = ask(second_prompt);
  run();
  expect_right(first, first_prompt);
  expect_right(second, second_prompt);
  EXPECT_EQ(batcher_->counters().suspects, 2U);
}

TEST_F(BatcherAttention, AJobThatIsReadInManyRowsReadsItsOwn) {
  open();
  const TokenVector prefix = random_tokens(60);
  const TokenVector prompt = joined(prefix, random_tokens(30));
  std::vector<std::vector<float>> logits;
  for (const bool is_hit : {false, true}) {
    if (is_hit) cache_->commit("", prefix, computed(prefix));
    const Outcome& outcome =
        add_job({.tokens = prompt, .logits_rows = 20, .writes_cache = false}, std::size_t{0});
    run();
    EXPECT_EQ(outcome.report->lookup.matched, is_hit ? 60U : 0U);
    logits.push_back(outcome.logits);
  }
  EXPECT_EQ(logits[0], logits[1]);
  EXPECT_EQ(batcher_->counters().looked_at, 1U);
}

// Random prompts over prefixes that are right or forged, in too few cells, on every level: each
// answer is that of a run alone. The argument is the seed.
class AnyForgery : public BatcherAttention, public testing::WithParamInterface<std::uint64_t> {};

TEST_P(AnyForgery, NeverAnswers) {
  random_.seed(test::seed_of(GetParam()));
  // A shorter match would hold too little to judge.
  open({.tokens_min = 20,
        .memory_bytes = 8000,
        .second_sight = false,
        .break_even = false,
        .attention_check = check()},
       true, 800);
  std::vector<TokenVector> prefixes;
  std::vector<std::pair<TokenVector, Outcome*>> asked;
  for (int round = 0; round < 150; ++round) {
    if (prefixes.empty() || random_() % 4 == 0) {
      // Each opens with a token of its own: a wrong cell or two of an opening that others share
      // would not be seen by looking at attention.
      prefixes.push_back(random_tokens(40 + random_() % 40));
      prefixes.back()[0] = kTokens + static_cast<Token>(prefixes.size() % 55);
      const TokenVector& prefix = prefixes.back();
      if (random_() % 2 == 0) cache_->commit("", prefix, forged(prefix));
    }
    for (std::size_t i = random_() % 4; i > 0; --i) {
      const TokenVector& prefix = prefixes[prefixes.size() - 1 - random_() % prefixes.size() / 2];
      TokenVector prompt = joined(prefix, random_tokens(8 + random_() % 12));
      Outcome& outcome = ask(prompt);
      asked.emplace_back(std::move(prompt), &outcome);
    }
    for (std::size_t pass = random_() % 6; pass > 0; --pass) {
      batcher_->step();
      cache_->check_invariants();
    }
    if (random_() % 16 == 0) cache_->write_behind();
  }
  run();
  for (const auto& [prompt, outcome] : asked) expect_right(*outcome, prompt);
  const BatcherCounters& counters = batcher_->counters();
  EXPECT_GT(counters.suspects_wrong, 3U);
  EXPECT_GT(counters.looked_at, 2 * counters.suspects) << "most hits are right";
  EXPECT_GT(cache_->counters().tokens_restored, 0U);
  close();
  EXPECT_EQ(runtime_->sequence_count(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, AnyForgery, testing::Range<std::uint64_t>(0, 4));

}  // namespace
}  // namespace incipit::engine
