// SPDX-License-Identifier: Apache-2.0
//
// Grammars in the sampler, against the slow way: libllama's grammar over the whole vocabulary.
// Tests src/model/token_sampler.cc
#include <gtest/gtest.h>
#include <llama.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "model/json_schema.h"
#include "model/token_sampler.h"
#include "support/must.h"
#include "support/prompt_model.h"
#include "support/vocabulary_file.h"

namespace incipit::model {
namespace {

using test::must;

const Tokenizer& tokenizer() { return *test::smollm().tokenizer; }

Token token_of(const std::string& text) {
  const TokenVector tokens = must(tokenizer().encode_plain(text));
  EXPECT_EQ(tokens.size(), 1U) << text;
  return tokens[0];
}

// The grammar goes first, over everything; then the most probable token is taken.
class SlowGreedy {
 public:
  SlowGreedy(const Tokenizer& tokenizer, const SamplingOptions& options)
      : vocab_(tokenizer.vocab()),
        bias_(options.logit_bias),
        presence_(static_cast<float>(options.presence_penalty)) {
    const std::string text = options.json_schema.empty()
                                 ? options.grammar
                                 : must(json_schema_grammar(options.json_schema));
    grammar_.reset(llama_sampler_init_grammar(vocab_, text.c_str(), "root"));
  }

  std::optional<Token> next(std::vector<float> row) {
    for (const auto& [token, bias] : bias_)
      row[static_cast<std::size_t>(token)] += static_cast<float>(bias);
    for (const Token token : seen_) row[static_cast<std::size_t>(token)] -= presence_;
    std::vector<llama_token_data> all;
    for (std::size_t i = 0; i < row.size(); ++i) all.push_back({static_cast<Token>(i), row[i], 0});
    llama_token_data_array array{all.data(), all.size(), -1, false};
    llama_sampler_apply(grammar_.get(), &array);
    const auto best = std::ranges::max_element(
        all, [](const auto& a, const auto& b) { return a.logit < b.logit; });
    if (std::isinf(best->logit)) return std::nullopt;
    if (std::ranges::find(seen_, best->id) == seen_.end()) seen_.push_back(best->id);
    if (!llama_vocab_is_eog(vocab_, best->id)) llama_sampler_accept(grammar_.get(), best->id);
    return best->id;
  }

