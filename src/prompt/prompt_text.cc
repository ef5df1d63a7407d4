// SPDX-License-Identifier: Apache-2.0
#include "prompt/prompt_text.h"

#include <algorithm>

namespace incipit::prompt {
namespace {

constexpr std::string_view kSpaces = " \t\n\r\f\v";

bool overlaps(TextRange a, TextRange b) { return a.begin < b.end && b.begin < a.end; }

// Answers "does a message reach into this range?" for ranges asked in ascending order.
class ContentCursor {
 public:
  explicit ContentCursor(const std::vector<TextRange>& content) : content_(content) {}

  bool touches(TextRange range) {
    while (next_ < content_.size() && content_[next_].end <= range.begin) ++next_;
    return next_ < content_.size() && overlaps(content_[next_], range);
  }

 private:
  const std::vector<TextRange>& content_;  // Borrowed from the chat that is being split.
  std::size_t next_ = 0;
};

}  // namespace

std::string template_bytes(const model::RenderedChat& chat) {
  std::string bytes;
  std::size_t at = 0;
  for (const TextRange& range : chat.content) {
    bytes.append(chat.text, at, range.begin - at);
    bytes += '\0';  // Keeps two sides of a message from spelling a surface together.
    at = range.end;
  }
  return bytes.append(chat.text, at);
}

std::vector<PromptPiece> PromptText::split(const model::RenderedChat& chat) const {
  std::vector<PromptPiece> pieces;
  ContentCursor content(chat.content);
  std::size_t plain_begin = 0;
  bool strip_left = false;
  for (std::size_t at = 0; at < chat.text.size();) {
    const model::SpecialToken* marker = special_->marker_at(chat.text, at);
    const TextRange range{at, at + (marker != nullptr ? marker->surface.size() : 1)};
    if (marker == nullptr || content.touches(range)) {
      ++at;
      continue;
    }
    if (plain_begin < at) {
      pieces.push_back({{plain_begin, at}, nullptr, strip_left, marker->strips_left});
    }
    pieces.push_back({range, marker});
    strip_left = marker->strips_right;
    plain_begin = at = range.end;
  }
  if (plain_begin < chat.text.size()) {
    pieces.push_back({{plain_begin, chat.text.size()}, nullptr, strip_left, false});
  }
  return pieces;
}

Result<PlainTokens> PromptText::encode_plain(const PlainText& plain,
                                             SpecialTextPolicy policy) const {
  std::string_view text = plain.text;
  TextRange ticket = plain.ticket;
  if (plain.strip_right) text = text.substr(0, text.find_last_not_of(kSpaces) + 1);
  if (plain.strip_left) {
    const std::size_t spaces = std::min(text.find_first_not_of(kSpaces), text.size());
    text.remove_prefix(spaces);
    ticket.begin -= std::min(ticket.begin, spaces);
    ticket.end -= std::min(ticket.end, spaces);
  }
  PlainTokens result;
  if (policy == SpecialTextPolicy::kAllow) {
    INCIPIT_TRY(result.tokens, tokenizer_->encode_whole(text));
    return result;
  }
  std::vector<std::size_t> cuts = special_->cuts(text, ticket, &result.markers);
  cuts.push_back(text.size());
  std::size_t begin = 0;
  for (const std::size_t end : cuts) {
    INCIPIT_TRY(TokenVector tokens, tokenizer_->encode_plain(text.substr(begin, end - begin)));
    if (begin == 0) {
      result.tokens = std::move(tokens);
    } else {
      result.tokens.insert(result.tokens.end(), tokens.begin(), tokens.end());
    }
    begin = end;
  }
  return result;
}

Result<TokenVector> PromptText::encode_pieces(const model::RenderedChat& chat,
                                              std::span<const PromptPiece> pieces, TextRange ticket,
                                              SpecialTextPolicy policy) const {
  TokenVector tokens;
  for (const PromptPiece& piece : pieces) {
    if (piece.control != nullptr) {
      tokens.push_back(piece.control->id);
      continue;
    }
    const bool holds_ticket = piece.range.begin <= ticket.begin && ticket.end <= piece.range.end;
    const PlainText plain{.text = std::string_view(chat.text).substr(
                              piece.range.begin, piece.range.end - piece.range.begin),
                          .ticket = {},
                          .strip_left = piece.strip_left,
                          .strip_right = piece.strip_right};
    INCIPIT_TRY(const PlainTokens part,
                encode_plain(plain, holds_ticket ? policy : SpecialTextPolicy::kNeutralise));
    tokens.insert(tokens.end(), part.tokens.begin(), part.tokens.end());
  }
  return tokens;
}

Result<TokenVector> PromptText::encode(const model::RenderedChat& chat, TextRange ticket,
                                       SpecialTextPolicy policy) const {
  INCIPIT_TRY(TokenVector tokens, encode_pieces(chat, split(chat), ticket, policy));
  INCIPIT_TRY_VOID(begin_with_bos(tokens));
  return tokens;
}

Result<void> PromptText::begin_with_bos(TokenVector& tokens) const {
  const auto bos = tokenizer_->bos();
  if (!bos) return {};
  const bool printed = !tokens.empty() && tokens.front() == *bos;
  if (!printed && tokenizer_->adds_bos()) tokens.insert(tokens.begin(), *bos);
  if (tokens.size() > 1 && tokens[0] == *bos && tokens[1] == *bos) {
    return failure(ErrorCode::kInternal,
                   tokenizer_->path() +
                       ": its chat template begins a prompt with two BOS tokens; no such prompt "
                       "was seen in training, so use another file of this model");
  }
  return {};
}

}  // namespace incipit::prompt
