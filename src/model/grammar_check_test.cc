// SPDX-License-Identifier: Apache-2.0
// Tests src/model/grammar_rules.cc
// Tests src/model/grammar_scanner.cc
#include "model/grammar_check.h"

#include <gtest/gtest.h>
#include <llama.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/prompt_model.h"

namespace incipit::model {
namespace {

const Tokenizer& tokenizer() { return *test::smollm().tokenizer; }

std::string refusal(const std::string& grammar) {
  const auto checked = check_grammar(grammar, tokenizer());
  return checked ? "" : checked.error().message;
}

// Whether libllama takes it, and what it prints to stderr.
std::pair<bool, std::string> libllama(const std::string& grammar) {
  testing::internal::CaptureStderr();
  llama_sampler* sampler = llama_sampler_init_grammar(tokenizer().vocab(), grammar.c_str(), "root");
  std::string printed = testing::internal::GetCapturedStderr();
  const bool taken = sampler != nullptr;
  if (taken) llama_sampler_free(sampler);
  return {taken, std::move(printed)};
}

std::string repeated(const std::string& text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

// r0 ::= <body with next>, r1 ::= ..., and a last rule "x".
std::string chain(std::size_t rules, const std::string& before, const std::string& after) {
  std::string grammar = "root ::= r0\n";
  for (std::size_t i = 0; i < rules; ++i) {
    const std::string next = "r" + std::to_string(i + 1);
    grammar += "r" + std::to_string(i) + " ::= " + before + next + after + "\n";
    if (after.contains('|')) grammar.replace(grammar.size() - 1, 1, next + " \"b\"\n");
  }
  return grammar + "r" + std::to_string(rules) + " ::= \"x\"\n";
}

TEST(GrammarCheck, TakesWhatLibllamaTakes) {
  const std::vector<std::string> grammars{
      "root ::= \"yes\" | \"no\"",
      "root ::=\n  \"a\" |\n  \"b\" # why\n\n# more\nother ::= "
      "[^a-z\\]\\-\\x41\\u0042\\U00000043]+",
      "root ::= (\n \"a\"\n b {2,\n 3} )* c?\r\nb ::= .\rc-1 ::= [a-]\nc ::= c-1{4,} \t?",
      "root ::= \"\" | \"\\t\\r\\n\\\\\\\"\\[\\]\\-\" | \"\xC3\xA9\xF0\x9F\x98\x80\"",
      "root ::= <|im_end|> !<|im_start|> <[5]> | !<[5]>",
      "root ::= \"a\"{0} \"a\"{1999} b{0,0} \nb ::=  | ( | )",
      "root ::= [+--] [a-b-c] [-a] [\xC3\xA9-\xC3\xBF]",
      "root ::= s \"]\"\ns ::= \"[\" s \"]\" | \"x\"",
      "root ::= " + repeated("(", 200) + "\"x\"" + repeated(")", 200),
      chain(900, "", ""),
      "root ::= \"" + repeated("x", 60'000) + "\""};
  for (const std::string& grammar : grammars) {
    EXPECT_EQ(refusal(grammar), "") << grammar.substr(0, 200);
    EXPECT_EQ(libllama(grammar), std::pair(true, std::string())) << grammar.substr(0, 200);
  }
}

TEST(GrammarCheck, RefusesByPlaceWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "1:1: there is no rule root"},
      {"other ::= \"a\"", "1:1: there is no rule root"},
      {"root ::= a\n", "1:10: the rule a is not defined"},
      {"root ::= \"a\"\nroot ::= \"b\"", "2:1: the rule root is defined twice"},
      {"root ::= \"\xC3\xA9\" )", "1:14: a rule goes on"},
      {"root ::= (\"a\"", "1:10: this parenthesis has no closing )"},
      {"root ::= \"a", "1:10: this literal"},
      {"root ::= [a", "1:10: this class"},
      {"root ::= [a-", "1:10: this class"},
      {"root ::= [z-a]", "1:11: this range runs backwards"},
      {"root ::= []", "1:10: an empty class"},
      {"root ::= [^]", "1:10: an empty class"},
      {"root ::= \"\\q\"", "1:11: an unknown escape"},
      {"root ::= \"\\x4\"", "1:11: this escape needs 2 hex digits"},
      {"root ::= \"\\x-4\"", "1:11: this escape needs 2 hex digits"},
      {"root ::= \"\\u00", "1:11: this escape needs 4 hex digits"},
      {"root ::= \"\\U00110000\"", "1:11: no character"},
      {"root ::= *", "1:10: there is nothing"},
      {"root ::= \"\"*", "1:12: there is nothing"},
      {"root ::= \"a\"{0}*", "1:16: there is nothing"},
      {"root ::= \"a\"{5,2}", "1:13: {M,N} needs M <= N"},
      {"root ::= \"a\"{,2}", "1:14: a number of repetitions"},
      {"root ::= \"a\"{2", "1:15: a repetition is"},
      {"root ::= \"a\"{2000}", "1:14: repetitions must stay below 2000"},
      {"root ::= \"a\"{0,5000}", "1:16: repetitions must stay below 2000"},
      {"root ::= \"a\"{99999999999999999999}", "1:14: repetitions must stay below"},
      {"root ::= (\"a\"{0,99}){99}", "1:21: repetitions in repetitions"},
      {"root ::= \"a\"{50}{50}", "1:17: repetitions in repetitions"},
      {"root : \"a\"", "1:6: ::= must follow"},
      {"root ::= \"a\"\n  \"b\"", "2:3: a rule must begin here"},
      {"_a ::= \"a\"", "1:1: a rule must begin here"},
      {"root ::= <nothing-like-this>", "1:10: <nothing-like-this> is no single token"},
      {"root ::= <[999999999]>", "1:10: <[N]> needs"},
      {"root ::= <[]>", "1:10: <[N]> needs"},
      {"root ::= <[>", "1:10: <[N]> needs"},
      {"root ::= <[5>", "1:10: <[N]> needs"},
      {"root ::= <[5x]>", "1:10: <[N]> needs"},
      {"root ::= <", "1:10: this token has no closing >"},
      {"root ::= !\"a\"", "1:11: a token must follow !"},
      {"root ::= \"\xFF\"", "1:11: a byte that is no UTF-8"},
      {std::string("root ::= \"\0\"", 12), "1:11: a NUL byte"},
      {"root ::= root \"a\" | \"b\"", "1:1: the rule root begins with itself"},
      {"root ::= \"x\" a\na ::= b \"a\"\nb ::= c?  a | \"x\"\nc ::= \"c\"",
       "2:1: the rule a begins"},
      {"root ::= (\"a\"*)*", "1:1: the rule root begins with itself"},
      {"root ::= e f root | \"x\"\ne ::= f f\nf ::= | \"f\"", "1:1: the rule root begins"}};
  for (const auto& [grammar, message] : cases)
    EXPECT_EQ(refusal(grammar).find("grammar: " + message), 0U) << grammar << "\n"
                                                                << refusal(grammar);
}

TEST(GrammarCheck, RefusesWhatWouldCostTooMuch) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"root ::= " + repeated("(", 30'000), "nest too deeply"},
      {"root ::= " + repeated("(", 201) + "\"x\"" + repeated(")", 201), "nest too deeply"},
      {"root ::= \"" + repeated("x", 1000) + "\"{1999}", "too large"},
      {"root ::= [" + repeated("a-z", 10'000) + "]{0,1999}", "too large"},
      {"root ::= " + repeated("\"a\"{1000} ", 400), "too large"},
      // libllama looks at each way down: 2^60.
      {chain(60, "", " \"a\" | "), "ways to begin"},
      {chain(2000, "", ""), "chain of too many"},
      {"root ::= " + repeated("\"a\" | ", 3000) + "\"b\"", "alternatives"}};
  for (const auto& [grammar, message] : cases)
    EXPECT_NE(refusal(grammar).find(message), std::string::npos)
        << grammar.substr(0, 80) << refusal(grammar);
}

// Grammars of few rules and all that the language has, some then spoiled byte by byte.
class GrammarMaker {
 public:
  explicit GrammarMaker(std::uint32_t seed) : random_(seed) {}

  std::string grammar() {
    rules_ = 1 + below(5);
    std::string text;
    for (std::size_t i = 0; i < rules_; ++i)
      text += name(current_ = i) + pick({" ::= ", "::=", " ::=\n "}) + alternatives(3) +
              pick({"\n", "\r\n", " # c\n\n"});
    if (below(2) == 0) {
      for (std::size_t i = below(3) + 1; i > 0 && !text.empty(); --i) spoil(text);
    }
    return text;
  }

 private:
  std::size_t below(std::size_t end) { return random_() % end; }
  std::string pick(const std::vector<std::string>& choices) {
    return choices[below(choices.size())];
  }
  std::string name(std::size_t i) { return i == 0 ? "root" : "r" + std::to_string(i); }

  std::string alternatives(std::size_t depth) {
    std::string text = sequence(depth);
    while (below(3) == 0) text += pick({"|", " | ", " |\n "}) + sequence(depth);
    return text;
  }
  std::string sequence(std::size_t depth) {
    std::string text;
    for (std::size_t i = below(4); i > 0; --i)
      text += item(depth) + repetition() + pick({" ", "", "\t"});
    return text;
  }
  std::string item(std::size_t depth) {
    if (below(6) == 0 && depth > 0) return "(" + alternatives(depth - 1) + ")";
    // Mostly forwards: what leads back soon begins with itself.
    if (below(4) == 0)
      return name(below(6) == 0 ? below(rules_) : std::min(current_ + 1 + below(2), rules_ - 1)) +
             " ";
    return pick({"\"a\"", "\"ab\\n\"", "[a-c]", "[^x\\]]", ".", "\"\"", "\"\xC3\xA9\"", "[\\x30-9]",
                 "<[7]>", "!<|im_end|>", "\"\\\"\""});
  }
  std::string repetition() {
    if (below(2) == 0) return "";
    if (below(20) == 0) return "{5,2}";
    return pick({"*", "+", "?", "{3}", "{0,4}", "{2,}", "{0}", "{40}", "{1,200}", " *"});
  }
  void spoil(std::string& text) {
    static const std::string kBytes = "()[]{}<>|*+?\"\\#:=-^.!,09azx \n\xC3";
    const std::size_t at = below(text.size());
    if (below(2) == 0) text.erase(at, 1);
    if (below(2) == 0) text.insert(at, 1, kBytes[below(kBytes.size())]);
  }

  std::mt19937 random_;
  std::size_t rules_ = 1;
  std::size_t current_ = 0;
};

TEST(GrammarCheck, WhatPassesLibllamaTakesInSilence) {
  std::size_t passed = 0;
  std::size_t refused = 0;
  for (std::uint32_t seed = 0; seed < 10'000; ++seed) {
    const std::string grammar = GrammarMaker(seed).grammar();
    if (!check_grammar(grammar, tokenizer())) {
      ++refused;
      continue;
    }
    ++passed;
    ASSERT_EQ(libllama(grammar), std::pair(true, std::string())) << "seed " << seed << "\n"
                                                                 << grammar;
  }
  EXPECT_GT(passed, 1000U);
  EXPECT_GT(refused, 1000U);
}

// The other way round: what is refused for its syntax, libllama refuses too.
TEST(GrammarCheck, RefusesLittleThatLibllamaTakes) {
  const std::vector<std::string> stricter{
      "defined twice", "empty class", "runs backwards",     "UTF-8",
      "ways to begin", "{M,N} needs", "begins with itself", "too large"};
  std::size_t refused = 0;
  for (std::uint32_t seed = 0; seed < 4000; ++seed) {
    const std::string grammar = GrammarMaker(seed).grammar();
    const std::string why = refusal(grammar);
    // An undefined rule that is repeated no times is none for libllama.
    if (why.empty() || (why.contains("not defined") && grammar.contains("{0}")) ||
        std::ranges::any_of(stricter,
                            [&](const std::string& known) { return why.contains(known); }))
      continue;
    ++refused;
    EXPECT_FALSE(libllama(grammar).first) << "seed " << seed << "\n" << why << "\n" << grammar;
  }
  EXPECT_GT(refused, 800U);
}

}  // namespace
}  // namespace incipit::model
