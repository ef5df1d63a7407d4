// SPDX-License-Identifier: Apache-2.0
#include "prompt/answer_tokens.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/utf8.h"
#include "prompt/ticket_text.h"

namespace incipit::prompt {
namespace {

Result<TokenVector> plain_tokens(std::string_view plain, bool strip_left, const PromptText& text) {
  INCIPIT_TRY(PlainTokens tokens,
              text.encode_plain({.text = plain, .ticket = {}, .strip_left = strip_left},
                                SpecialTextPolicy::kNeutralise));
  return std::move(tokens.tokens);
}

// The end of a text that may be long, for a message.
std::string last_words(const std::string& text) {
  constexpr std::size_t kShown = 40;
  if (text.size() <= kShown) return text;
  return "..." + repair_utf8(text.substr(text.size() - kShown), nullptr);
}

}  // namespace

Result<TokenVector> answer_tokens(const model::RenderedChat& chat, std::string_view answer,
                                  const PromptText& text) {
  std::string cue;
  bool strip_left = false;
  const std::vector<PromptPiece> pieces = text.split(chat);
  if (!pieces.empty()) {
    const PromptPiece& last = pieces.back();
    if (last.control == nullptr) cue = chat.text.substr(last.range.begin);
    strip_left = last.control == nullptr ? last.strip_left : last.control->strips_right;
  }
  INCIPIT_TRY(const TokenVector before, plain_tokens(cue, strip_left, text));
  INCIPIT_TRY(const TokenVector both, plain_tokens(cue + std::string(answer), strip_left, text));
  const auto [kept, own] = std::ranges::mismatch(before, both);
  if (kept != before.end() || own == both.end()) {
    return failure(ErrorCode::kInvalidArgument,
                   "task: the answer \"" + std::string(answer) +
                       "\" merges with the text before it (\"" + last_words(cue) +
                       "\"), so it has no score of its own; change the surface or "
                       "options.label_surface");
  }
  return TokenVector(own, both.end());
}

Result<bool> has_same_tokens_in(const model::RenderedChat& chat, std::string_view answer,
                                TokenSpan tokens, const PromptText& text) {
  const std::string_view all = chat.text;
  for (const TextRange& range : chat.content) {
    if (all.substr(range.begin, range.end - range.begin) != answer) continue;
    for (const PromptPiece& piece : text.split(chat)) {
      if (range.begin < piece.range.begin || range.end > piece.range.end) continue;
      const std::string_view plain = all.substr(piece.range.begin, range.end - piece.range.begin);
      INCIPIT_TRY(const TokenVector seen, plain_tokens(plain, piece.strip_left, text));
      return seen.size() >= tokens.size() &&
             std::equal(tokens.rbegin(), tokens.rend(), seen.rbegin());
    }
  }
  return true;
}

std::optional<Token> end_of_turn(const model::ChatTemplate& chat_template,
                                 const model::RenderOptions& options, const PromptText& text) {
  constexpr std::string_view kAnswer = "QANSWERQ";
  const std::array turns{model::ChatMessage{model::Role::kUser, "QUSERQ"},
                         model::ChatMessage{model::Role::kAssistant, std::string(kAnswer)}};
  const auto chat = chat_template.render(turns, {.generation_prompt = false, .date = options.date});
  if (!chat) return text.tokenizer().end_of_turn();
  const std::size_t at = chat->text.find(kAnswer);
  if (at == std::string::npos) return text.tokenizer().end_of_turn();
  for (const PromptPiece& piece : text.split(*chat)) {
    if (piece.control == nullptr || piece.range.begin < at) continue;
    const std::size_t end = at + kAnswer.size();
    const auto between = std::string_view(chat->text).substr(end, piece.range.begin - end);
    if (stripped(between).empty()) return piece.control->id;
    break;
  }
  return text.tokenizer().end_of_turn();
}

}  // namespace incipit::prompt
