// SPDX-License-Identifier: Apache-2.0
#include "prompt/ticket_text.h"

#include <gtest/gtest.h>

#include <string>

namespace incipit::prompt {
namespace {

template <typename Member, typename Value>
TaskOptions with(Member member, Value value) {
  TaskOptions options;
  options.*member = value;
  return options;
}

TEST(TicketText, IsKeptAsItIsByDefault) {
  const std::string text(" a\0b\x01\xC2\x80\n", 9);
  const TicketText prepared = prepare_ticket(text, {});
  EXPECT_EQ(prepared.text, text);
  EXPECT_EQ(prepared.error, "");
}

TEST(TicketText, StripsUnicodeWhiteSpaceIfAsked) {
  EXPECT_EQ(prepare_ticket("\xE3\x80\x80 a b\xC2\xA0\n", with(&TaskOptions::strip, true)).text,
            "a b");
  EXPECT_EQ(stripped(" \t\r\n\v\f"), "");
  EXPECT_EQ(stripped("\xE2\x80\x8B"), "\xE2\x80\x8B");  // Zero width, yet no white space.
}

TEST(TicketText, DropsControlsIfAskedButKeepsLines) {
  const std::string text(
      "a\0b\x1B\x7F\xC2\x85"
      "c\t\r\n\xC3\xA9",
      13);
  EXPECT_EQ(prepare_ticket(text, with(&TaskOptions::drop_control, true)).text, "abc\t\r\n\xC3\xA9");
}

TEST(TicketText, EmptyIsAnErrorUnlessItIsScored) {
  EXPECT_EQ(prepare_ticket("", {}).error, kEmptyText);
  EXPECT_EQ(prepare_ticket(" \xE2\x80\xA9", {}).error, kEmptyText);
  EXPECT_EQ(prepare_ticket(std::string(1, '\0'), with(&TaskOptions::drop_control, true)).error,
            kEmptyText);
  EXPECT_EQ(prepare_ticket("", with(&TaskOptions::empty_text, EmptyTextPolicy::kReview)).error,
            kEmptyText);
  EXPECT_EQ(prepare_ticket(" ", with(&TaskOptions::empty_text, EmptyTextPolicy::kScore)).error, "");
}

TEST(TicketText, BytesThatAreNoUtf8AreReplacedOrRefused) {
  const TicketText prepared = prepare_ticket("caf\xE9 \xFF", {});
  EXPECT_EQ(prepared.text, "caf\xEF\xBF\xBD \xEF\xBF\xBD");
  EXPECT_EQ(prepared.utf8_replaced, 2U);
  EXPECT_EQ(prepare_ticket("\xE9", with(&TaskOptions::reject_invalid_utf8, true)).error,
            kInvalidUtf8);
}

}  // namespace
}  // namespace incipit::prompt
