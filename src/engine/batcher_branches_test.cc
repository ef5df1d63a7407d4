// SPDX-License-Identifier: Apache-2.0
//
// Jobs that go on in branches, on the fake runtime: whatever runs beside them and however few the
// cells are, what they read is what a job alone with room for everything reads.
// Tests src/engine/batcher_branches.cc
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>

#include "support/batcher_jobs.h"
#include "support/seed.h"

namespace incipit::engine {
namespace {

using decode::Branch;
using test::count_from;
using test::FakeRuntime;
using test::Outcome;

// Node 0 is the prompt, which has no tokens here.
struct Node {
  TokenVector tokens;
  std::vector<std::size_t> below;
};
using Tree = std::vector<Node>;

// So many branches behind the prompt, and as many behind each of these.
Tree two_levels(Token branches, std::size_t tokens) {
  Tree tree(1);
  for (Token i = 0; i < branches; ++i) {
    const std::size_t upper = tree.size();
    tree[0].below.push_back(upper);
    tree.push_back({.tokens = count_from(20 + i, tokens)});
    for (Token j = 0; j < branches; ++j) {
      tree[upper].below.push_back(tree.size());
      tree.push_back({.tokens = count_from(40 + j, tokens)});
    }
  }
  return tree;
}

// By node: the logits of each of its rows.
struct Walked {
  std::map<std::size_t, std::vector<float>> rows;
  bool is_over = false;
  Result<JobReport> report;
};

class Walker final : public RowReader {
 public:
  Walker(Walked& walked, const Tree& tree) : walked_(walked), tree_(tree) {}

  Result<std::optional<Token>> read(const model::Logits& logits, std::size_t first_row,
                                    std::size_t rows) override {
    keep(0, logits, first_row, rows);
    return std::nullopt;
  }
  std::vector<Branch> branches_below(std::size_t id) override {
    std::vector<Branch> branches;
    for (const std::size_t below : tree_[id].below) {
      branches.push_back({.id = below,
                          .tokens = tree_[below].tokens,
                          .logits_rows = tree_[below].tokens.size(),
                          .has_more = !tree_[below].below.empty()});
    }
    return branches;
  }
  void read_branch(std::size_t id, const model::Logits& logits, std::size_t first_row) override {
    keep(id, logits, first_row, tree_[id].tokens.size());
  }
  void finish(Result<JobReport> report) override {
    EXPECT_FALSE(walked_.is_over) << "finished twice";
    walked_.is_over = true;
    walked_.report = std::move(report);
  }

 private:
  void keep(std::size_t id, const model::Logits& logits, std::size_t first_row, std::size_t rows) {
    std::vector<float>& kept = walked_.rows[id];
    kept.clear();
    for (std::size_t row = first_row; row < first_row + rows; ++row)
      kept.insert(kept.end(), logits.row(row).begin(), logits.row(row).end());
  }

