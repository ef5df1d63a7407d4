// SPDX-License-Identifier: Apache-2.0
#include "model/grammar_scanner.h"

#include <algorithm>
#include <charconv>

#include "base/utf8.h"
#include "model/grammar_rules.h"

namespace incipit::model {
namespace {

constexpr std::uint32_t kCodePointMax = 0x10FFFF;

std::uint32_t code_point(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0);
  std::uint32_t value = byte(0) & (0x7FU >> character.size());
  for (std::size_t i = 1; i < character.size(); ++i) value = (value << 6U) | (byte(i) & 0x3FU);
  return value;
}

}  // namespace

std::unexpected<Error> grammar_failure(std::string_view text, std::size_t offset,
                                       const std::string& message) {
  const std::string_view before = text.substr(0, offset);
  const auto line = 1 + std::ranges::count(before, '\n');
  const std::string_view row = before.substr(before.rfind('\n') + 1);
  const auto column = 1 + std::ranges::count_if(row, [](char c) {
                        return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
                      });
  return failure(ErrorCode::kInvalidArgument, "grammar: " + std::to_string(line) + ":" +
                                                  std::to_string(column) + ": " + message);
}

std::unexpected<Error> GrammarScanner::fail(std::size_t at, const std::string& message) const {
  return grammar_failure(text_, at, message);
}

void GrammarScanner::skip_space(bool over_lines) {
  for (;;) {
    const char c = peek();
    if (c == '#') {
      while (peek() != '\0' && peek() != '\n' && peek() != '\r') ++position_;
    } else if (c == ' ' || c == '\t' || (over_lines && (c == '\n' || c == '\r'))) {
      ++position_;
    } else {
      return;
    }
  }
}

Result<std::uint32_t> GrammarScanner::read_character() {
  if (peek() != '\\') {
    const std::size_t bytes = utf8_step(text_.substr(position_)).bytes;
    position_ += bytes;
    return code_point(text_.substr(position_ - bytes, bytes));
  }
  const char kind = peek(1);
  const std::size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
  if (digits == 0) {
    if (!std::string_view("trn\\\"[]-").contains(kind) || kind == '\0')
      return fail(position_,
                  "an unknown escape; known are \\t \\r \\n \\\\ \\\" \\[ \\] \\- \\xHH \\uHHHH "
                  "\\UHHHHHHHH");
    position_ += 2;
    if (kind == 't') return '\t';
    if (kind == 'r') return '\r';
    return kind == 'n' ? '\n' : static_cast<std::uint32_t>(kind);
  }
  const std::string_view hex = text_.substr(position_ + 2, digits);
  std::uint32_t value = 0;
  const auto read = std::from_chars(hex.data(), hex.data() + hex.size(), value, 16);
  if (hex.size() != digits || read.ptr != hex.data() + digits)
    return fail(position_, "this escape needs " + std::to_string(digits) + " hex digits");
  if (value > kCodePointMax) return fail(position_, "no character is above U+10FFFF");
  position_ += 2 + digits;
  return value;
}

}  // namespace incipit::model
