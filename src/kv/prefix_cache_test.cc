// SPDX-License-Identifier: Apache-2.0
//
// Reasons and retention. That hits change nothing is shown in engine/batcher_test.cc.
// Tests src/policy/kv_miss.cc
// Tests src/kv/prefix_cache_eviction.cc
#include "kv/prefix_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "support/cache_requests.h"
#include "support/fake_runtime.h"
#include "support/must.h"
#include "support/seed.h"
#include "support/states.h"
#include "support/temp_dir.h"

namespace incipit::kv {
namespace {

using test::FakeRuntime;
using test::must;
using test::run_of;

class PrefixCacheTest : public testing::Test {
 protected:
  void open(std::size_t cells, const KvOptions& options = {}, std::size_t folder_bytes = 0) {
    cache_.reset();
    folder_.reset();
    runtime_ = std::make_unique<FakeRuntime>(test::FakeOptions{.cells = cells});
    if (folder_bytes > 0)
      folder_ = must(store::StateFolder::open({.path = options.folder,
                                               .fingerprint = runtime_->fingerprint(),
                                               .bytes_max = folder_bytes}));
    cache_ = std::make_unique<PrefixCache>(*runtime_, folder_.get(), options,
                                           [this] { return now_ms_; });
  }
  KvLookup ask(const TokenVector& tokens, const CommitOptions& options = {},
               std::string_view tenant = "") {
    return test::ask(*cache_, *runtime_, tokens, options, tenant);
  }
  KvLookup explain(const TokenVector& tokens, std::string_view tenant = "") {
    return cache_->explain({.tenant = tenant, .tokens = tokens, .limit = tokens.size() - 1});
  }

