// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "support/fake_runtime.h"
#include "support/must.h"
#include "support/temp_dir.h"

namespace incipit::engine {
namespace {

using test::FakeRuntime;
using test::must;

struct Answer {
  TokenVector tokens;
  Result<JobReport> report;
};

// Greedy, for a number of tokens.
class Greedy final : public RowReader {
 public:
  Greedy(std::promise<Answer> done, std::size_t tokens) : done_(std::move(done)), left_(tokens) {}

  Result<std::optional<Token>> read(const model::Logits& logits, std::size_t first_row,
                                    std::size_t rows) override {
    const auto row = logits.row(first_row + rows - 1);
    if (left_-- == 0) return std::nullopt;
    answer_.tokens.push_back(static_cast<Token>(std::ranges::max_element(row) - row.begin()));
    return answer_.tokens.back();
  }
  void finish(Result<JobReport> report) override {
    answer_.report = std::move(report);
    done_.set_value(std::move(answer_));
  }

 private:
  std::promise<Answer> done_;
  std::size_t left_;
  Answer answer_;
};

class SchedulerTest : public testing::Test {
 protected:
  void open(std::size_t queue_max) {
    scheduler_ = std::make_unique<Scheduler>(runtime_, cache_, BatcherLimits{}, queue_max);
  }
  Result<Batcher::JobId> submit(const TokenVector& tokens, std::size_t answer,
                                std::future<Answer>& future) {
    std::promise<Answer> done;
    future = done.get_future();
    Job job{.tokens = tokens};
    job.reader = std::make_unique<Greedy>(std::move(done), answer);
    return scheduler_->submit(std::move(job));
  }

  FakeRuntime runtime_{{.context_tokens = 100'000, .cells = 200'000}};
  kv::PrefixCache cache_{runtime_, nullptr, {}, [] { return 0; }};
  std::unique_ptr<Scheduler> scheduler_;
};

TEST_F(SchedulerTest, ManyThreadsGetTheirOwnAnswers) {
  open(1000);
  const auto prompt = [](int caller, int round) {
    return TokenVector{1, 2, 3, 4, 5, static_cast<Token>(caller), static_cast<Token>(round), 9};
  };
  std::vector<std::vector<TokenVector>> answers(8);
  {
    std::vector<std::jthread> callers;
    for (int caller = 0; caller < 8; ++caller) {
      callers.emplace_back([&, caller] {
        for (int round = 0; round < 25; ++round) {
          std::future<Answer> future;
          must(submit(prompt(caller, round), 5, future));
          answers[static_cast<std::size_t>(caller)].push_back(future.get().tokens);
        }
      });
    }
  }
  for (int caller = 0; caller < 8; ++caller) {
    for (int round = 0; round < 25; ++round) {
      std::future<Answer> alone;
      must(submit(prompt(caller, round), 5, alone));
      EXPECT_EQ(answers[static_cast<std::size_t>(caller)][static_cast<std::size_t>(round)],
                alone.get().tokens);
    }
  }
  scheduler_->inspect([](kv::PrefixCache& cache, const BatcherCounters& counters) {
    EXPECT_GT(cache.counters().tokens_matched, 0U);
    EXPECT_GT(counters.passes, 0U);
    cache.check_invariants();
  });
}

TEST_F(SchedulerTest, AFullQueueRefusesAndTakesAgain) {
  open(2);
  std::future<Answer> first;
  std::future<Answer> second;
  std::future<Answer> third;
  const auto one = must(submit({1, 2, 3}, 50'000, first));
  const auto two = must(submit({4, 5, 6}, 50'000, second));
  const auto refused = submit({7, 8, 9}, 1, third);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  scheduler_->cancel(one);
  scheduler_->cancel(two);
  EXPECT_EQ(first.get().report.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(second.get().report.error().code, ErrorCode::kCancelled);
  must(submit({7, 8, 9}, 1, third));
  EXPECT_TRUE(third.get().report);
}

TEST_F(SchedulerTest, TheEndTellsEveryCaller) {
  open(100);
  std::vector<std::future<Answer>> futures(20);
  for (auto& future : futures) must(submit({1, 2, 3}, 90'000, future));
  scheduler_.reset();
  for (auto& future : futures) EXPECT_EQ(future.get().report.error().code, ErrorCode::kCancelled);
}

// One caller decodes without end: the model is never idle.
TEST_F(SchedulerTest, PrefixesGetFilesWhileTheModelIsBusy) {
  const test::TempDir dir;
  const auto folder = must(store::StateFolder::open({.path = dir.path("states"),
                                                     .fingerprint = runtime_.fingerprint(),
                                                     .bytes_max = 100'000'000}));
  kv::PrefixCache cache(runtime_, folder.get(), {}, [] { return 0; });
  scheduler_ = std::make_unique<Scheduler>(runtime_, cache, BatcherLimits{}, 100);
  std::future<Answer> endless;
  must(submit({1, 2, 3}, 99'000, endless));
  {
    std::vector<std::jthread> callers;
    for (Token caller = 0; caller < 4; ++caller) {
      callers.emplace_back([&, caller] {
        TokenVector prompt(200, caller);
        for (Token round = 0; round < 5; ++round) {
          prompt.back() = round;
          std::future<Answer> future;
          must(submit(prompt, 2, future));
          EXPECT_TRUE(future.get().report);
        }
      });
    }
  }
  std::uint64_t written = 0;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (written < 4 && std::chrono::steady_clock::now() < until) {
    scheduler_->inspect(
        [&](kv::PrefixCache& busy, const BatcherCounters&) { written = busy.counters().written; });
  }
  EXPECT_GE(written, 4U);
  EXPECT_EQ(endless.wait_for(std::chrono::seconds(0)), std::future_status::timeout)
      << "it was idle in between: this proves nothing";
  scheduler_.reset();
  endless.get();
}

}  // namespace
}  // namespace incipit::engine
