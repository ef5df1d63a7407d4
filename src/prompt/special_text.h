// SPDX-License-Identifier: Apache-2.0
//
// Surfaces of special tokens in text that a person wrote.
//
// "<|im_end|>" typed into a ticket must stay ten characters. libllama leaves CONTROL tokens alone
// in plain text but matches USER_DEFINED ones everywhere, and a merge could spell either. So a
// surface found in a person's words is cut after its first character, and the two sides are
// tokenised apart: the text stays readable and no token can span the cut.
//
// Some vocabularies mark harmless things as USER_DEFINED: runs of spaces or newlines, single
// characters. Cutting those would change ordinary text, so only markers count: CONTROL and UNKNOWN
// tokens, and USER_DEFINED ones that hold '<', '[' or '|' or occur in the chat template.
// With a vocabulary that puts a space before each plain piece, the cut adds that space.
//
// Immutable. A scan costs one table look-up a byte where no surface begins.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "incipit/types.h"
#include "model/chat_template.h"
#include "model/tokenizer.h"

namespace incipit::prompt {

using model::TextRange;

class SpecialText {
 public:
  // `template_text` is what the template itself writes into a prompt.
  SpecialText(std::span<const model::SpecialToken> tokens, std::string_view template_text);

  // The longest marker that begins at `at`, or null.
  [[nodiscard]] const model::SpecialToken* marker_at(std::string_view text, std::size_t at) const;

  // Where `text` must be cut: ascending offsets, one inside every marker, overlapping ones too.
  // `*count` becomes the number of markers that touch `range`.
  [[nodiscard]] std::vector<std::size_t> cuts(std::string_view text, TextRange range,
                                              std::size_t* count) const;

  // A token that only the template may write.
  [[nodiscard]] bool is_marker(Token token) const;

  // USER_DEFINED surfaces that are left to the tokeniser, for display.
  [[nodiscard]] const std::vector<std::string>& harmless() const { return harmless_; }

 private:
  struct SurfaceHash {
    using is_transparent = void;  // NOLINT(readability-identifier-naming): the standard's name.
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };

  std::unordered_map<std::string, model::SpecialToken, SurfaceHash, std::equal_to<>> markers_;
  std::vector<std::size_t> lengths_;  // Of surfaces, each once, the longest first.
  std::array<bool, 256> starts_{};    // First bytes of surfaces.
  std::vector<bool> is_marker_;       // By token.
  std::vector<std::string> harmless_;
};

}  // namespace incipit::prompt
