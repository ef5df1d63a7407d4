// SPDX-License-Identifier: Apache-2.0
//
// Values of flags that are more than a number or a text.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "incipit/result.h"

namespace incipit::app {

// The value that `text` names. Errors: kInvalidArgument lists the names.
template <typename Value>
Result<Value> choose(std::string_view flag, std::string_view text,
                     std::initializer_list<std::pair<std::string_view, Value>> values) {
  std::string names;
  for (const auto& [name, value] : values) {
    if (name == text) return value;
    names += (names.empty() ? "" : "|") + std::string(name);
  }
  return failure(ErrorCode::kInvalidArgument,
                 std::string(flag) + ": expected " + names + ", not '" + std::string(text) + "'");
}

// A count, or `word` for `word_value`.
Result<std::size_t> count_or_word(std::string_view flag, std::string_view text,
                                  std::string_view word, std::size_t word_value);

// \n, \t, \r and \\ as shells hand them over.
[[nodiscard]] std::string unescape(std::string_view text);

}  // namespace incipit::app
