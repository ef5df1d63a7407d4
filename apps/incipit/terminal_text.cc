// SPDX-License-Identifier: Apache-2.0
#include "incipit/terminal_text.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "base/utf8.h"

namespace incipit::app {
namespace {

std::string byte_escape(unsigned char byte) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "\\x%02x", byte);
  return text.data();
}

// Of a valid character of at least two bytes.
std::uint32_t code_point(std::string_view character) {
  const auto first = static_cast<unsigned char>(character.front());
  std::uint32_t code = first & (0x7fU >> character.size());
  for (const char c : character.substr(1))
    code = code << 6U | (static_cast<unsigned char>(c) & 0x3fU);
  return code;
}

// C1 controls, line separators, and the marks that turn the direction of a text around.
bool is_obeyed(std::uint32_t code) {
  return (code >= 0x80 && code <= 0x9f) || code == 0x061c || (code >= 0x200e && code <= 0x200f) ||
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

std::string shown_byte(char c, LineEnds lines) {
  const auto byte = static_cast<unsigned char>(c);
  if (c == '\n') return lines == LineEnds::kKept ? "\n" : "\\n";
  if (c == '\t') return "\\t";
  if (c == '\r') return "\\r";
  return byte < 0x20 || byte >= 0x7f ? byte_escape(byte) : std::string(1, c);
}

std::string shown_character(std::string_view character) {
  const std::uint32_t code = code_point(character);
  if (!is_obeyed(code)) return std::string(character);
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "\\u{%x}", code);
  return text.data();
}

// Where the last column of a line begins.
std::size_t column_of(std::string_view line) {
  std::size_t column = std::min(line.find_first_not_of(' '), line.size());
  for (std::size_t gap = line.find("  ", column); gap != std::string_view::npos;
       gap = line.find("  ", column)) {
    column = std::min(line.find_first_not_of(' ', gap), line.size());
  }
  return column;
}

std::string wrapped_line(std::string_view line, std::size_t width) {
  const std::size_t column = column_of(line);
  std::string out(line.substr(0, column));
  std::size_t length = column;
  for (std::string_view rest = line.substr(column); !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    const std::size_t needed = width_of(word);
    const bool is_first = length == column;
    if (!is_first && length + 1 + needed > width) {
      out += "\n" + std::string(column, ' ');
      length = column;
    } else if (!is_first) {
      out += ' ';
      ++length;
    }
    out += word;
    length += needed;
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text, LineEnds lines) {
  std::string shown;
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    const std::string_view part = text.substr(0, step.bytes);
    text.remove_prefix(step.bytes);
    if (step.valid && part.size() > 1) {
      shown += shown_character(part);
    } else {
      for (const char c : part) shown += shown_byte(c, lines);
    }
  }
  return shown;
}

std::string in_quotes(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return '"' + printable(escaped, LineEnds::kEscaped) + '"';
}

std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

std::string padded(std::string_view text, std::size_t width) {
  const std::size_t taken = width_of(text);
  return std::string(text) + std::string(taken < width ? width - taken : 0, ' ');
}

std::string wrapped(std::string_view text, std::size_t width) {
  std::string out;
  bool is_after_empty = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() && std::exchange(is_after_empty, true)) continue;
    is_after_empty = line.empty();
    out += wrapped_line(line, width) + "\n";
  }
  return out;
}

}  // namespace incipit::app
