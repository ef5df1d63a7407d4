// SPDX-License-Identifier: Apache-2.0
#include "incipit/terminal_text.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/utf8.h"

namespace incipit::app {
namespace {

TEST(TerminalText, ShowsWhatATerminalWouldObey) {
  EXPECT_EQ(printable("\x1b[31mred\x07 \x7f", LineEnds::kKept), "\\x1b[31mred\\x07 \\x7f");
  EXPECT_EQ(printable("a\nb\tc\r", LineEnds::kKept), "a\nb\\tc\\r");
  EXPECT_EQ(printable("a\nb", LineEnds::kEscaped), "a\\nb");
  EXPECT_EQ(printable(std::string_view("\0", 1), LineEnds::kKept), "\\x00");
  EXPECT_EQ(printable("\xc2\x9b", LineEnds::kKept), "\\u{9b}");        // One-byte escape.
  EXPECT_EQ(printable("\xe2\x80\xae", LineEnds::kKept), "\\u{202e}");  // Right to left.
}

TEST(TerminalText, KeepsEveryOtherCharacter) {
  const std::string text = "caf\xc3\xa9 \xe4\xbd\xa0 \xf0\x9f\x98\x80 ~!";
  EXPECT_EQ(printable(text, LineEnds::kKept), text);
}

TEST(TerminalText, ShowsHalvesOfCharactersAsBytes) {
  EXPECT_EQ(in_quotes("\xf0\x9f"), "\"\\xf0\\x9f\"");
  EXPECT_EQ(in_quotes("\xe9 x"), "\"\\xe9 x\"");
}

TEST(TerminalText, QuotesSoThatTheEndIsPlain) {
  EXPECT_EQ(in_quotes("say \"x\\\"\n"), "\"say \\\"x\\\\\\\"\\n\"");
}

TEST(TerminalText, PadsByCharacters) {
  EXPECT_EQ(padded("\xc3\xa9", 3), "\xc3\xa9  ");
  EXPECT_EQ(padded("abcd", 3), "abcd");
}

TEST(TerminalText, WrapsUnderTheStartOfTheLastColumn) {
  EXPECT_EQ(wrapped("  --flag   one two three\n", 16),
            "  --flag   one\n           two\n           three\n");
  EXPECT_EQ(wrapped("some words in a row", 10), "some words\nin a row\n");
  EXPECT_EQ(wrapped("  incipit x --flag", 14), "  incipit x\n  --flag\n");
}

TEST(TerminalText, KeepsShortLinesAndOneOfSeveralEmptyOnes) {
  EXPECT_EQ(wrapped("a\n\n\nb  c\n", 80), "a\n\nb  c\n");
  EXPECT_EQ(wrapped("averylongword", 4), "averylongword\n");
  EXPECT_EQ(wrapped("", 80), "");
}

RC_GTEST_PROP(TerminalText, IsValidAndWithoutControlsForAllBytes, (const std::string& bytes)) {
  const std::string shown = printable(bytes, LineEnds::kEscaped);
  RC_ASSERT(is_valid_utf8(shown));
  for (const char c : shown) RC_ASSERT(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
}

}  // namespace
}  // namespace incipit::app
