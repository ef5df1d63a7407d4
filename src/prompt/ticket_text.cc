// SPDX-License-Identifier: Apache-2.0
#include "prompt/ticket_text.h"

#include <array>
#include <cstdint>

#include "base/utf8.h"

namespace incipit::prompt {
namespace {

// White space beyond ASCII, as UTF-8: U+0085, U+00A0, U+1680, U+2000..U+200A, U+2028, U+2029,
// U+202F, U+205F, U+3000.
constexpr std::array<std::string_view, 19> kWideSpaces = {
    "\xC2\x85",     "\xC2\xA0",     "\xE1\x9A\x80", "\xE2\x80\x80", "\xE2\x80\x81",
    "\xE2\x80\x82", "\xE2\x80\x83", "\xE2\x80\x84", "\xE2\x80\x85", "\xE2\x80\x86",
    "\xE2\x80\x87", "\xE2\x80\x88", "\xE2\x80\x89", "\xE2\x80\x8A", "\xE2\x80\xA8",
    "\xE2\x80\xA9", "\xE2\x80\xAF", "\xE2\x81\x9F", "\xE3\x80\x80"};

bool is_space(char byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

// The bytes of the white space that `text` begins or ends with; 0 if there is none.
std::size_t leading_space(std::string_view text) {
  if (!text.empty() && is_space(text.front())) return 1;
  for (const std::string_view space : kWideSpaces) {
    if (text.starts_with(space)) return space.size();
  }
  return 0;
}

std::size_t trailing_space(std::string_view text) {
  if (!text.empty() && is_space(text.back())) return 1;
  for (const std::string_view space : kWideSpaces) {
    if (text.ends_with(space)) return space.size();
  }
  return 0;
}

// Drops C0 and C1 controls and DEL, but keeps tab, line feed and carriage return.
std::string without_controls(std::string_view text) {
  std::string kept;
  kept.reserve(text.size());
  while (!text.empty()) {
    const std::size_t bytes = utf8_step(text).bytes;
    const auto first = static_cast<std::uint8_t>(text[0]);
    const bool is_c0 = first < 0x20 && first != '\t' && first != '\n' && first != '\r';
    const bool is_c1 = first == 0xC2 && bytes == 2 && static_cast<std::uint8_t>(text[1]) < 0xA0;
    if (!is_c0 && !is_c1 && first != 0x7F) kept.append(text, 0, bytes);
    text.remove_prefix(bytes);
  }
  return kept;
}

}  // namespace

std::string_view stripped(std::string_view text) {
  while (const std::size_t bytes = leading_space(text)) text.remove_prefix(bytes);
  while (const std::size_t bytes = trailing_space(text)) text.remove_suffix(bytes);
  return text;
}

TicketText prepare_ticket(std::string_view ticket, const TaskOptions& options) {
  TicketText result;
  if (options.reject_invalid_utf8 && !is_valid_utf8(ticket)) {
    result.error = kInvalidUtf8;
    return result;
  }
  result.text = repair_utf8(ticket, &result.utf8_replaced);
  if (options.drop_control) result.text = without_controls(result.text);
  const std::string_view inner = stripped(result.text);
  if (inner.empty() && options.empty_text != EmptyTextPolicy::kScore) result.error = kEmptyText;
  if (options.strip) result.text = std::string(inner);
  return result;
}

}  // namespace incipit::prompt
