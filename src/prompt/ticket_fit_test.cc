// SPDX-License-Identifier: Apache-2.0
#include "prompt/ticket_fit.h"

#include <gtest/gtest.h>

#include <string>

#include "base/utf8.h"
#include "support/prompt_model.h"
#include "support/vocabulary_file.h"

namespace incipit::prompt {
namespace {

TicketTokens tokens_of(std::string_view text) {
  return test::must(TicketTokens::open(text, *test::qwen().tokenizer));
}

TEST(TicketFit, PartsOfATicketMeetAtTokenBorders) {
  const TicketTokens ticket = tokens_of("one two three four");
  ASSERT_EQ(ticket.count(), 4U);
  EXPECT_EQ(ticket.part(0, 2), "one two");
  EXPECT_EQ(ticket.part(2, 4), " three four");
  EXPECT_EQ(ticket.part(1, 1), "");
}

TEST(TicketFit, KeepsHeadTailOrBoth) {
  const TicketTokens ticket = tokens_of("one two three four");
  EXPECT_EQ(kept_part(ticket, 3, TooLongPolicy::kHead), "one two three");
  EXPECT_EQ(kept_part(ticket, 3, TooLongPolicy::kTail), " two three four");
  EXPECT_EQ(kept_part(ticket, 3, TooLongPolicy::kHeadTail), "one two\n...\n four");
  EXPECT_EQ(kept_part(ticket, 0, TooLongPolicy::kTail), "");
  EXPECT_EQ(kept_part(ticket, 9, TooLongPolicy::kHead), "one two three four");
}

TEST(TicketFit, NoPartEndsInsideACharacter) {
  const std::string text = "x\xF0\x93\x80\x80\xF0\x93\x80\x81y";
  const TicketTokens ticket = tokens_of(text);
  ASSERT_GT(ticket.count(), 4U);  // A hieroglyph is several tokens.
  for (std::size_t at = 0; at <= ticket.count(); ++at) {
    EXPECT_TRUE(is_valid_utf8(ticket.part(0, at)));
    EXPECT_EQ(std::string(ticket.part(0, at)) + std::string(ticket.part(at, ticket.count())), text);
  }
}

TEST(TicketFit, TheSpaceThatAVocabularyAddsIsNotTheTickets) {
  const auto tokenizer = test::must(model::Tokenizer::open(test::sentencepiece_file()));
  const std::string text = "Refund Refund";
  const TicketTokens ticket = test::must(TicketTokens::open(text, *tokenizer));
  ASSERT_EQ(ticket.count(), 2U);
  EXPECT_EQ(ticket.part(0, 1), "Refund");
  EXPECT_EQ(ticket.part(1, 2), " Refund");
}

}  // namespace
}  // namespace incipit::prompt
