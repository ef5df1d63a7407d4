// SPDX-License-Identifier: Apache-2.0
//
// Generation on a real model: whatever is cached, and whoever asks at once, the bits are those of
// a request that computed everything itself.
// Tests src/engine/generator_impl.cc
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "incipit/engine.h"
#include "integration/same_answer.h"
#include "support/installed_models.h"
#include "support/must.h"
#include "support/seed.h"
#include "support/temp_dir.h"

namespace incipit {
namespace {

using test::drawn_answer;
using test::expect_same;
using test::must;

class GeneratorOnModel : public testing::Test {
 protected:
  void open(std::size_t cells, const GeneratorOptions& options) {
    generator_.reset();
    engine_ = must(Engine::open({.model = test::smollm_path(), .ctx_size = cells}));
    generator_ = must(engine_->generator(options));
  }
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Generator> generator_;
};

TEST_F(GeneratorOnModel, AnswersAChatTwiceTheSame) {
  open(2048, {});
  GenerateRequest request;
  request.turns = {{"system", "You are a helpful clerk."}, {"user", "Where is my parcel?"}};
  request.tokens_max = 12;
  std::string streamed;
  request.on_text = [&](std::string_view text) {
    streamed += text;
    return true;
  };
  const Generated first = must(generator_->generate(request));
  EXPECT_FALSE(first.text.empty());
  EXPECT_EQ(streamed, first.text);
  streamed.clear();
  const Generated second = must(generator_->generate(request));
  expect_same(first, second);
  EXPECT_EQ(second.kv.matched, second.kv.tokens - 1);
  EXPECT_EQ(must(generator_->explain(request)).miss, KvMiss::kNone);
}

TEST_F(GeneratorOnModel, DraftsChangeNothing) {
  GenerateRequest request;
  request.turns = {{"user", "Repeat ten times: red, green, blue, red, green, blue, red, green."}};
  request.tokens_max = 60;
  request.sampling.logprobs = 3;
  Generated answers[2];
  for (const bool drafts : {false, true}) {
    open(2048, {.drafts = drafts});
    answers[drafts] = must(generator_->generate(request));
    const GeneratorCounters counters = generator_->counters();
    EXPECT_EQ(counters.drafted > 0, drafts);
    EXPECT_EQ(counters.accepted > 0, drafts);
  }
  expect_same(answers[0], answers[1]);
}

TEST_F(GeneratorOnModel, StopsWhereItIsTold) {
  open(2048, {});
  GenerateRequest request;
  request.turns = {{"user", "Count from one to ten in words."}};
  request.tokens_max = 30;
  const Generated whole = must(generator_->generate(request));
  ASSERT_GT(whole.text.size(), 8U);
  request.sampling.stop = {whole.text.substr(5, 3)};
  const Generated cut = must(generator_->generate(request));
  EXPECT_EQ(cut.text, whole.text.substr(0, whole.text.find(request.sampling.stop[0])));
  EXPECT_EQ(cut.finish, FinishReason::kStop);
  request.sampling.stop.clear();
  request.tokens_max = 3;
  EXPECT_EQ(must(generator_->generate(request)).finish, FinishReason::kLength);
  request.on_text = [](std::string_view) { return false; };
  EXPECT_EQ(must(generator_->generate(request)).finish, FinishReason::kCaller);
}

TEST_F(GeneratorOnModel, ScoresOfContinuationsShareTheirPrompt) {
  open(2048, {});
  ScoreRequest request;
  request.turns = {{"user", "Is water wet? Answer yes or no."}};
  request.continuations = {"Yes", "No", "Yes, it is", "Perhaps not"};
  const ContinuationScores first = must(generator_->score(request));
  const ContinuationScores second = must(generator_->score(request));
  EXPECT_EQ(first.log_probabilities, second.log_probabilities);
  EXPECT_LT(second.tokens_computed, first.tokens_computed);
  EXPECT_LE(first.log_probabilities[2], first.log_probabilities[0]) << "it begins with it";
  request.reads_cache = request.writes_cache = false;
  EXPECT_EQ(must(generator_->score(request)).log_probabilities, first.log_probabilities);
}

TEST_F(GeneratorOnModel, ATextIsScoredTheSameAtOnceAndTokenByToken) {
  open(2048, {});
  TextScoreRequest text;
  text.turns = {{"user", "Cells and logits of a token depend on the tokens before it."}};
  const TextScore at_once = must(generator_->score_text(text));
  const TokenVector tokens = must(generator_->tokens(text));
  ASSERT_EQ(at_once.log_probabilities.size(), tokens.size() - 1);
  text.sliding_window = SlidingWindow{};  // Never full.
  const TextScore one_by_one = must(generator_->score_text(text));
  EXPECT_EQ(at_once.log_probabilities, one_by_one.log_probabilities);
  EXPECT_FALSE(one_by_one.lossy);
  text.scored_tokens = 4;
  const TextScore end = must(generator_->score_text(text));
  EXPECT_TRUE(
      std::ranges::equal(end.log_probabilities, std::span(at_once.log_probabilities).last(4)));
  text.scored_tokens = tokens.size();
  EXPECT_EQ(generator_->score_text(text).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(GeneratorOnModel, RefusesBadRequestsByName) {
  open(512, {});
  GenerateRequest empty;
  EXPECT_EQ(generator_->generate(empty).error().code, ErrorCode::kInvalidArgument);
  GenerateRequest role;
  role.turns = {{"wizard", "x"}};
  EXPECT_NE(generator_->generate(role).error().message.find("wizard"), std::string::npos);
  EXPECT_EQ(generator_->generate(drawn_answer(TokenVector(5000, 100), 1)).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(generator_->generate(drawn_answer({1, 2, 99'999'999}, 1)).error().code,
            ErrorCode::kInvalidArgument);
  auto nobody = drawn_answer({1, 2, 3}, 1);
  nobody.tenant = std::string("\0public", 7);
  EXPECT_NE(generator_->generate(nobody).error().message.find("tenant"), std::string::npos);
  auto hot = drawn_answer({1, 2, 3}, 1);
  hot.sampling.temperature = 9;
  EXPECT_NE(generator_->generate(hot).error().message.find("temperature"), std::string::npos);
}

TEST_F(GeneratorOnModel, FilesOutliveTheProcessAndGiveTheSameBits) {
  const test::TempDir folder;
  GeneratorOptions options;
  options.kv.folder = folder.path("states");
  std::vector<std::string> events;
  options.on_event = [&events](const std::string& event) { events.push_back(event); };
  open(1024, options);
  TokenVector prompt(300, 400);
  prompt[7] = 500;
  const auto ask = [&](Token question) {
    TokenVector tokens = prompt;
    tokens.push_back(question);
    return must(generator_->generate(drawn_answer(std::move(tokens), 3)));
  };
  ask(501);
  ask(502);
  const auto other = must(Engine::open({.model = test::smollm_path(), .ctx_size = 1024}));
  const auto second = other->generator(options);
  ASSERT_FALSE(second) << "a folder has one owner";
  EXPECT_NE(second.error().message.find(options.kv.folder), std::string::npos);
  open(1024, options);
  const Generated restored = ask(503);
  EXPECT_GE(restored.kv.restored, 300U);
  EXPECT_EQ(restored.kv.matched, 300U);
  EXPECT_FALSE(must(list_kv_folder(options.kv.folder)).empty());
  TokenVector tokens = prompt;
  tokens.push_back(503);
  GenerateRequest fresh = drawn_answer(std::move(tokens), 3);
  fresh.reads_cache = fresh.writes_cache = false;
  expect_same(restored, must(generator_->generate(fresh)));
  EXPECT_TRUE(events.empty()) << events.front();
}

// 500 random requests from four callers over few cells: hits of every length, evictions, restores
// from memory, preemption. Each is repeated without any cache.
TEST_F(GeneratorOnModel, FiveHundredRandomRequestsGiveTheBitsOfFreshOnes) {
  GeneratorOptions options;
  options.kv.second_sight = false;
  options.kv.break_even = false;
  open(1024, options);
  std::mt19937_64 random(test::seed_of(5));
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < 500; ++i) {
    TokenVector tokens(10 + random() % 120);
    const auto other = static_cast<Token>(500 + random() % 3);
    for (Token& token : tokens) token = random() % 25 == 0 ? other : 400;
    requests.push_back(drawn_answer(std::move(tokens), 1 + random() % 4));
    requests.back().sampling.seed = static_cast<std::uint32_t>(i);
  }
  std::vector<Result<Generated>> answers(requests.size());
  {
    std::vector<std::jthread> callers;
    for (std::size_t caller = 0; caller < 4; ++caller) {
      callers.emplace_back([&, caller] {
        for (std::size_t i = caller; i < requests.size(); i += 4)
          answers[i] = generator_->generate(requests[i]);
      });
    }
  }
  const GeneratorCounters counters = generator_->counters();
  EXPECT_GT(counters.kv.tokens_matched, 5000U);
  EXPECT_GT(counters.kv.tokens_restored, 100U);
  EXPECT_GT(counters.kv.evictions, 10U);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].reads_cache = requests[i].writes_cache = false;
    expect_same(must(answers[i]), must(generator_->generate(requests[i])));
  }
}

}  // namespace
}  // namespace incipit
