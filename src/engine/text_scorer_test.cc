// SPDX-License-Identifier: Apache-2.0
//
// Scorers of several tasks and callers of answers on one scheduler, each on a thread of its own:
// everybody gets the bits that he gets alone.
#include "engine/text_scorer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <thread>

#include "support/batcher_jobs.h"
#include "support/must.h"

namespace incipit::engine {
namespace {

using test::count_from;
using test::FakeRuntime;
using test::must;
using test::Outcome;

decode::LabelTree tree_of(const std::vector<TokenVector>& labels) {
  std::vector<std::string> names;
  std::vector<decode::Surface> surfaces;
  for (const TokenVector& tokens : labels) {
    names.push_back("label " + std::to_string(names.size()));
    surfaces.push_back({names.size() - 1, names.back(), tokens});
  }
  return must(decode::LabelTree::build(names, surfaces, {.scoring = Scoring::kSequence, .end = 9}));
}

std::vector<PromptPart> texts(std::size_t count, Token first) {
  std::vector<PromptPart> parts;
  for (std::size_t i = 0; i < count; ++i) {
    parts.push_back({.suffix = count_from(first + static_cast<Token>(i % 7), 2 + i % 5),
                     .shares_prefix = i % 6 != 5,
                     .questions = {{30, 31}, {32}}});
  }
  return parts;
}

void expect_same(const std::vector<decode::LabelScores>& got,
                 const std::vector<decode::LabelScores>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].error, "");
    EXPECT_EQ(got[i].raw, want[i].raw);
    EXPECT_EQ(got[i].surfaces, want[i].surfaces);
    EXPECT_EQ(got[i].mass, want[i].mass);
  }
}

// A model with its cache and its thread.
struct Road {
  explicit Road(test::FakeOptions options, BatcherLimits limits = {})
      : runtime(options), scheduler(runtime, cache, limits, 64) {}

  TextScorer scorer(const decode::LabelTree* tree, const decode::AnswerTokens* answers,
                    const TokenVector& prefix, const std::string& tenant = "") {
    TextScorer made(scheduler, runtime.limits().context_tokens, tenant, tree, answers);
    must(made.set_prefix(prefix));
    return made;
  }
  // The best tokens behind a prompt.
  TokenVector answer(const TokenVector& prompt, std::size_t tokens) {
    struct Told final : RowReader {
      Told(std::promise<void>& done, Outcome& outcome, std::size_t tokens)
          : done_(done), recorder(outcome, tokens) {}
      Result<std::optional<Token>> read(const model::Logits& logits, std::size_t first_row,
                                        std::size_t rows) override {
        return recorder.read(logits, first_row, rows);
      }
      void finish(Result<JobReport> report) override {
        recorder.finish(std::move(report));
        done_.set_value();
      }
      std::promise<void>& done_;
      test::Recorder recorder;
    };
    std::promise<void> done;
    Outcome outcome;
    Job job{.tokens = prompt};
    job.reader = std::make_unique<Told>(done, outcome, tokens);
    must(scheduler.submit(std::move(job)));
    done.get_future().wait();
    must(outcome.report);
    return outcome.tokens;
  }

  FakeRuntime runtime;
  kv::PrefixCache cache{runtime, nullptr, {}, [] { return 0; }};
  Scheduler scheduler;
};

const TokenVector kFirstPrefix = count_from(0, 80);
const TokenVector kSecondPrefix = count_from(25, 60);
const decode::AnswerTokens kAnswers{.yes = {33}, .no = {34}};
constexpr int kRounds = 6;

TEST(TextScorer, ThreeThreadsGetTheBitsThatEachGetsAlone) {
  const decode::LabelTree tree = tree_of({{20, 21, 22}, {20, 23}, {24}});
  const auto first = texts(40, 3);
  const auto second = texts(25, 9);
  const TokenVector question = count_from(11, 90);
  Road calm({.cells = 100'000});
  const auto want_first = must(calm.scorer(&tree, nullptr, kFirstPrefix).score(first));
  const auto want_second = must(calm.scorer(nullptr, &kAnswers, kSecondPrefix).score(second));
  const TokenVector want_answer = calm.answer(question, 30);
  for (const std::size_t cells : {std::size_t{10'000}, std::size_t{260}}) {
    Road road({.cells = cells, .block_cells = 4}, {.rows_max = 40});
    std::vector<std::jthread> threads;
    threads.emplace_back([&] {
      TextScorer scorer = road.scorer(&tree, nullptr, kFirstPrefix, "first");
      for (int i = 0; i < kRounds; ++i) expect_same(must(scorer.score(first)), want_first);
    });
    threads.emplace_back([&] {
      TextScorer scorer = road.scorer(nullptr, &kAnswers, kSecondPrefix);
      for (int i = 0; i < kRounds; ++i) expect_same(must(scorer.score(second)), want_second);
    });
    threads.emplace_back([&] {
      for (int i = 0; i < kRounds; ++i) EXPECT_EQ(road.answer(question, 30), want_answer);
    });
    threads.clear();
    road.scheduler.inspect([](kv::PrefixCache& cache, const BatcherCounters& counters) {
      cache.check_invariants();
      EXPECT_GT(counters.jobs_most, 1U);
      EXPECT_GT(cache.counters().tokens_matched, 0U);
    });
  }
}

TEST(TextScorer, TheSameTaskTwiceComputesItsPrefixOnce) {
  const decode::LabelTree tree = tree_of({{20}, {24}});
  Road road({});
  TextScorer one = road.scorer(&tree, nullptr, kFirstPrefix);
  TextScorer two = road.scorer(&tree, nullptr, kFirstPrefix);
  const auto parts = texts(5, 3);
  const auto want = must(one.score(parts));
  expect_same(must(two.score(parts)), want);
  road.scheduler.inspect([&](kv::PrefixCache& cache, const BatcherCounters& counters) {
    std::size_t own = 0;
    for (const PromptPart& part : parts) own += part.suffix.size() + 2;
    EXPECT_EQ(counters.rows, 80U + 1 + 2 * own) << "of the second prefix its last token";
    std::size_t kept = 0;
    for (const KvEntry& entry : cache.entries()) kept += entry.end - entry.begin;
    EXPECT_EQ(kept, 80U);
  });
}

TEST(TextScorer, CountsItsOwnTokensAndPasses) {
  const decode::LabelTree tree = tree_of({{20, 21}, {24}});
  Road road({});
  TextScorer scorer = road.scorer(&tree, nullptr, kFirstPrefix);
  road.answer({1, 2, 3}, 4);
  EXPECT_EQ(scorer.counters().passes, 0U);
  must(scorer.score(std::vector<PromptPart>{{.suffix = {1, 2}}, {.suffix = {3}}}));
  EXPECT_EQ(scorer.counters().passes, 2U);
  EXPECT_EQ(scorer.counters().tokens, 3U + 2 * 3);
}

TEST(TextScorer, APrefixBeyondTheCellsIsRefusedByName) {
  const decode::LabelTree tree = tree_of({{20}, {24}});
  Road road({.cells = 50});
  TextScorer scorer(road.scheduler, 1000, "", &tree, nullptr);
  const auto refused = scorer.set_prefix(kFirstPrefix);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(refused.error().message.find("--ctx-size"), std::string::npos);
}

}  // namespace
}  // namespace incipit::engine
