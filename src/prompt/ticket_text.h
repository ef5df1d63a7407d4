// SPDX-License-Identifier: Apache-2.0
//
// A ticket as it came in becomes the text that is tokenised (docs/task_file.md, "Text").
//
// In this order: bytes that are no UTF-8 become U+FFFD or an error, control characters are
// dropped if asked, edges are stripped if asked, emptiness is judged. Two tickets whose prepared
// texts are equal get the same scores, so this is also what exact repeats are found by.
// Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "incipit/task.h"

namespace incipit::prompt {

inline constexpr std::string_view kEmptyText = "empty_text";
inline constexpr std::string_view kInvalidUtf8 = "invalid_utf8";
inline constexpr std::string_view kSpecialToken = "special_token";
inline constexpr std::string_view kTooLong = "too_long";
inline constexpr std::string_view kTokeniserFailed = "tokeniser_failed";

struct TicketText {
  std::string text;
  std::size_t utf8_replaced = 0;
  std::string error;  // Empty, kInvalidUtf8 or kEmptyText.
};

// An empty text is an error unless it is to be scored; whoever decides turns it into a review
// where the task says so.
[[nodiscard]] TicketText prepare_ticket(std::string_view ticket, const TaskOptions& options);

// Without white space at both ends; white space is what Unicode calls so.
[[nodiscard]] std::string_view stripped(std::string_view text);

}  // namespace incipit::prompt
