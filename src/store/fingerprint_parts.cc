// SPDX-License-Identifier: Apache-2.0
#include "store/fingerprint_parts.h"

#include <algorithm>
#include <cstddef>
#include <map>

namespace incipit::store {
namespace {

constexpr std::size_t kTextMax = 2048;
constexpr std::size_t kShownMax = 48;

bool is_plain(char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; }

std::string plain(std::string_view text) {
  std::string result(text);
  std::ranges::replace_if(result, [](char c) { return !is_plain(c); }, '?');
  return result;
}

std::string shown(std::string_view value) {
  return plain(value.substr(0, kShownMax)) + (value.size() > kShownMax ? "..." : "");
}

std::map<std::string_view, std::string_view> parse(std::string_view text) {
  std::map<std::string_view, std::string_view> parts;
  text = text.substr(0, kTextMax);
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(';'));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const std::size_t equals = part.find('=');
    if (equals != std::string_view::npos)
      parts.emplace(part.substr(0, equals), part.substr(equals + 1));
  }
  return parts;
}

}  // namespace

std::string parts_text(std::span<const model::FingerprintPart> parts) {
  std::string text;
  for (const auto& [name, value] : parts) {
    std::string field = plain(value);
    std::ranges::replace(field, ';', ',');
    if (!text.empty()) text += ';';
    text.append(name).append("=").append(field);
  }
  return text.substr(0, kTextMax);
}

std::string difference(std::string_view theirs, std::string_view ours) {
  const auto of_file = parse(theirs);
  std::string text;
  for (const auto& [name, here] : parse(ours)) {
    const auto there = of_file.find(name);
    if (there == of_file.end() || there->second == here) continue;
    text += (text.empty() ? "of another " : ", another ") + std::string(name) + " (" +
            shown(there->second) + "; here " + shown(here) + ")";
  }
  return text.empty() ? "of another model, precision, KV type, instruction level or version" : text;
}

}  // namespace incipit::store
