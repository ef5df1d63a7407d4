// SPDX-License-Identifier: Apache-2.0
#include "prompt/special_text.h"

#include <algorithm>

#include "base/utf8.h"

namespace incipit::prompt {
namespace {

bool is_one_character(std::string_view surface) {
  return utf8_step(surface).bytes == surface.size();
}

bool is_white_space(std::string_view surface) {
  return surface.find_first_not_of(" \t\n\r\f\v") == std::string_view::npos;
}

bool is_marker_token(const model::SpecialToken& token, std::string_view template_text) {
  if (token.kind != model::SpecialKind::kUserDefined) return true;
  const std::string_view surface = token.surface;
  if (is_one_character(surface) || is_white_space(surface)) return false;
  return surface.find_first_of("<[|") != std::string_view::npos ||
         template_text.find(surface) != std::string_view::npos;
}

}  // namespace

SpecialText::SpecialText(std::span<const model::SpecialToken> tokens,
                         std::string_view template_text) {
  for (const model::SpecialToken& token : tokens) {
    if (!is_marker_token(token, template_text)) {
      harmless_.push_back(token.surface);
      continue;
    }
    markers_.emplace(token.surface, token);
    lengths_.push_back(token.surface.size());
    starts_[static_cast<unsigned char>(token.surface.front())] = true;
    // UNKNOWN stands for any text that a vocabulary lacks, so it proves nothing where it occurs.
    if (token.kind == model::SpecialKind::kUnknown) continue;
    const auto index = static_cast<std::size_t>(token.id);
    if (index >= is_marker_.size()) is_marker_.resize(index + 1);
    is_marker_[index] = true;
  }
  std::ranges::sort(lengths_, std::greater<>());
  const auto repeated = std::ranges::unique(lengths_);
  lengths_.erase(repeated.begin(), repeated.end());
}

const model::SpecialToken* SpecialText::marker_at(std::string_view text, std::size_t at) const {
  if (!starts_[static_cast<unsigned char>(text[at])]) return nullptr;
  const std::string_view rest = text.substr(at);
  for (const std::size_t length : lengths_) {
    if (length > rest.size()) continue;
    const auto found = markers_.find(rest.substr(0, length));
    if (found != markers_.end()) return &found->second;
  }
  return nullptr;
}

std::vector<std::size_t> SpecialText::cuts(std::string_view text, TextRange range,
                                           std::size_t* count) const {
  std::vector<std::size_t> cuts;
  *count = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const model::SpecialToken* marker = marker_at(text, at);
    if (marker == nullptr || is_one_character(marker->surface)) continue;
    cuts.push_back(at + utf8_step(text.substr(at)).bytes);
    if (at < range.end && at + marker->surface.size() > range.begin) ++*count;
  }
  return cuts;
}

bool SpecialText::is_marker(Token token) const {
  const auto index = static_cast<std::size_t>(token);
  return index < is_marker_.size() && is_marker_[index];
}

}  // namespace incipit::prompt
