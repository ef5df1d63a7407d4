// SPDX-License-Identifier: Apache-2.0
//
// Which prefixes get files, when, and what of them is read: between passes, as a scheduler does it.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "kv/prefix_cache.h"
#include "support/cache_requests.h"
#include "support/fake_runtime.h"
#include "support/must.h"
#include "support/states.h"
#include "support/temp_dir.h"

namespace incipit::kv {
namespace {

namespace fs = std::filesystem;
using test::FakeRuntime;
using test::must;
using test::run_of;

// Ones, then twos from token 150 to 299.
TokenVector two_halves(std::size_t count) {
  TokenVector tokens = run_of(1, count);
  std::fill(tokens.begin() + 150, tokens.begin() + 300, 2);
  return tokens;
}

// The first half of `whole`, and something else behind it.
TokenVector turned_off(const TokenVector& whole) {
  TokenVector tokens(whole.begin(), whole.begin() + 150);
  tokens.insert(tokens.end(), {5, 6, 7});
  return tokens;
}

class PrefixCacheFiles : public testing::Test {
 protected:
  // Like a start on what is there.
  void open(std::size_t cells, KvOptions options = {}) {
    cache_.reset();
    folder_.reset();
    events_.clear();
    runtime_ = std::make_unique<FakeRuntime>(test::FakeOptions{.cells = cells});
    folder_ = must(store::StateFolder::open(
        {.path = path_,
         .fingerprint = runtime_->fingerprint(),
         .bytes_max = 10'000'000,
         .on_event = [this](const std::string& event) { events_.push_back(event); }}));
    options.break_even = false;
    cache_ = std::make_unique<PrefixCache>(*runtime_, folder_.get(), options,
                                           [this] { return now_ms_; });
  }
  KvLookup ask(const TokenVector& tokens) { return test::ask(*cache_, *runtime_, tokens); }
  KvLookup ask_twice(const TokenVector& tokens) {
    ask(tokens);
    return ask(tokens);
  }
  // The cells of a prompt as the cache gives them, and as they are when computed.
  void expect_right_cells(const TokenVector& tokens) {
    const auto cells = [&](const model::Sequence& sequence) {
      return must(runtime_->save(sequence.id(), 0, tokens.size() - 1));
    };
    PrefixLease lease = must(cache_->acquire({.tokens = tokens, .limit = tokens.size() - 1}));
    ASSERT_EQ(lease.lookup.matched, tokens.size() - 1);
    const auto fresh = must(model::Sequence::create(*runtime_));
    const model::Step step{.sequence = fresh.id(), .tokens = tokens, .logits_rows = {}};
    must(runtime_->evaluate({&step, 1}));
    EXPECT_EQ(cells(lease.sequence), cells(fresh));
  }
  [[nodiscard]] std::vector<fs::path> files() const {
    std::vector<fs::path> paths;
    for (const auto& file : fs::directory_iterator(path_))
      if (file.path().string().find(".safetensors") != std::string::npos) paths.push_back(file);
    return paths;
  }

