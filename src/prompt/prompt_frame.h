// SPDX-License-Identifier: Apache-2.0
//
// One prompt with a hole for the ticket, and the place where it is cut.
//
//     head          left             ticket   right   tail
//     control ...   user\nTicket: '  hole  '  \n...   <|im_end|>\n<|im_start|>assistant\n
//     '--------prefix--------' cut '---------------------suffix------------------------'
//
// `head` ends with a control token and `tail` begins with one, so both are tokenised once. The
// piece left + ticket + right is tokenised as a whole for each ticket: its tokens are right by
// construction. The prefix reaches into `left` by as many tokens as trial tickets leave alone
// (the start probes). A ticket that changes one of them all the same is found by comparing, and
// gets a whole prompt of its own: the slow path. So the cut needs no rule for vocabularies whose
// merges reach far; at worst it costs time.
//
// Invariant (task_prompt_property_test.cc): prefix + suffix equals PromptText::encode() of the
// whole text.
// Immutable after cut().
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "incipit/result.h"
#include "incipit/task.h"
#include "incipit/types.h"
#include "prompt/prompt_text.h"

namespace incipit::prompt {

struct FrameTokens {
  TokenVector suffix;  // In the slow path the whole prompt.
  bool slow_path = false;
  std::size_t markers = 0;     // Special surfaces that touch the ticket.
  bool forged_marker = false;  // One of them became a token all the same.
};

class PromptFrame {
 public:
  // `chat` is rendered with `hole` in place of the ticket. The prefix ends with `head`.
  // Errors: kInvalidArgument if the template does not keep the hole exactly once.
  static Result<PromptFrame> open(const model::RenderedChat& chat, std::string_view hole,
                                  const PromptText& text);

  // Moves the cut of all frames as near to the ticket as the probes allow.
  // Errors: kInvalidArgument if the frames do not begin alike.
  static Result<void> cut(std::span<PromptFrame> frames, const PromptText& text);

  [[nodiscard]] Result<FrameTokens> encode(std::string_view ticket, SpecialTextPolicy policy,
                                           const PromptText& text) const;

  // The whole prompt, read from its text alone: the oracle for encode().
  [[nodiscard]] Result<TokenVector> whole(std::string_view ticket, SpecialTextPolicy policy,
                                          const PromptText& text) const;

  // The prompt's text with `ticket` in the hole.
  [[nodiscard]] model::RenderedChat filled(std::string_view ticket) const;

  [[nodiscard]] TokenSpan prefix() const { return prefix_; }
  [[nodiscard]] std::string_view text_before_ticket() const;
  [[nodiscard]] std::string_view text_after_ticket() const;

 private:
  struct Hole {
    std::size_t at = 0;       // In chat_.text.
    TextRange piece;          // The plain piece around it.
    bool strip_left = false;  // The control tokens beside the piece swallow white space.
    bool strip_right = false;
  };

  PromptFrame() = default;
  [[nodiscard]] Result<PlainTokens> encode_hole(std::string_view ticket, SpecialTextPolicy policy,
                                                const PromptText& text) const;
  [[nodiscard]] Result<std::size_t> left_kept(const TokenVector& left,
                                              const PromptText& text) const;

  model::RenderedChat chat_;  // With nothing in the hole.
  Hole hole_;
  TokenVector head_;
  TokenVector tail_;
  TokenVector prefix_;  // head_ and the first tokens of `left`.
};

// How many tokens both begin with.
[[nodiscard]] std::size_t common_length(TokenSpan a, TokenSpan b);

}  // namespace incipit::prompt