  Walked& walked_;
  const Tree& tree_;
};

class BranchesTest : public test::BatcherJobs {
 protected:
  void open(test::FakeOptions options, BatcherLimits limits = {}, KvOptions kv = {}) {
    close();
    runtime_ = std::make_unique<FakeRuntime>(options);
    cache_ = std::make_unique<kv::PrefixCache>(*runtime_, nullptr, kv, [] { return 0; });
    batcher_ = std::make_unique<Batcher>(*runtime_, *cache_, limits);
  }
  // Of `tokens` the first `opening` are shared.
  Walked& walk(const TokenVector& tokens, const Tree& tree, std::size_t opening = 0,
               const std::string& tenant = "") {
    Walked& walked = *walked_.emplace_back(std::make_unique<Walked>());
    batcher_->add(++last_id_, job(walked, tokens, tree, opening, tenant));
    return walked;
  }
  static Job job(Walked& walked, const TokenVector& tokens, const Tree& tree, std::size_t opening,
                 const std::string& tenant) {
    Job job{.tenant = tenant, .tokens = tokens, .opening = opening, .tokens_below = 1};
    job.reader = std::make_unique<Walker>(walked, tree);
    return job;
  }
  // The same alone, with room for everything.
  static Walked alone(const TokenVector& tokens, const Tree& tree) {
    FakeRuntime runtime({.cells = 100'000});
    kv::PrefixCache cache(runtime, nullptr, {}, [] { return 0; });
    Batcher batcher(runtime, cache, {});
    Walked walked;
    batcher.add(1, job(walked, tokens, tree, 0, ""));
    while (batcher.step()) {
    }
    return walked;
  }
  static void expect_as_alone(const Walked& walked, const TokenVector& tokens, const Tree& tree) {
    ASSERT_TRUE(walked.is_over);
    ASSERT_TRUE(walked.report) << walked.report.error().message;
    EXPECT_EQ(walked.rows, alone(tokens, tree).rows);
    EXPECT_EQ(walked.rows.size(), tree.size());
  }

  std::vector<std::unique_ptr<Walked>> walked_;
};

TEST_F(BranchesTest, TakeOnePassForEachLevelWhereThereIsRoom) {
  open({});
  const Tree tree = two_levels(3, 2);
  const Walked& one = walk({1, 2, 3}, tree);
  const Walked& two = walk({4, 5}, tree);
  run();
  expect_as_alone(one, {1, 2, 3}, tree);
  expect_as_alone(two, {4, 5}, tree);
  EXPECT_EQ(batcher_->counters().passes, 3U);
  EXPECT_EQ(batcher_->counters().rows, 5U + 2 * (3 + 9) * 2);
  EXPECT_EQ(batcher_->counters().jobs_most, 2U);
  EXPECT_EQ(one.report->computed, 3U + (3 + 9) * 2);
  EXPECT_EQ(one.report->first_pass, 1U);
  EXPECT_EQ(one.report->last_pass, 3U);
  EXPECT_EQ(runtime_->sequence_count(), 0U);
}

// Nothing is shared: the least is a prompt and one path, with what forks waste.
TEST_F(BranchesTest, FewCellsCostPassesAndChangeNothing) {
  const Tree tree = two_levels(3, 2);
  const std::vector<TokenVector> prompts{{1, 2, 3}, {4, 5}, {6}, {7, 8, 9, 10}};
  for (const std::size_t block : {1, 4}) {
    for (std::size_t cells = block == 1 ? 8 : 20; cells < 60; ++cells) {
      open({.cells = cells, .block_cells = block});
      const std::size_t free = runtime_->cells_free();
      for (const TokenVector& prompt : prompts) walk(prompt, tree);
      run();
      for (std::size_t i = 0; i < prompts.size(); ++i)
        expect_as_alone(*walked_[walked_.size() - prompts.size() + i], prompts[i], tree);
      EXPECT_EQ(runtime_->cells_free(), free);
    }
  }
}

TEST_F(BranchesTest, FewSequencesChangeNothing) {
  const Tree tree = two_levels(5, 1);
  open({.sequences = 12});
  for (Token i = 0; i < 8; ++i) walk({i, 9}, tree);
  run();
  for (Token i = 0; i < 8; ++i)
    expect_as_alone(*walked_[static_cast<std::size_t>(i)], {i, 9}, tree);
  EXPECT_EQ(runtime_->sequence_count(), 0U);
}

TEST_F(BranchesTest, WhatDoesNotFitAloneIsRefusedAlone) {
  open({.cells = 20});
  const Tree small = two_levels(1, 2);
  const Tree large = two_levels(1, 10);
  const Walked& fits = walk({1, 2}, small);
  const Walked& refused = walk({1, 2}, large);
  const Walked& too = walk({3}, small);
  run();
  expect_as_alone(fits, {1, 2}, small);
  expect_as_alone(too, {3}, small);
  ASSERT_FALSE(refused.report);
  EXPECT_EQ(refused.report.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(runtime_->cells_free(), 20U);
}

TEST_F(BranchesTest, AFailedPassEndsItsJobsOnceAndDropsTheirForks) {
  const Tree tree = two_levels(3, 2);
  for (std::size_t nth = 1; nth <= 3; ++nth) {
    open({});
    runtime_->fail_evaluate(nth);
    const Walked& one = walk({1, 2, 3}, tree);
    const Walked& two = walk({4, 5}, tree);
    run();
    EXPECT_EQ(one.report.error().code, ErrorCode::kInternal);
    EXPECT_EQ(two.report.error().code, ErrorCode::kInternal);
    EXPECT_EQ(runtime_->sequence_count(), 0U);
  }
}

TEST_F(BranchesTest, OfAJobTheOpeningIsKeptAndNoMore) {
  open({});
  const Tree tree = two_levels(2, 2);
  const TokenVector opening = count_from(0, 50);
  for (Token i = 0; i < 10; ++i) {
    TokenVector prompt = opening;
    prompt.insert(prompt.end(), {9, i, 9});
    walk(prompt, tree, opening.size());
  }
  run();
  EXPECT_EQ(batcher_->counters().rows, 50U + 10 * (3 + (2 + 4) * 2));
  const auto entries = cache_->entries();
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].tokens, opening);
  EXPECT_FALSE(entries[0].is_leased);
}

// From memory, or computed again.
TEST_F(BranchesTest, AnOpeningThatWasEvictedComesBack) {
  const Tree tree = two_levels(2, 2);
  const TokenVector prompt = count_from(0, 60);
  for (const std::size_t memory : {0, 1'000'000}) {
    open({.cells = 100}, {}, {.memory_bytes = memory, .second_sight = false, .break_even = false});
    const Walked& before = walk(prompt, tree, 57);
    run();
    const Outcome& other = add_job({.tokens = count_from(30, 90)}, std::size_t{1});
    run();
    EXPECT_TRUE(other.report) << "an opening is in nobody's way";
    const Walked& after = walk(prompt, tree, 57);
    run();
    if (memory == 0) {
      EXPECT_LT(after.report->lookup.matched, 57U) << "it was not evicted";
    } else {
      EXPECT_GT(after.report->lookup.restored, 0U);
    }
    expect_as_alone(before, prompt, tree);
    expect_as_alone(after, prompt, tree);
  }
}

TEST_F(BranchesTest, ACancelledJobLeavesItsOpening) {
  const Tree tree = two_levels(3, 2);
  for (int passes = 0; passes < 4; ++passes) {
    open({}, {.rows_max_alone = 60});
    const Walked& walked = walk(count_from(0, 60), tree, 57);
    for (int i = 0; i < passes; ++i) batcher_->step();
    batcher_->cancel(last_id_);
    run();
    ASSERT_TRUE(walked.is_over);
    if (passes < 3) {
      EXPECT_EQ(walked.report.error().code, ErrorCode::kCancelled);
    }
    EXPECT_EQ(runtime_->cells_free(), runtime_->limits().cells - (passes == 0 ? 0 : 57));
  }
}

// Two hundred texts wait; an answer asked for among them is served after those before it, or at
// once where another tenant asks, and goes on in every pass.
TEST_F(BranchesTest, AnAnswerIsServedWithinAFewPasses) {
  for (const std::string tenant : {"", "other"}) {
    open({.cells = 20'000}, {.rows_max = 100});
    const Tree tree = two_levels(2, 2);
    for (Token i = 0; i < 200; ++i) walk({i % 60, 7, i % 50, 8, 9, 1, 2, 3}, tree, 0);
    batcher_->step();
    const std::uint64_t before = batcher_->counters().passes;
    Outcome& answer = add_job({.tenant = tenant, .tokens = count_from(9, 50)}, std::size_t{5});
    for (int pass = 0; pass < 200 && !answer.is_over; ++pass) batcher_->step();
    ASSERT_TRUE(answer.is_over);
    // Each text has 20 rows: one of the same tenant stands behind at most 200 of them.
    const std::uint64_t bound = tenant.empty() ? 200 * 20 / 100 + 10 : 15;
    EXPECT_LE(batcher_->counters().passes - before, bound);
    if (!tenant.empty()) {
      EXPECT_FALSE(walked_.back()->is_over) << "it waited for everybody";
    }
    run();
  }
}

// Few cells, three tenants, answers and texts that share openings, cancellations.
class AnyForest : public BranchesTest, public testing::WithParamInterface<std::uint64_t> {
 protected:
  Tree any_tree() {
    Tree tree(1);
    for (std::size_t i = 1; i < 2 + random_() % 6; ++i) {
      tree[random_() % i].below.push_back(i);
      tree.push_back({.tokens = count_from(static_cast<Token>(random_() % 60), 1 + random_() % 4)});
    }
    return tree;
  }
  void ask() {
    TokenVector tokens(3 + random_() % 60, static_cast<Token>(random_() % 2));
    tokens.back() = static_cast<Token>(random_() % 60);
    const std::string tenant(1, static_cast<char>('a' + random_() % 3));
    if (random_() % 3 == 0) {
      add_job({.tenant = tenant, .tokens = tokens}, random_() % 5);
      return;
    }
    trees_.push_back(std::make_unique<Tree>(any_tree()));
    asked_.push_back(tokens);
    walk(tokens, *trees_.back(), random_() % tokens.size(), tenant);
  }

  std::mt19937_64 random_{test::seed_of(GetParam())};
  std::vector<std::unique_ptr<Tree>> trees_;
  std::vector<TokenVector> asked_;
};

TEST_P(AnyForest, ReadsWhatEachJobAloneReads) {
  open({.cells = 200, .block_cells = 4, .sequences = GetParam() % 2 == 0 ? 0U : 24U},
       {.jobs_max = 6, .rows_max = 24, .rows_max_alone = 40, .logits_rows_max = 12},
       {.second_sight = false});
  for (int round = 0; round < 300; ++round) {
    for (std::size_t i = random_() % 4; i > 0; --i) ask();
    for (std::size_t pass = random_() % 8; pass > 0; --pass) {
      batcher_->step();
      cache_->check_invariants();
    }
    if (random_() % 10 == 0) batcher_->cancel(1 + random_() % (last_id_ + 1));
  }
  run();
  std::size_t matched = 0;
  for (std::size_t i = 0; i < asked_.size(); ++i) {
    ASSERT_TRUE(walked_[i]->is_over);
    if (!walked_[i]->report) {
      ASSERT_EQ(walked_[i]->report.error().code, ErrorCode::kCancelled)
          << walked_[i]->report.error().message;
      continue;
    }
    expect_as_alone(*walked_[i], asked_[i], *trees_[i]);
    matched += walked_[i]->report->lookup.matched;
  }
  for (const auto& outcome : outcomes_) EXPECT_TRUE(outcome->is_over);
  EXPECT_GT(matched, 500U) << "a test of hits without hits";
  batcher_.reset();
  for (const char* tenant : {"a", "b", "c"}) cache_->drop(tenant, {});
  EXPECT_EQ(runtime_->sequence_count(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, AnyForest, testing::Range<std::uint64_t>(0, 10));

}  // namespace
}  // namespace incipit::engine