  std::int64_t now_ms_ = 1;
  std::unique_ptr<FakeRuntime> runtime_;
  std::unique_ptr<store::StateFolder> folder_;
  std::unique_ptr<PrefixCache> cache_;
};

TEST_F(PrefixCacheTest, ARuntimeWithFewSequencesEvictsForThem) {
  runtime_ = std::make_unique<FakeRuntime>(test::FakeOptions{.cells = 4000, .sequences = 24});
  cache_ = std::make_unique<PrefixCache>(*runtime_, nullptr, KvOptions{.memory_bytes = 100'000},
                                         [this] { return now_ms_; });
  for (int round = 0; round < 3; ++round) {
    for (Token first = 0; first < 60; ++first) ask(run_of(first, 20));
    EXPECT_GE(runtime_->sequences_free(), 5U);
  }
  EXPECT_GT(runtime_->cells_free(), 2000U) << "sequences ran out, not cells";
  EXPECT_EQ(ask(run_of(59, 20)).matched, 19U);
  EXPECT_GT(cache_->counters().tokens_restored, 0U);
}

TEST_F(PrefixCacheTest, SaysWhyItMissed) {
  open(100, {.tokens_min = 4, .memory_bytes = 0});
  EXPECT_EQ(ask(run_of(1, 20)).miss, KvMiss::kNeverCached);
  EXPECT_EQ(ask(run_of(1, 20)).miss, KvMiss::kNone);
  EXPECT_EQ(explain({1, 1, 9, 9, 9, 9}).miss, KvMiss::kTooShort);
  EXPECT_EQ(explain({1, 1, 9, 9, 9, 9}).first_missing, 2U);
  EXPECT_EQ(explain(run_of(1, 20), "other").miss, KvMiss::kOtherTenant);
  ask(run_of(2, 95));
  EXPECT_EQ(explain(run_of(1, 20)).miss, KvMiss::kEvicted);
  EXPECT_EQ(explain(run_of(3, 20)).miss, KvMiss::kNeverCached);
  cache_->drop("", run_of(2, 3));
  EXPECT_EQ(explain(run_of(2, 96)).miss, KvMiss::kDropped);
  ask(run_of(4, 10), {.ttl_ms = 50});
  EXPECT_EQ(explain(run_of(4, 10)).matched, 9U);
  now_ms_ = 60;
  EXPECT_EQ(ask(run_of(4, 10)).miss, KvMiss::kExpired);
}

TEST_F(PrefixCacheTest, EveryReasonHasAName) {
  std::set<std::string> names;
  for (int i = 0; i <= static_cast<int>(KvMiss::kSlower); ++i)
    names.insert(to_string(static_cast<KvMiss>(i)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(KvMiss::kSlower) + 1);
  EXPECT_FALSE(names.contains("unknown"));
}

TEST_F(PrefixCacheTest, WhatIsUsedOftenStaysThroughOneOffPrompts) {
  open(1000);
  const TokenVector system = run_of(1, 200);
  for (Token i = 0; i < 60; ++i) {
    TokenVector prompt = system;
    prompt.push_back(2);
    prompt.insert(prompt.end(), 40, i);
    ask(prompt);
    ask(run_of(static_cast<Token>(2 + i), 150));
  }
  EXPECT_GE(explain(run_of(1, 201)).matched, 200U);
}

TEST_F(PrefixCacheTest, APinKeepsAndRunsOutAndIsCapped) {
  open(100, {.memory_bytes = 0, .protected_share = 0.5});
  ask(run_of(1, 30), {.priority = 1, .protect_ms = 1000});
  ask(run_of(2, 30), {.priority = 1, .protect_ms = 1000});
  for (Token i = 3; i < 20; ++i) ask(run_of(i, 40));
  EXPECT_EQ(explain(run_of(1, 31)).matched, 30U);
  EXPECT_EQ(explain(run_of(2, 31)).matched, 0U) << "half of the cells are protected already";
  now_ms_ += 2000;
  for (Token i = 20; i < 40; ++i) ask(run_of(i, 40));
  EXPECT_EQ(explain(run_of(1, 31)).matched, 0U) << "its time was over";
}

TEST_F(PrefixCacheTest, ATenantKeepsToItsQuota) {
  open(1000, {.memory_bytes = 0, .tenant_cells = 100});
  ask(run_of(1, 50), {}, "quiet");
  for (Token i = 1; i < 30; ++i) ask(run_of(i, 60), {}, "loud");
  std::size_t loud = 0;
  for (const KvEntry& entry : cache_->entries())
    loud += entry.tenant == "loud" ? entry.end - entry.begin : 0;
  EXPECT_LE(loud, 100U);
  EXPECT_EQ(explain(run_of(1, 51), "quiet").matched, 50U);
}

TEST_F(PrefixCacheTest, OneOffPromptsDoNotEnterMemory) {
  open(100);
  for (Token i = 1; i < 40; ++i) ask(run_of(i, 60));
  EXPECT_EQ(cache_->counters().saved, 0U);
  EXPECT_GT(cache_->counters().saved_refused, 30U);
  ask(run_of(1, 60));
  ask(run_of(1, 60));
  ask(run_of(50, 90));
  EXPECT_GT(cache_->counters().saved, 0U);
  const KvLookup back = ask(run_of(1, 60));
  EXPECT_EQ(back.matched, 59U);
  EXPECT_EQ(back.restored, 59U);
}

TEST_F(PrefixCacheTest, AnOpeningThatComesAgainAfterItsEvictionIsSeenTwice) {
  open(100);
  const auto with_question = [](Token opening, Token question) {
    TokenVector prompt = run_of(opening, 64);
    prompt.push_back(question);
    return prompt;
  };
  std::size_t restored = 0;
  for (Token round = 0; round < 4; ++round) {
    for (const Token opening : {1, 2}) restored += ask(with_question(opening, 10 + round)).restored;
  }
  EXPECT_EQ(restored, 4U * 64) << "computed twice, then kept in memory";
}

TEST_F(PrefixCacheTest, MemoryStaysInItsBudget) {
  open(100, {.memory_bytes = 5000, .second_sight = false});
  for (Token i = 1; i < 60; ++i) {
    ask(run_of(i, 50));
    EXPECT_LE(cache_->counters().memory_bytes, 5000U);
  }
  EXPECT_GT(cache_->counters().saved, 10U);
  open(100, {.memory_bytes = 100, .second_sight = false});
  for (Token i = 1; i < 10; ++i) ask(run_of(i, 50));
  EXPECT_EQ(cache_->counters().memory_bytes, 0U);
  EXPECT_GT(cache_->counters().too_large, 0U);
}

TEST_F(PrefixCacheTest, APublicOpeningIsForEveryTenant) {
  open(1000);
  cache_->publish(run_of(1, 30));
  TokenVector prompt = run_of(1, 40);
  prompt.push_back(7);
  ask(prompt, {}, "a");
  EXPECT_EQ(ask(prompt, {}, "b").matched, 30U);
  EXPECT_EQ(ask(prompt, {}, "b").matched, 40U);
  ask(run_of(5, 40), {}, "");
  EXPECT_EQ(ask(run_of(5, 40), {}, "c").matched, 0U) << "no name is a tenant of its own, too";
}

TEST_F(PrefixCacheTest, ALeasedPrefixIsNotEvicted) {
  open(100);
  ask(run_of(1, 50));
  const TokenVector prompt = run_of(1, 51);
  const PrefixLease lease = must(cache_->acquire({.tenant = "", .tokens = prompt, .limit = 50}));
  EXPECT_FALSE(cache_->make_room(100));
  EXPECT_EQ(explain(prompt).matched, 50U);
  EXPECT_EQ(lease.sequence.length(), 50U);
}

TEST_F(PrefixCacheTest, ALeasedPrefixCanBeDropped) {
  open(200);
  ask(run_of(1, 50));
  const TokenVector prompt = run_of(1, 51);
  const auto acquire = [&](std::size_t limit) {
    return must(cache_->acquire({.tenant = "", .tokens = prompt, .limit = limit}));
  };
  const PrefixLease longer = acquire(50);
  const PrefixLease shorter = acquire(20);
  const PrefixLease shared = longer.share();
  EXPECT_EQ(cache_->drop("", TokenSpan(prompt).first(30)), 30U);
  cache_->check_invariants();
  EXPECT_EQ(explain(prompt).matched, 20U);
  EXPECT_EQ(explain(prompt).miss, KvMiss::kDropped);
  EXPECT_TRUE(longer.was_dropped());
  EXPECT_TRUE(shared.was_dropped());
  EXPECT_FALSE(shorter.was_dropped());
  EXPECT_FALSE(PrefixLease().was_dropped());
  EXPECT_EQ(longer.sequence.length(), 50U) << "whoever uses it keeps its cells";
  EXPECT_EQ(longer.tenant(), std::nullopt);
  EXPECT_EQ(shorter.tenant(), "");
}

TEST_F(PrefixCacheTest, ASharedLeaseHoldsThePrefixAsLongAsTheFirst) {
  open(100);
  ask(run_of(1, 50));
  PrefixLease shared;
  {
    const TokenVector prompt = run_of(1, 51);
    const PrefixLease first = must(cache_->acquire({.tokens = prompt, .limit = 50}));
    shared = first.share();
  }
  EXPECT_FALSE(cache_->make_room(100));
  EXPECT_EQ(explain(run_of(1, 51)).matched, 50U);
  shared = {};
  EXPECT_TRUE(cache_->make_room(100));
}

// How many files stand on cells that no file has: they are of no use after a restart.
std::size_t orphans(const store::StateFolder& folder) {
  std::size_t count = 0;
  std::vector<TokenVector> covered;
  std::vector<const store::StateFacts*> states = folder.entries();
  std::ranges::sort(states, {}, &store::StateFacts::begin);
  for (const store::StateFacts* state : states) {
    const auto covers = [state](const TokenVector& path) {
      return path.size() >= state->begin &&
             std::ranges::equal(TokenSpan(path).first(state->begin),
                                TokenSpan(state->tokens).first(state->begin));
    };
    if (state->begin == 0 || std::ranges::any_of(covered, covers))
      covered.push_back(state->tokens);
    else
      ++count;
  }
  return count;
}

TEST_F(PrefixCacheTest, FilesGoLeafFirst) {
  const std::string path = test::scratch("prefix_cache_test");
  std::size_t evicted = 0;
  for (std::uint32_t seed = 1; seed <= 8; ++seed) {
    std::filesystem::remove_all(path);
    open(96, {.second_sight = false, .folder = path}, 20'000);
    std::mt19937_64 random(test::seed_of(seed));
    std::set<std::string> seen;
    for (int round = 0; round < 150; ++round) {
      TokenVector prompt;
      while (prompt.size() < 40)
        prompt.insert(prompt.end(), 1 + random() % 9, static_cast<Token>(random() % 3 + 1));
      ask(prompt);
      cache_->finish_writing();
      ASSERT_EQ(orphans(*folder_), 0U) << "seed " << seed << ", round " << round;
      for (const store::StateFacts* state : folder_->entries()) seen.insert(state->id);
    }
    evicted += seen.size() - folder_->entries().size();
    EXPECT_LE(folder_->bytes(), 20'000U);
  }
  EXPECT_GT(evicted, 100U) << "the folder was never too small";
  cache_.reset();
  folder_.reset();
  std::filesystem::remove_all(path);
}

TEST_F(PrefixCacheTest, CarriesAPromptInAFile) {
  const std::string file = test::scratch("carried.safetensors");
  const std::string path = test::scratch("prefix_cache_test");
  std::filesystem::remove_all(path);
  const TokenVector tokens = run_of(1, 30);
  open(100);
  EXPECT_EQ(cache_->save_to(file, "anna", tokens).error().code, ErrorCode::kUnavailable);
  ask(tokens, {}, "anna");
  must(cache_->save_to(file, "anna", tokens));
  for (const std::size_t folder_bytes : {0, 50'000}) {
    open(100, {.folder = path}, folder_bytes);
    EXPECT_EQ(must(cache_->restore_from(file)), tokens.size());
    cache_->check_invariants();
    EXPECT_EQ(explain(tokens, "anna").matched, 29U);
    EXPECT_EQ(explain(tokens, "bert").miss, KvMiss::kOtherTenant);
    EXPECT_EQ(must(cache_->restore_from(file)), tokens.size()) << "twice is no harm";
    cache_->check_invariants();
    EXPECT_EQ(folder_ ? folder_->entries().size() : 0U, folder_ ? 1U : 0U);
  }
  cache_.reset();
  folder_.reset();
  std::filesystem::remove_all(path);
  std::filesystem::remove(file);
}

// A file of the folder whose cells are fewer than its tokens: a miss, and no end of the process.
TEST_F(PrefixCacheTest, AFileOfFewerCellsIsLost) {
  const std::string path = test::scratch("prefix_cache_test");
  std::filesystem::remove_all(path);
  open(100, {.folder = path}, 50'000);
  const TokenVector tokens = run_of(1, 30);
  const auto sequence = must(model::Sequence::create(*runtime_));
  const model::Step step{
      .sequence = sequence.id(), .tokens = TokenSpan(tokens).first(20), .logits_rows = {}};
  must(runtime_->evaluate({&step, 1}));
  must(test::write_state(*folder_, {.tokens = tokens}, must(runtime_->save(sequence.id(), 0, 20))));
  cache_ = std::make_unique<PrefixCache>(*runtime_, folder_.get(), KvOptions{.break_even = false},
                                         [this] { return now_ms_; });
  EXPECT_EQ(explain(tokens).matched, 29U);
  EXPECT_EQ(ask(tokens).matched, 0U);
  EXPECT_EQ(cache_->counters().lost, 1U);
  cache_.reset();
  folder_.reset();
  std::filesystem::remove_all(path);
}

TEST_F(PrefixCacheTest, RefusesAStrangersFile) {
  const std::string file = test::scratch("stranger.safetensors");
  open(100);
  const TokenVector tokens = run_of(1, 30);
  ask(tokens);
  const auto sequence = must(model::Sequence::create(*runtime_));
  const model::Step step{.sequence = sequence.id(), .tokens = tokens, .logits_rows = {}};
  must(runtime_->evaluate({&step, 1}));
  const auto cells = must(runtime_->save(sequence.id(), 0, tokens.size()));
  const auto refusal = [&](store::StateFacts facts) {
    must(test::write_state_file(file, facts, cells));
    const auto restored = cache_->restore_from(file);
    EXPECT_FALSE(restored);
    cache_->check_invariants();
    return restored ? ErrorCode::kInternal : restored.error().code;
  };
  const std::string ours = runtime_->fingerprint();
  EXPECT_EQ(refusal({.fingerprint = "of another", .tokens = tokens}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal({.fingerprint = ours, .tokens = tokens, .begin = 3}),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal({.fingerprint = ours, .tokens = run_of(1, 29)}), ErrorCode::kCorruption);
  EXPECT_EQ(refusal({.fingerprint = ours, .tokens = run_of(-1, 30)}), ErrorCode::kCorruption);
  EXPECT_EQ(refusal({.fingerprint = ours, .tokens = run_of(1 << 30, 30)}), ErrorCode::kCorruption);
  EXPECT_EQ(refusal({.fingerprint = ours, .tenant = std::string("\0public", 7), .tokens = tokens}),
            ErrorCode::kCorruption);
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace incipit::kv
