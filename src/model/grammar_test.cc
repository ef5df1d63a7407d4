// SPDX-License-Identifier: Apache-2.0
//
// token_sampler_grammar_test.cc compares with libllama; here is what differs from it, or is hard to
// meet by chance.
// Tests src/model/grammar_machine.cc
#include "model/grammar.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "model/json_schema.h"
#include "support/must.h"
#include "support/prompt_model.h"
#include "support/vocabulary_file.h"

namespace incipit::model {
namespace {

using test::must;

const Tokenizer& tokenizer() { return *test::smollm().tokenizer; }

Token token_of(std::string_view text) {
  const TokenVector tokens = must(tokenizer().encode_whole(text));
  EXPECT_EQ(tokens.size(), 1U) << text;
  return tokens[0];
}

bool accepts(Grammar& grammar, Token token) {
  if (!grammar.allows(token)) return false;
  grammar.accept(token);
  return true;
}

TEST(Grammar, NamesTokens) {
  const auto grammar =
      must(Grammar::create(tokenizer(), "root ::= !<[5]> <|im_start|> \"yes\" | \"no\""));
  EXPECT_FALSE(grammar->allows(5));
  EXPECT_TRUE(grammar->allows(token_of("no"))) << "as text, and as another token than 5";
  EXPECT_TRUE(accepts(*grammar, token_of("the")));
  EXPECT_FALSE(grammar->allows(token_of("yes")));
  EXPECT_TRUE(accepts(*grammar, token_of("<|im_start|>")));
  EXPECT_FALSE(grammar->end());
  EXPECT_TRUE(accepts(*grammar, token_of("yes")));
  EXPECT_TRUE(grammar->end());
}

TEST(Grammar, OneTokenMayBeTextAndItself) {
  const auto grammar = must(Grammar::create(
      tokenizer(), "root ::= \"no\" \"w\" | <[" + std::to_string(token_of("no")) + "]> \"x\""));
  EXPECT_TRUE(accepts(*grammar, token_of("no")));
  EXPECT_TRUE(grammar->allows(token_of("w")));
  EXPECT_TRUE(grammar->allows(token_of("x")));
  EXPECT_FALSE(grammar->allows(token_of("y")));
}

// The vocabulary has a token for each byte, so any sequence of them can be tried.
TEST(Grammar, BytesMustMakeCharacters) {
  const auto bytes = must(Tokenizer::open(test::sentencepiece_file("bytes")));
  const auto taken = [&](const std::string& text, const std::string& rule) {
    const auto grammar = must(Grammar::create(*bytes, "root ::= " + rule));
    for (const char c : text) {
      if (!accepts(*grammar, static_cast<Token>(4 + static_cast<unsigned char>(c)))) return false;
    }
    return grammar->end().has_value();
  };
  for (const std::string good :
       {"a", "\xC2\x80", "\xE2\x82\xAC", "\xED\x9F\xBF", "\xF4\x8F\xBF\xBF"})
    EXPECT_TRUE(taken(good, ".")) << good;
  for (const std::string bad : {"\x80", "\xC0\x80", "\xC3",
                                "\xC3"
                                "a",
                                "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                                "\xF8\x88\x80\x80\x80", "\xE2\x82", "ab"})
    EXPECT_FALSE(taken(bad, ".")) << bad;
  EXPECT_TRUE(taken("\xE2\x82\xAC", "[\xE2\x82\xA0-\xE2\x82\xAF]"));
  EXPECT_FALSE(taken("\xE2\x82", "[^\xE2\x82\xA0-\xE2\x82\xAF]?"));
  EXPECT_FALSE(taken("\xE2\x82\xAC", "[^\xE2\x82\xA0-\xE2\x82\xAF]"));
  EXPECT_FALSE(taken("\xC3\xA9", "[a-z]"));
}

// Two ways for each bracket: 2^n readings. Neither time nor memory follows.
TEST(Grammar, ManyReadingsAreRefused) {
  const std::string schema = R"({"$ref":"#/$defs/s","$defs":{"s":{"anyOf":[{"const":0},
    {"type":"array","prefixItems":[{"$ref":"#/$defs/s"},{"const":1}]},
    {"type":"array","prefixItems":[{"$ref":"#/$defs/s"},{"const":2}]}]}}})";
  const auto grammar = must(Grammar::create(tokenizer(), must(json_schema_grammar(schema))));
  const Token bracket = token_of("[");
  std::size_t depth = 0;
  while (depth < 100 && accepts(*grammar, bracket)) ++depth;
  EXPECT_GT(depth, 6U);
  EXPECT_LT(depth, 14U);
  EXPECT_TRUE(accepts(*grammar, token_of("0"))) << "what is less ambiguous goes on";
  for (; depth > 0; --depth) {
    EXPECT_TRUE(accepts(*grammar, token_of(",")));
    EXPECT_TRUE(accepts(*grammar, token_of("2")));
    EXPECT_TRUE(accepts(*grammar, token_of("]")));
  }
  EXPECT_TRUE(grammar->end());
}

TEST(Grammar, DeepAnswersKeepOneReading) {
  const auto grammar =
      must(Grammar::create(tokenizer(), "root ::= \"[\" root \"]\" | \"0\" | \"[]\""));
  const Token bracket = token_of("[");
  for (int i = 0; i < 3000; ++i) ASSERT_TRUE(accepts(*grammar, bracket));
  ASSERT_TRUE(accepts(*grammar, token_of("0")));
  for (int i = 0; i < 2999; ++i) ASSERT_TRUE(accepts(*grammar, token_of("]")));
  EXPECT_FALSE(grammar->end());
  ASSERT_TRUE(accepts(*grammar, token_of("]")));
  EXPECT_TRUE(grammar->end());
}

TEST(GrammarMachine, ForgetsAndTidiesWithoutAChange) {
  GrammarMachine machine(must(parse_grammar(
      "root ::= (nest \";\")*\nnest ::= \"a\" nest \"b\" | \"c\" nest \"d\" | \"\"", tokenizer())));
  GrammarReadings readings = machine.start();
  GrammarReadings next;
  const auto read = [&](std::string_view text) {
    for (const char c : text) {
      const std::size_t mark = machine.mark();
      machine.after_character(readings, static_cast<std::uint32_t>(c), next);
      const std::size_t count = next.size();
      machine.forget(mark);
      machine.after_character(readings, static_cast<std::uint32_t>(c), next);
      EXPECT_EQ(next.size(), count);
      readings.swap(next);
    }
    return !readings.empty();
  };
  for (int i = 0; i < 64; ++i) {
    ASSERT_TRUE(read(i % 2 == 0 ? "acacac" : "cacaca"));
    const std::size_t before = machine.mark();
    machine.keep_only(readings);
    EXPECT_LE(machine.mark(), before);
    EXPECT_LT(machine.mark(), 40U);
    ASSERT_TRUE(read(i % 2 == 0 ? "dbdbdb;" : "bdbdbd;"));
  }
  EXPECT_TRUE(std::ranges::count(readings, 0U) == 1);
  EXPECT_FALSE(read("ad"));
}

}  // namespace
}  // namespace incipit::model
