// SPDX-License-Identifier: Apache-2.0
#include "model/token_sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "support/must.h"
#include "support/prompt_model.h"

namespace incipit::model {
namespace {

using test::must;

const Tokenizer& tokenizer() { return *test::qwen().tokenizer; }

// Flat but for a few tokens.
std::vector<float> logits(const std::map<Token, float>& peaks) {
  std::vector<float> row(tokenizer().vocabulary(), -50);
  for (const auto& [token, logit] : peaks) row[static_cast<std::size_t>(token)] = logit;
  return row;
}

std::map<Token, std::size_t> drawn(const SamplingOptions& options, const std::vector<float>& row,
                                   int count) {
  std::map<Token, std::size_t> counts;
  SamplingOptions seeded = options;
  const auto sampler = must(TokenSampler::create(tokenizer(), seeded));
  for (int i = 0; i < count; ++i) ++counts[must(sampler->sample(row)).token];
  return counts;
}

TEST(TokenSampler, GreedyTakesTheBestAndTheFirstOfEqualOnes) {
  const auto sampler = must(TokenSampler::create(tokenizer(), {}));
  EXPECT_EQ(must(sampler->sample(logits({{7, 3}, {9, 5}, {20, 4}}))).token, 9);
  EXPECT_EQ(must(sampler->sample(logits({{20, 5}, {9, 5}}))).token, 9);
  // The long way round gives the same.
  const auto biased = must(TokenSampler::create(tokenizer(), {.logit_bias = {{100, -1}}}));
  EXPECT_EQ(must(biased->sample(logits({{20, 5}, {9, 5}}))).token, 9);
}

TEST(TokenSampler, ReportsTheModelsOwnLogProbabilities) {
  const auto sampler = must(TokenSampler::create(tokenizer(), {.logprobs = 2}));
  const auto sampled = must(sampler->sample(logits({{7, 1}, {9, 2}})));
  ASSERT_EQ(sampled.logprobs.top.size(), 2U);
  const double sum = std::exp(1.0) + std::exp(2.0);
  EXPECT_EQ(sampled.logprobs.top[0].token, 9);
  EXPECT_NEAR(sampled.logprobs.top[0].logprob, std::log(std::exp(2.0) / sum), 1e-6);
  EXPECT_NEAR(sampled.logprobs.top[1].logprob, std::log(std::exp(1.0) / sum), 1e-6);
  EXPECT_EQ(sampled.logprobs.chosen.token, 9);
}

TEST(TokenSampler, DrawsWithTheProbabilitiesOfTheSoftmax) {
  const auto row = logits({{1, std::log(1.0F)}, {2, std::log(2.0F)}, {3, std::log(5.0F)}});
  auto counts = drawn({.temperature = 1, .seed = 1}, row, 2000);
  EXPECT_NEAR(static_cast<double>(counts[1]), 250, 70);
  EXPECT_NEAR(static_cast<double>(counts[2]), 500, 90);
  EXPECT_NEAR(static_cast<double>(counts[3]), 1250, 100);
}

TEST(TokenSampler, TopKTopPAndMinPCutTheTail) {
  const auto row = logits({{1, std::log(1.0F)}, {2, std::log(2.0F)}, {3, std::log(5.0F)}});
  EXPECT_EQ(drawn({.temperature = 1, .top_k = 1}, row, 50).size(), 1U);
  EXPECT_EQ(drawn({.temperature = 1, .top_k = 2}, row, 200).size(), 2U);
  EXPECT_EQ(drawn({.temperature = 1, .top_p = 0.6}, row, 50).size(), 1U);
  EXPECT_EQ(drawn({.temperature = 1, .top_p = 0.7}, row, 200).size(), 2U);
  EXPECT_EQ(drawn({.temperature = 1, .min_p = 0.3}, row, 200).size(), 2U);
}

TEST(TokenSampler, BiasAndPenaltiesChangeTheChoice) {
  const auto row = logits({{7, 4}, {9, 5}});
  const auto banned = must(TokenSampler::create(tokenizer(), {.logit_bias = {{9, -100}}}));
  EXPECT_EQ(must(banned->sample(row)).token, 7);
  const auto penalised = must(TokenSampler::create(tokenizer(), {.presence_penalty = 1.5}));
  EXPECT_EQ(must(penalised->sample(row)).token, 9);
  EXPECT_EQ(must(penalised->sample(row)).token, 7) << "9 has occurred";
}

TEST(TokenSampler, OneSeedGivesOneText) {
  std::mt19937 random(1);
  std::vector<std::vector<float>> rows(20, std::vector<float>(tokenizer().vocabulary()));
  for (auto& row : rows)
    for (float& logit : row) logit = static_cast<float>(random() % 1000) / 100.0F;
  const auto text = [&](std::uint32_t seed) {
    const auto sampler =
        must(TokenSampler::create(tokenizer(), {.temperature = 1, .top_p = 0.9, .seed = seed}));
    TokenVector tokens;
    for (const auto& row : rows) tokens.push_back(must(sampler->sample(row)).token);
    return tokens;
  };
  EXPECT_EQ(text(5), text(5));
  EXPECT_NE(text(5), text(6));
}

TEST(TokenSampler, AGrammarAllowsOnlyWhatItSays) {
  const auto sampler =
      must(TokenSampler::create(tokenizer(), {.grammar = R"(root ::= "yes" | "no")"}));
  std::mt19937 random(2);
  std::string text;
  for (int i = 0; i < 10; ++i) {
    std::vector<float> row(tokenizer().vocabulary());
    for (float& logit : row) logit = static_cast<float>(random() % 1000);
    const Token token = must(sampler->sample(row)).token;
    if (tokenizer().ends_generation(token)) break;
    text += tokenizer().piece(token);
  }
  EXPECT_TRUE(text == "yes" || text == "no") << text;
}

TEST(TokenSampler, RefusesBadOptionsByName) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<std::pair<SamplingOptions, std::string>> cases{
      {{.temperature = -1}, "temperature"},
      {{.temperature = nan}, "temperature"},
      {{.top_p = 0}, "top_p"},
      {{.top_p = 1.5}, "top_p"},
      {{.min_p = -0.1}, "min_p"},
      {{.repeat_penalty = 0}, "repeat_penalty"},
      {{.frequency_penalty = 3}, "frequency_penalty"},
      {{.presence_penalty = nan}, "presence_penalty"},
      {{.seed = 0xFFFFFFFF}, "seed"},
      {{.logit_bias = {{-1, 0}}}, "logit_bias"},
      {{.logit_bias = {{1, nan}}}, "logit_bias"},
      {{.stop = {""}}, "stop"},
      {{.logprobs = 21}, "logprobs"},
      {{.grammar = "root ::= ("}, "sampling: grammar: 1:10:"},
      {{.json_schema = "{"}, "sampling: json_schema: #:"},
      {{.json_schema = R"({"properties":{"a":{"type":1}}})"}, "json_schema: #/properties/a/type"},
      {{.json_schema = R"({"pattern":"^(a*)*$"})"}, "json_schema: its grammar is refused"},
      {{.json_schema = std::string(100'000, ' ')}, "json_schema"},
      {{.grammar = "root ::= \"a\"", .json_schema = "{}"}, "grammar and json_schema"},
      {{.grammar = "other ::= \"a\""}, "grammar"},
      {{.grammar = std::string(100'000, 'a')}, "grammar"}};
  for (const auto& [options, name] : cases) {
    const auto sampler = TokenSampler::create(tokenizer(), options);
    ASSERT_FALSE(sampler) << name;
    EXPECT_EQ(sampler.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(sampler.error().message.find(name), std::string::npos) << sampler.error().message;
  }
}

TEST(TokenSampler, ALogitThatIsNoNumberIsAnError) {
  const auto sampler = must(TokenSampler::create(tokenizer(), {}));
  auto row = logits({{1, 1}});
  row[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(sampler->sample(row).error().code, ErrorCode::kInternal);
}

}  // namespace
}  // namespace incipit::model
