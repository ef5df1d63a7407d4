// SPDX-License-Identifier: Apache-2.0
#include "prompt/prompt_frame.h"

#include <algorithm>
#include <array>
#include <vector>

namespace incipit::prompt {
namespace {

// Beginnings of tickets that merge with what stands before them, each in its own way.
constexpr std::array<std::string_view, 15> kProbes = {"",
                                                      "\n",
                                                      "\n\n",
                                                      " ",
                                                      "  ",
                                                      "\t",
                                                      "a",
                                                      "1",
                                                      ".",
                                                      "<",
                                                      "A",
                                                      "\xE4\xB8\xAD",
                                                      "\xF0\x9F\x98\x80",
                                                      "\xCC\x81",
                                                      "\xD7\x90"};

// A runtime evaluates at least two tokens of a sequence at a time.
constexpr std::size_t kSuffixTokensMin = 2;

// Takes the hole's text out of the chat and returns where it stood.
Result<std::size_t> take_out(model::RenderedChat& chat, std::string_view hole,
                             const PromptText& text) {
  const std::size_t at = chat.text.find(hole);
  if (at == std::string::npos || chat.text.find(hole, at + 1) != std::string::npos) {
    return failure(ErrorCode::kInvalidArgument,
                   text.tokenizer().path() +
                       ": its chat template does not show the last user turn exactly once and "
                       "unchanged, so prompts cannot share a prefix; use another model");
  }
  chat.text.erase(at, hole.size());
  for (TextRange& range : chat.content) {
    if (range.begin > at) range.begin -= hole.size();
    if (range.end > at) range.end -= hole.size();
  }
  std::erase_if(chat.content, [](TextRange range) { return range.begin == range.end; });
  return at;
}

}  // namespace

std::size_t common_length(TokenSpan a, TokenSpan b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

Result<PromptFrame> PromptFrame::open(const model::RenderedChat& chat, std::string_view hole,
                                      const PromptText& text) {
  PromptFrame frame;
  frame.chat_ = chat;
  INCIPIT_TRY(frame.hole_.at, take_out(frame.chat_, hole, text));
  frame.hole_.piece = {frame.hole_.at, frame.hole_.at};

  const std::vector<PromptPiece> pieces = text.split(frame.chat_);
  const auto first = std::ranges::find_if(
      pieces, [&](const PromptPiece& piece) { return piece.range.end >= frame.hole_.at; });
  // Between two control tokens the hole has no plain piece of its own.
  auto before_end = first;
  if (first != pieces.end() && first->control != nullptr && first->range.begin < frame.hole_.at) {
    ++before_end;
  }
  auto after_begin = before_end;
  if (before_end != pieces.end() && before_end->control == nullptr) {
    frame.hole_.piece = before_end->range;
    ++after_begin;
  }
  if (before_end != pieces.begin()) {
    frame.hole_.strip_left = std::prev(before_end)->control->strips_right;
  }
  if (after_begin != pieces.end()) frame.hole_.strip_right = after_begin->control->strips_left;

  const auto encode = [&](auto begin, auto end) {
    return text.encode_pieces(frame.chat_, std::span(begin, end), {},
                              SpecialTextPolicy::kNeutralise);
  };
  INCIPIT_TRY(frame.head_, encode(pieces.begin(), before_end));
  INCIPIT_TRY(frame.tail_, encode(after_begin, pieces.end()));
  INCIPIT_TRY_VOID(text.begin_with_bos(frame.head_));
  frame.prefix_ = frame.head_;
  return frame;
}

Result<void> PromptFrame::cut(std::span<PromptFrame> frames, const PromptText& text) {
  const PromptFrame& first = frames.front();
  const std::string_view piece = first.text_before_ticket().substr(first.hole_.piece.begin);
  INCIPIT_TRY(const PlainTokens left,
              text.encode_plain({.text = piece, .ticket = {}, .strip_left = first.hole_.strip_left},
                                SpecialTextPolicy::kNeutralise));
  std::size_t kept = left.tokens.size();
  for (const PromptFrame& frame : frames) {
    if (frame.text_before_ticket() != first.text_before_ticket() || frame.head_ != first.head_) {
      return failure(ErrorCode::kInvalidArgument,
                     text.tokenizer().path() +
                         ": its chat template begins a prompt differently for each question, so "
                         "they cannot share a prefix; use another model");
    }
    INCIPIT_TRY(const std::size_t frame_kept, frame.left_kept(left.tokens, text));
    kept = std::min(kept, frame_kept);
  }
  for (PromptFrame& frame : frames) {
    frame.prefix_.insert(frame.prefix_.end(), left.tokens.begin(),
                         left.tokens.begin() + static_cast<std::ptrdiff_t>(kept));
  }
  return {};
}

Result<std::size_t> PromptFrame::left_kept(const TokenVector& left, const PromptText& text) const {
  std::size_t kept = left.size();
  for (const std::string_view probe : kProbes) {
    INCIPIT_TRY(const PlainTokens plain, encode_hole(probe, SpecialTextPolicy::kNeutralise, text));
    const std::size_t own = plain.tokens.size() + tail_.size();
    kept = std::min(kept, common_length(left, plain.tokens));
    kept = std::min(kept, own - std::min(own, kSuffixTokensMin));
  }
  return kept;
}

Result<PlainTokens> PromptFrame::encode_hole(std::string_view ticket, SpecialTextPolicy policy,
                                             const PromptText& text) const {
  const std::string_view all = chat_.text;
  std::string piece;
  piece.reserve(hole_.piece.end - hole_.piece.begin + ticket.size());
  piece += all.substr(hole_.piece.begin, hole_.at - hole_.piece.begin);
  const std::size_t begin = piece.size();
  piece += ticket;
  piece += all.substr(hole_.at, hole_.piece.end - hole_.at);
  return text.encode_plain({.text = piece,
                            .ticket = {begin, begin + ticket.size()},
                            .strip_left = hole_.strip_left,
                            .strip_right = hole_.strip_right},
                           policy);
}

Result<FrameTokens> PromptFrame::encode(std::string_view ticket, SpecialTextPolicy policy,
                                        const PromptText& text) const {
  INCIPIT_TRY(PlainTokens plain, encode_hole(ticket, policy, text));
  FrameTokens result{.suffix = {}, .markers = plain.markers};
  if (policy != SpecialTextPolicy::kAllow) {
    result.forged_marker = std::ranges::any_of(
        plain.tokens, [&](Token token) { return text.special().is_marker(token); });
  }
  const TokenSpan left = prefix().subspan(head_.size());
  result.slow_path = common_length(left, plain.tokens) < left.size();
  auto own = plain.tokens.begin();
  if (result.slow_path) {
    result.suffix = head_;
  } else {
    own += static_cast<std::ptrdiff_t>(left.size());
  }
  result.suffix.insert(result.suffix.end(), own, plain.tokens.end());
  result.suffix.insert(result.suffix.end(), tail_.begin(), tail_.end());
  return result;
}

model::RenderedChat PromptFrame::filled(std::string_view ticket) const {
  model::RenderedChat chat;
  chat.text = chat_.text;
  chat.text.insert(hole_.at, ticket);
  const TextRange hole{hole_.at, hole_.at + ticket.size()};
  for (const TextRange& range : chat_.content) {
    if (range.end <= hole_.at) {
      chat.content.push_back(range);
    } else if (range.begin >= hole_.at) {
      chat.content.push_back({range.begin + ticket.size(), range.end + ticket.size()});
    } else {
      chat.content.push_back({range.begin, hole_.at});
      chat.content.push_back({hole.end, range.end + ticket.size()});
    }
  }
  const auto place = std::ranges::find_if(
      chat.content, [&](TextRange range) { return range.begin >= hole.begin; });
  if (!ticket.empty()) chat.content.insert(place, hole);
  return chat;
}

Result<TokenVector> PromptFrame::whole(std::string_view ticket, SpecialTextPolicy policy,
                                       const PromptText& text) const {
  return text.encode(filled(ticket), {hole_.at, hole_.at + ticket.size()}, policy);
}

std::string_view PromptFrame::text_before_ticket() const {
  return std::string_view(chat_.text).substr(0, hole_.at);
}

std::string_view PromptFrame::text_after_ticket() const {
  return std::string_view(chat_.text).substr(hole_.at);
}

}  // namespace incipit::prompt
