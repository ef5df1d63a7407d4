// SPDX-License-Identifier: Apache-2.0
//
// A strict forward reader of one JSON text that can hand out source bytes.
//
// Rows and task files need three things at once that a JSON library does not give: numbers as
// they were written (an id of twenty digits must come back digit by digit), bytes inside strings
// that are not UTF-8 (the task's policy decides what becomes of them), and the place of every
// key. The caller walks the text with enter/next pairs; what it does not want it skips, which
// checks the grammar all the same. The grammar is RFC 8259, except that the bytes of a string
// need not be UTF-8. A lone surrogate escape becomes the byte 0xFF, which is never UTF-8, so
// that the same policy decides on it.
//
// Nesting is limited, so hostile input cannot exhaust the stack. Confined to one thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "incipit/result.h"

namespace incipit::api {

enum class JsonKind { kObject, kArray, kString, kNumber, kBoolean, kNull };

class JsonCursor {
 public:
  static constexpr std::size_t kDepthMax = 64;

  // `text` must outlive the cursor. Messages begin with `name` and a line, counted from
  // `first_line`; without a name they begin with "line".
  explicit JsonCursor(std::string_view text, std::string name = {}, std::size_t first_line = 1)
      : text_(text), name_(std::move(name)), first_line_(first_line) {}

  // The kind of the value that comes next, by its first character.
  Result<JsonKind> peek();

  Result<void> enter_object();
  // Moves to the next member's value and reads its key; false after the last one.
  Result<bool> next_member(std::string& key);
  Result<void> enter_array();
  // Moves to the next item; false after the last one.
  Result<bool> next_item();

  Result<std::string> string();
  Result<double> number();  // Finite.
  Result<bool> boolean();
  // Passes over any value and returns its source bytes.
  Result<std::string_view> skip();

  // Nothing but white space may follow.
  Result<void> finish();

  // Where the last value or key began.
  [[nodiscard]] std::size_t value_start() const { return value_start_; }
  // "name:line:column", or "line L, column C" without a name.
  [[nodiscard]] std::string place(std::size_t offset) const;
  // An error at the position of the last value or key.
  [[nodiscard]] std::unexpected<Error> fail(std::string_view what) const;
  [[nodiscard]] std::unexpected<Error> fail_at(std::size_t offset, std::string_view what) const;

 private:
  void skip_space();
  [[nodiscard]] bool at(char wanted) const {
    return position_ < text_.size() && text_[position_] == wanted;
  }
  Result<void> enter(char opening, std::string_view what);
  // The comma or the closing bracket before the next child; false if the container is over.
  Result<bool> next_child(char closing, std::string_view what);
  Result<void> scan_string(std::string* out);
  Result<void> scan_escape(std::string* out);
  Result<unsigned> scan_hex();
  Result<std::string_view> scan_number();
  Result<void> scan_word(std::string_view word);

  std::string_view text_;  // Kept alive by the caller.
  std::string name_;
  std::size_t first_line_;
  std::size_t position_ = 0;
  std::size_t value_start_ = 0;
  std::vector<bool> has_children_;  // One per open container.
};

}  // namespace incipit::api