  std::int64_t now_ms_ = 1;
  test::TempDir dir_;
  std::string path_ = dir_.path("states");
  std::vector<std::string> events_;
  std::unique_ptr<FakeRuntime> runtime_;
  std::unique_ptr<store::StateFolder> folder_;
  std::unique_ptr<PrefixCache> cache_;
};

// 300 cells are five pieces, and as many calls; one begins, and one hears that it is done.
TEST_F(PrefixCacheFiles, APrefixIsWrittenWithinBoundedSteps) {
  open(2000);
  ask_twice(run_of(1, 301));
  int steps = 0;
  for (; folder_->entries().empty() && steps < 20; ++steps) {
    cache_->write_behind();
    folder_->wait();
    EXPECT_LE(cache_->counters().memory_bytes, 2000U) << "one piece waits, and is counted";
  }
  EXPECT_EQ(steps, 7);
  EXPECT_EQ(folder_->entries().front()->pieces.size(), 5U);
  open(2000);
  EXPECT_EQ(ask(run_of(1, 302)).restored, 300U);
}

TEST_F(PrefixCacheFiles, PiecesAreOfOneMomentWhateverHappensBetweenThem) {
  open(700, {.memory_bytes = 0});
  const TokenVector prompt = run_of(1, 301);
  ask_twice(prompt);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(cache_->write_behind());
  for (Token other = 2; other < 20; ++other) ask(run_of(other, 150));
  EXPECT_EQ(runtime_->sequence_count(), cache_->entries().size() + 1) << "one more is held";
  cache_->finish_writing();
  EXPECT_FALSE(folder_->entries().empty());
  open(700);
  expect_right_cells(prompt);
}

TEST_F(PrefixCacheFiles, WhoNeedsTheCellsOfAFileToBeGetsThem) {
  open(700, {.memory_bytes = 50'000});
  ask_twice(run_of(1, 600));
  ASSERT_TRUE(cache_->write_behind());
  ASSERT_TRUE(cache_->write_behind());
  EXPECT_TRUE(folder_->is_on_its_way());
  EXPECT_TRUE(cache_->make_room(700));
  EXPECT_FALSE(folder_->is_on_its_way()) << "given up";
  EXPECT_EQ(runtime_->cells_free(), 700U);
  cache_->finish_writing();
  EXPECT_EQ(cache_->counters().written, 1U) << "out of memory";
  EXPECT_EQ(cache_->counters().write_errors, 0U);
  open(2000);
  expect_right_cells(run_of(1, 600));
}

TEST_F(PrefixCacheFiles, WhatIsDroppedIsGoneFromTheDiskAtOnce) {
  for (int steps = 0; steps < 9; ++steps) {
    open(2000);
    ask_twice(run_of(1, 301));
    ask_twice(run_of(2, 301));
    for (int i = 0; i < steps; ++i) {
      cache_->write_behind();
      if (i % 2 == 0) folder_->wait();
    }
    cache_->drop("", run_of(1, 10));
    for (const fs::path& file : files()) {
      if (file.extension() == store::kDraftEnding) continue;
      EXPECT_NE(must(store::read_state_facts(file)).tokens.front(), 1) << "after " << steps;
    }
    cache_->finish_writing();
    open(2000);
    EXPECT_EQ(ask(run_of(1, 301)).matched, 0U) << "after " << steps;
    cache_->drop("", {});
    EXPECT_TRUE(files().empty());
  }
}

TEST_F(PrefixCacheFiles, AFullDiskIsSaidOnceAndTriedAgainLater) {
  open(2000);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  ::getrlimit(RLIMIT_FSIZE, &old);
  const rlimit small{.rlim_cur = 1000, .rlim_max = old.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  for (Token first = 1; first < 4; ++first) {
    ask_twice(run_of(first, 301));
    cache_->finish_writing();
    now_ms_ += 10'000;
  }
  EXPECT_EQ(events_.size(), 1U);
  EXPECT_EQ(cache_->counters().write_errors, 3U);
  cache_->finish_writing();
  EXPECT_TRUE(files().empty());
  for (Token first = 1; first < 4; ++first) EXPECT_EQ(ask(run_of(first, 301)).matched, 300U);
  ::setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_FALSE(cache_->write_behind()) << "not at once: each try takes cells out of the runtime";
  now_ms_ += 10'000;
  cache_->finish_writing();
  EXPECT_EQ(folder_->entries().size(), 3U);
}

// The clock of lives and priorities is a steady one; where it jumps all the same, what goes first
// from the folder does not change.
TEST_F(PrefixCacheFiles, AClockThatJumpsChangesNoOrder) {
  const auto order_after = [this](const std::vector<std::int64_t>& times) {
    fs::remove_all(path_);
    for (const std::int64_t time : times) {
      now_ms_ = time;
      open(2000);
      for (Token first = 1; first < 6; ++first) {
        now_ms_ = times[static_cast<std::size_t>(first) % times.size()];
        ask_twice(run_of(first * 7 % 5 + 1, 40));
      }
      now_ms_ = time + 100'000;
      cache_->finish_writing();
    }
    std::vector<TokenVector> order;
    for (const store::StateFacts* facts : folder_->entries()) order.push_back(facts->tokens);
    return order;
  };
  const auto steady = order_after({1, 1000, 2000, 3000});
  EXPECT_EQ(steady.size(), 5U);
  EXPECT_EQ(order_after({1'000'000, 5, 9'000'000'000'000, 400}), steady);
}

// A prompt that shares the beginning of one that only a file has.
TEST_F(PrefixCacheFiles, ThePartAboveASplitIsFoundAfterARestart) {
  const TokenVector whole = two_halves(300);
  open(2000);
  ask_twice(whole);
  cache_->finish_writing();
  open(2000);
  const TokenVector other = turned_off(whole);
  EXPECT_EQ(ask(other).restored, 150U);
  ask(other);
  cache_->finish_writing();
  open(2000);
  expect_right_cells(other);
  expect_right_cells(whole);
  open(2000);
  expect_right_cells(whole);
  expect_right_cells(other);
}

TEST_F(PrefixCacheFiles, OnlyTheNeededPiecesOfAFileAreRead) {
  const TokenVector whole = two_halves(301);
  open(2000);
  ask_twice(whole);
  cache_->finish_writing();
  const store::StateFacts facts = *folder_->entries().front();
  ASSERT_EQ(facts.pieces.size(), 5U);
  {
    std::fstream file(path_ + "/" + facts.id + ".safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(facts.pieces[3].offset));
    file.put('!');
  }
  open(2000);
  const TokenVector other = turned_off(whole);
  expect_right_cells(TokenVector(other.begin(), other.begin() + 151));
  EXPECT_EQ(cache_->counters().lost, 0U);
  EXPECT_EQ(ask(whole).miss, KvMiss::kLost) << "here the damage is met";
  EXPECT_EQ(ask(whole).matched, 300U);
  ASSERT_EQ(events_.size(), 1U);
  EXPECT_NE(events_[0].find("checksum"), std::string::npos);
}

// In memory the parts of a split are pieces of one whole, too, and are written as it.
TEST_F(PrefixCacheFiles, ASplitInMemoryIsWrittenWhole) {
  TokenVector whole = run_of(1, 300);
  open(400);
  ask_twice(whole);
  EXPECT_TRUE(cache_->make_room(400));
  const TokenVector other = turned_off(whole);
  EXPECT_EQ(ask(other).restored, 150U);
  ask(other);
  EXPECT_TRUE(cache_->make_room(400));
  cache_->finish_writing();
  cache_->check_invariants();
  open(800);
  expect_right_cells(other);
  expect_right_cells(whole);
}

TEST_F(PrefixCacheFiles, AnotherModelsFileSaysWhatDiffers) {
  open(2000);
  const std::string file = dir_.path("other.safetensors");
  must(test::write_state_file(
      file, {.fingerprint = "x", .parts = "model=\\u001b[31m;block size=1", .tokens = {1}},
      std::vector<std::byte>(10)));
  EXPECT_NE(cache_->restore_from(file).error().message.find("of another model (?[31m; here 1)"),
            std::string::npos)
      << cache_->restore_from(file).error().message;
}

}  // namespace
}  // namespace incipit::kv
