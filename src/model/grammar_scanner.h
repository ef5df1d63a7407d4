// SPDX-License-Identifier: Apache-2.0
//
// The text of a grammar, read character by character: spaces, comments, escapes, places of errors.
// Confined to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "incipit/result.h"

namespace incipit::model {

[[nodiscard]] inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Whether a rule's name may have it.
[[nodiscard]] inline bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '-';
}

class GrammarScanner {
 protected:
  explicit GrammarScanner(std::string_view text) : text_(text) {}

  [[nodiscard]] std::unexpected<Error> fail(std::size_t at, const std::string& message) const;
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return position_ + ahead < text_.size() ? text_[position_ + ahead] : '\0';
  }
  // A newline ends a rule unless it stands in parentheses or behind "::=" and "|".
  void skip_space(bool over_lines);
  void step(bool over_lines) {
    ++position_;
    skip_space(over_lines);
  }
  // A character of a literal or a class, written out or as an escape.
  Result<std::uint32_t> read_character();

  std::string_view text_;  // The caller's, for the length of the reading.
  std::size_t position_ = 0;
};

}  // namespace incipit::model
