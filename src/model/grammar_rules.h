// SPDX-License-Identifier: Apache-2.0
//
// A GBNF grammar as rules: llama.cpp's language, with repetitions written out.
//
// libllama trusts its grammars: a repetition may take all memory, nesting the stack, and errors are
// printed. This parser reads the same language with bounds, and refuses with a line and column.
// It is stricter in four things that libllama takes and nobody means: a rule defined twice, an
// empty class, a range that runs backwards, and bytes that are no UTF-8.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "incipit/result.h"
#include "model/tokenizer.h"

namespace incipit::model {

// One step of a sequence.
struct GrammarItem {
  enum class Kind : std::uint8_t { kRule, kCharacter, kClass, kToken, kOtherToken };
  Kind kind = Kind::kCharacter;
  std::uint32_t value = 0;     // Index of the rule or the class; the character; the token.
  std::uint32_t elements = 1;  // What it counts for in the size of the grammar.
};

struct GrammarClass {
  bool is_negated = false;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> ranges;  // Both ends included.
};

using GrammarSequence = std::vector<GrammarItem>;

struct GrammarRule {
  std::string name;        // Of the rule that it was written in; "" until it is defined.
  std::size_t offset = 0;  // Where that is written.
  std::vector<GrammarSequence> alternatives;
};

struct GrammarRules {
  std::vector<GrammarRule> rules;
  std::vector<GrammarClass> classes;
  std::size_t root = 0;
};

// "grammar: 3:7: <message>" for the place `offset` of `text`.
[[nodiscard]] std::unexpected<Error> grammar_failure(std::string_view text, std::size_t offset,
                                                     const std::string& message);

// The tokenizer knows what <name> may stand for.
// Errors: kInvalidArgument, from grammar_failure().
[[nodiscard]] Result<GrammarRules> parse_grammar(std::string_view text, const Tokenizer& tokenizer);

}  // namespace incipit::model
