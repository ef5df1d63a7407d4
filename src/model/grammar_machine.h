// SPDX-License-Identifier: Apache-2.0
//
// All ways to read a text by a grammar at once.
//
// A reading is a stack of places in sequences: on top what must come next, below it where to go on
// when that sequence is done. Stacks share what lies below, and equal ones are one, so a step costs
// no more than the places it visits. A grammar like s ::= "a" s "b" | "a" s "c" | "" has twice as
// many readings with each character; a step to more than kReadingsMax has none instead. libllama,
// whose matcher this replaces, would take memory without end there, and such grammars come from
// schemas that a client may send.
// Confined to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "model/grammar_rules.h"

namespace incipit::model {

// Numbers of stacks, each once; 0 is the empty one: the text so far is whole.
using GrammarReadings = std::vector<std::uint32_t>;

class GrammarMachine {
 public:
  static constexpr std::size_t kReadingsMax = 4096;

  // Requires: check_grammar() took what these are the rules of.
  explicit GrammarMachine(const GrammarRules& grammar);

  [[nodiscard]] GrammarReadings start();
  // The readings after one more character, or a whole token; empty if there are none.
  void after_character(const GrammarReadings& from, std::uint32_t character, GrammarReadings& to);
  void after_token(const GrammarReadings& from, std::uint32_t token, GrammarReadings& to);
  // Whether a character of this range may come next.
  [[nodiscard]] bool takes_any(const GrammarReadings& from, std::uint32_t first,
                               std::uint32_t last) const;

  // Readings that are made after mark() are gone with forget(): candidates cost no memory.
  [[nodiscard]] std::size_t mark() const { return stacks_.size(); }
  void forget(std::size_t mark);
  // Drops every stack that these do not stand on, and renumbers them.
  void keep_only(GrammarReadings& readings);
  // Places visited so far.
  [[nodiscard]] std::uint64_t work() const { return work_; }

 private:
  struct Place {
    GrammarItem item;
    bool is_end = false;
  };
  struct Stack {
    std::uint32_t place = 0;
    std::uint32_t below = 0;
    std::uint64_t visit = 0;  // The step that saw it last.
  };

  [[nodiscard]] bool takes(const GrammarItem& item, std::uint32_t first, std::uint32_t last) const;
  [[nodiscard]] const GrammarItem& top(std::uint32_t stack) const;
  [[nodiscard]] std::uint32_t stack(std::uint32_t place, std::uint32_t below);
  void begin_step(GrammarReadings& to);
  void visit(std::uint32_t stack);
  // Follows all that was visited to what must come next.
  void follow(GrammarReadings& to);

  std::vector<Place> places_;                       // All sequences, each with an end.
  std::vector<std::vector<std::uint32_t>> starts_;  // Of a rule's alternatives.
  std::vector<GrammarClass> classes_;
  std::uint32_t root_ = 0;
  std::vector<Stack> stacks_;  // The first is the empty one.
  std::unordered_map<std::uint64_t, std::uint32_t> known_;
  std::vector<std::uint32_t> to_follow_;
  std::uint64_t step_ = 0;
  std::uint64_t work_ = 0;
};

}  // namespace incipit::model
