// SPDX-License-Identifier: Apache-2.0
//
// Which tokens a GBNF grammar allows next.
//
// Text counts, not tokens: a token is allowed if its bytes go on with the text so far, and bytes of
// one character may come from several tokens. A token that ends generation is allowed only where
// the text so far is whole.
// Confined to one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "incipit/result.h"
#include "incipit/types.h"
#include "model/grammar_machine.h"
#include "model/tokenizer.h"

namespace incipit::model {

class Grammar {
 public:
  // Errors: kInvalidArgument from check_grammar(). The tokenizer must outlive it.
  static Result<std::unique_ptr<Grammar>> create(const Tokenizer& tokenizer, std::string_view text);
  Grammar(const Grammar&) = delete;
  Grammar& operator=(const Grammar&) = delete;

  [[nodiscard]] bool allows(Token token);
  // Requires: allows(token).
  void accept(Token token);
  // A token that ends generation, where the text may end here and the vocabulary has one.
  [[nodiscard]] std::optional<Token> end();
  // The answer may be read in so many ways that allows() gave up, until the next accept().
  [[nodiscard]] bool is_exhausted() const;

 private:
  // The beginning of a character whose end a later token brings.
  struct PartialCharacter {
    std::uint32_t value = 0;
    std::uint32_t least = 0;  // Fewer bytes would do for a smaller one.
    unsigned missing = 0;     // Bytes; 0: there is none.
  };

  Grammar(const Tokenizer& tokenizer, const GrammarRules& rules);
  // Into next_ and next_partial_. False if nothing reads it.
  bool read(Token token);
  bool read_bytes(std::string_view bytes);
  [[nodiscard]] bool is_whole() const;

  const Tokenizer& tokenizer_;
  GrammarMachine machine_;
  GrammarReadings readings_;
  PartialCharacter partial_;
  GrammarReadings next_;
  PartialCharacter next_partial_;
  GrammarReadings room_;
  std::uint64_t work_before_ = 0;  // At the last accept().
  std::size_t tidy_at_ = 0;        // Stacks of the machine.
};

}  // namespace incipit::model
