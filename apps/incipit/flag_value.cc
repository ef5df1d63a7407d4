// SPDX-License-Identifier: Apache-2.0
#include "incipit/flag_value.h"

#include <charconv>
#include <system_error>

namespace incipit::app {

Result<std::size_t> count_or_word(std::string_view flag, std::string_view text,
                                  std::string_view word, std::size_t word_value) {
  if (text == word) return word_value;
  std::size_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error == std::errc() && end == text.data() + text.size() && count > 0) return count;
  return failure(ErrorCode::kInvalidArgument,
                 std::string(flag) + ": expected a number from 1 on, or " + std::string(word) +
                     ", not '" + std::string(text) + "'");
}

std::string unescape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    constexpr std::string_view kLetters = "ntr\\";
    constexpr std::string_view kMeanings = "\n\t\r\\";
    const std::size_t meaning = text[i] == '\\' && i + 1 < text.size() ? kLetters.find(text[i + 1])
                                                                       : std::string_view::npos;
    if (meaning == std::string_view::npos) {
      out += text[i];
    } else {
      out += kMeanings[meaning];
      ++i;
    }
  }
  return out;
}

}  // namespace incipit::app
