// SPDX-License-Identifier: Apache-2.0
//
// What of a ticket is kept where the whole does not fit.
//
// Only the ticket is ever shortened: instructions, examples, question and cue stay whole. A
// ticket is cut at token borders that are also borders of characters; since tokens near a cut may
// merge otherwise, every candidate is tokenised again before it counts.
// Pure functions of their arguments.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "incipit/result.h"
#include "incipit/task.h"
#include "model/tokenizer.h"

namespace incipit::prompt {

// A ticket by its tokens. Borrows `text`.
class TicketTokens {
 public:
  static Result<TicketTokens> open(std::string_view text, const model::Tokenizer& tokenizer);

  [[nodiscard]] std::size_t count() const { return borders_.size() - 1; }
  // The text of tokens [begin, end).
  [[nodiscard]] std::string_view part(std::size_t begin, std::size_t end) const {
    return text_.substr(borders_[begin], borders_[end] - borders_[begin]);
  }

 private:
  TicketTokens(std::string_view text, std::vector<std::size_t> borders)
      : text_(text), borders_(std::move(borders)) {}

  std::string_view text_;             // The caller keeps the bytes.
  std::vector<std::size_t> borders_;  // Byte offsets, ascending; first 0, last text_.size().
};

// About `tokens` tokens of a ticket, by the policy: its head, its tail, or the same of both with
// "\n...\n" between them.
[[nodiscard]] std::string kept_part(const TicketTokens& ticket, std::size_t tokens,
                                    TooLongPolicy policy);

}  // namespace incipit::prompt