 private:
  struct Free {
    void operator()(llama_sampler* sampler) const { llama_sampler_free(sampler); }
  };
  const llama_vocab* vocab_;
  std::map<Token, double> bias_;
  float presence_ = 0;
  TokenVector seen_;
  std::unique_ptr<llama_sampler, Free> grammar_;
};

// Few different values, so that equal ones are common; at times only the worst are allowed.
std::vector<float> random_row(std::mt19937& random, std::size_t vocabulary) {
  std::vector<float> row(vocabulary);
  const unsigned values = 1U << (random() % 16);
  for (float& logit : row) logit = static_cast<float>(random() % values) / 8;
  return row;
}

const std::vector<SamplingOptions>& constrained() {
  static const std::vector<SamplingOptions> options{
      {.grammar = R"(root ::= "yes" | "no")"},
      {.presence_penalty = 1.5, .grammar = R"(root ::= [a-z ]{3,40} ".")"},
      {.grammar =
           "root ::= (\"\xC3\xA9\" | \"\xF0\x9F\x98\x80\" | [\xE2\x82\xAC-\xE3\x81\x82])+ \"!\""},
      {.grammar = "root ::= \"a\" .* <|im_end|>? [^b]{2}"},
      {.grammar = "root ::= (<[80]> \"x\"+ | \"y\" [xz]*) <|im_start|>"},
      {.logit_bias = {{5, 3.5}, {200, -4}}, .grammar = "root ::= [0-9]+ (\",\" [0-9]+)* \"\\n\""},
      {.json_schema = R"({"type":"object","required":["a"],"properties":{"a":{"enum":["x","yz"]},
         "b":{"type":"array","items":{"type":"integer","minimum":3,"maximum":250}},"c":{}}})"}};
  return options;
}

void expect_slow_choices(const Tokenizer& vocabulary, std::size_t rounds, std::size_t steps) {
  std::mt19937 random(11);
  std::size_t ended = 0;
  for (std::size_t round = 0; round < rounds; ++round) {
    const SamplingOptions& options = constrained()[round % constrained().size()];
    const auto sampler = must(TokenSampler::create(vocabulary, options));
    SlowGreedy slow(vocabulary, options);
    for (std::size_t step = 0; step < steps; ++step) {
      const auto row = random_row(random, vocabulary.vocabulary());
      const auto expected = slow.next(row);
      const auto chosen = sampler->sample(row);
      ASSERT_EQ(chosen.has_value(), expected.has_value()) << options.grammar << " step " << step;
      if (!chosen) break;
      ASSERT_EQ(chosen->token, *expected) << options.grammar << " step " << step;
      if (vocabulary.ends_generation(*expected)) {
        ++ended;
        break;
      }
    }
  }
  EXPECT_GT(ended, 0U);
}

TEST(GrammarSampling, GreedyChoosesWhatTheWholeVocabularyWould) {
  expect_slow_choices(tokenizer(), 28, 12);
}

TEST(GrammarSampling, SoItDoesWithALargeVocabulary) {
  expect_slow_choices(*test::qwen().tokenizer, 7, 8);
}

TEST(GrammarSampling, AWholeAnswerEndsWhateverTheBiasSays) {
  const Token end = *tokenizer().end_of_turn();
  std::map<Token, double> bias;
  for (Token token = 0; static_cast<std::size_t>(token) < tokenizer().vocabulary(); ++token)
    if (tokenizer().ends_generation(token)) bias[token] = -100;
  const auto sampler =
      must(TokenSampler::create(tokenizer(), {.logit_bias = bias, .grammar = R"(root ::= "yes")"}));
  std::string text;
  const std::vector<float> row(tokenizer().vocabulary(), 1);
  for (int i = 0; i < 4; ++i) {
    const Token token = must(sampler->sample(row)).token;
    if (tokenizer().ends_generation(token)) {
      EXPECT_EQ(token, end);
      break;
    }
    text += tokenizer().piece(token);
  }
  EXPECT_EQ(text, "yes");
}

TEST(GrammarSampling, TheEndWaitsForTheWhole) {
  std::vector<float> row(tokenizer().vocabulary(), 0);
  for (std::size_t i = 0; i < row.size(); ++i)
    if (tokenizer().ends_generation(static_cast<Token>(i))) row[i] = 50;
  for (const double temperature : {0.0, 1.0}) {
    const auto sampler = must(TokenSampler::create(
        tokenizer(),
        {.temperature = temperature, .seed = 4, .grammar = "root ::= [a-z]{9} | [0-9]{3}"}));
    std::string text;
    for (int i = 0; i < 12; ++i) {
      const Token token = must(sampler->sample(row)).token;
      if (tokenizer().ends_generation(token)) break;
      text += tokenizer().piece(token);
    }
    EXPECT_TRUE(text.size() == 9 || text.size() == 3) << text;
  }
}

// What the grammar refuses adds nothing and takes nothing: the rest keep their proportions.
TEST(GrammarSampling, DrawsInTheProportionsOfWhatIsAllowed) {
  std::vector<float> row(tokenizer().vocabulary(), -60);
  row[static_cast<std::size_t>(token_of("yes"))] = std::log(1.0F);
  row[static_cast<std::size_t>(token_of("no"))] = std::log(3.0F);
  row[static_cast<std::size_t>(token_of("the"))] = std::log(8.0F);
  std::map<Token, int> counts;
  for (std::uint32_t seed = 0; seed < 600; ++seed) {
    const SamplingOptions options{
        .temperature = 1, .seed = seed, .grammar = R"(root ::= "yes" | "no")"};
    const Token drawn = must(must(TokenSampler::create(tokenizer(), options))->sample(row)).token;
    EXPECT_EQ(must(must(TokenSampler::create(tokenizer(), options))->sample(row)).token, drawn);
    ++counts[drawn];
  }
  EXPECT_EQ(counts.size(), 2U);
  EXPECT_NEAR(counts[token_of("yes")], 150, 45);
}

TEST(GrammarSampling, OneSeedGivesOneTextThatMatches) {
  const auto text = [&](std::uint32_t seed) {
    std::mt19937 random(5);
    const auto sampler = must(TokenSampler::create(
        tokenizer(), {.temperature = 1.5,
                      .top_k = 50,
                      .top_p = 0.9,
                      .seed = seed,
                      .grammar = "root ::= [a-z]{2,30} (\" \" [a-z]{2,30}){2}"}));
    std::string all;
    for (int i = 0; i < 60; ++i) {
      const Token token = must(sampler->sample(random_row(random, tokenizer().vocabulary()))).token;
      if (tokenizer().ends_generation(token)) return all + "|";
      all += tokenizer().piece(token);
    }
    return all;
  };
  const std::string first = text(1);
  EXPECT_EQ(first, text(1));
  EXPECT_NE(first, text(2));
  EXPECT_EQ(std::ranges::count(first, ' '), 2) << first;
  EXPECT_TRUE(first.ends_with('|')) << first;
}

// A vocabulary that has most characters only as bytes, and no ending but </s>.
TEST(GrammarSampling, CharactersMayComeByteByByte) {
  const auto bytes = must(Tokenizer::open(test::sentencepiece_file("grammar")));
  const std::string wanted = "\xE2\x82\xAC\xC3\xA9";
  for (const double temperature : {0.0, 1.0}) {
    const auto sampler = must(TokenSampler::create(
        *bytes,
        {.temperature = temperature, .seed = 1, .grammar = "root ::= \"\xE2\x82\xAC\xC3\xA9\"?"}));
    std::mt19937 random(8);
    std::string text;
    for (int i = 0; i < 9; ++i) {
      auto row = random_row(random, bytes->vocabulary());
      // The end is allowed before the first byte and behind the last, and likely after the first.
      for (std::size_t token = 0; token < row.size(); ++token)
        if (bytes->ends_generation(static_cast<Token>(token))) row[token] = i > 0 ? 1e4F : -1e4F;
      const Token token = must(sampler->sample(row)).token;
      if (bytes->ends_generation(token)) break;
      text += bytes->piece(token);
    }
    EXPECT_EQ(text, wanted);
  }
}

TEST(GrammarSampling, AGrammarThatNoTokenMeetsIsAnError) {
  const auto bytes = must(Tokenizer::open(test::sentencepiece_file("grammar")));
  const auto sampler =
      must(TokenSampler::create(*bytes, {.grammar = "root ::= !<[5]> \"x\" [\\U00000000]"}));
  const std::vector<float> row(bytes->vocabulary(), 1);
  Result<SampledToken> sampled = sampler->sample(row);
  for (int i = 0; i < 4 && sampled; ++i) sampled = sampler->sample(row);
  ASSERT_FALSE(sampled);
  EXPECT_EQ(sampled.error().code, ErrorCode::kInternal);
}

}  // namespace
}  // namespace incipit::model
