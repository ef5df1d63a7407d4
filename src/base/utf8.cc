// SPDX-License-Identifier: Apache-2.0
#include "base/utf8.h"

#include <cstdint>

namespace incipit {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

struct Lead {
  std::size_t bytes = 0;  // Of the whole character; 0: no character starts with this byte.
  std::uint8_t second_min = 0x80;
  std::uint8_t second_max = 0xBF;
};

// The second byte's range rules out overlong forms, surrogates and values above U+10FFFF.
Lead lead_of(std::uint8_t byte) {
  if (byte < 0x80) return {.bytes = 1};
  if (byte < 0xC2) return {.bytes = 0};
  if (byte < 0xE0) return {.bytes = 2};
  if (byte == 0xE0) return {.bytes = 3, .second_min = 0xA0};
  if (byte == 0xED) return {.bytes = 3, .second_max = 0x9F};
  if (byte < 0xF0) return {.bytes = 3};
  if (byte == 0xF0) return {.bytes = 4, .second_min = 0x90};
  if (byte < 0xF4) return {.bytes = 4};
  if (byte == 0xF4) return {.bytes = 4, .second_max = 0x8F};
  return {.bytes = 0};
}

// The length of the valid start of `text`, a multiple of whole characters.
std::size_t valid_bytes(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (static_cast<std::uint8_t>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const Utf8Step step = utf8_step(text.substr(at));
    if (!step.valid) break;
    at += step.bytes;
  }
  return at;
}

}  // namespace

Utf8Step utf8_step(std::string_view text) {
  if (text.empty()) return {};
  const auto byte_at = [text](std::size_t index) { return static_cast<std::uint8_t>(text[index]); };
  const Lead lead = lead_of(byte_at(0));
  if (lead.bytes == 0) return {.bytes = 1, .valid = false};
  for (std::size_t i = 1; i < lead.bytes; ++i) {
    const std::uint8_t low = i == 1 ? lead.second_min : 0x80;
    const std::uint8_t high = i == 1 ? lead.second_max : 0xBF;
    if (i == text.size() || byte_at(i) < low || byte_at(i) > high) {
      return {.bytes = i, .valid = false};
    }
  }
  return {.bytes = lead.bytes, .valid = true};
}

bool is_valid_utf8(std::string_view text) { return valid_bytes(text) == text.size(); }

std::string repair_utf8(std::string_view text, std::size_t* replaced) {
  std::string repaired;
  while (true) {
    const std::size_t good = valid_bytes(text);
    repaired.append(text, 0, good);
    if (good == text.size()) return repaired;
    text.remove_prefix(good);
    text.remove_prefix(utf8_step(text).bytes);
    repaired += kReplacement;
    if (replaced != nullptr) ++*replaced;
  }
}

}  // namespace incipit
