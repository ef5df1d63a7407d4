// SPDX-License-Identifier: Apache-2.0
#include "prompt/special_text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace incipit::prompt {
namespace {

using model::SpecialKind;
using model::SpecialToken;

SpecialToken token(Token id, std::string surface, SpecialKind kind = SpecialKind::kUserDefined) {
  return {.id = id, .surface = std::move(surface), .kind = kind};
}

const std::vector<SpecialToken> kTokens{token(1, "<end>", SpecialKind::kControl),
                                        token(2, "<end><end>", SpecialKind::kControl),
                                        token(3, "\n\n"),
                                        token(4, "tool_call"),
                                        token(5, "[TOOL]"),
                                        token(6, "|"),
                                        token(7, "  "),
                                        token(8, "stop", SpecialKind::kControl),
                                        token(9, "<unk>", SpecialKind::kUnknown)};

std::vector<std::size_t> cuts(std::string_view text, std::size_t* count) {
  return SpecialText(kTokens, "").cuts(text, {0, text.size()}, count);
}

TEST(SpecialText, CutsAfterTheFirstCharacterOfEverySurface) {
  std::size_t count = 0;
  EXPECT_EQ(cuts("a <end> [TOOL] b", &count), (std::vector<std::size_t>{3, 9}));
  EXPECT_EQ(count, 2U);
  EXPECT_EQ(cuts("plain | text\n\n  tool_call", &count), std::vector<std::size_t>{});
  EXPECT_EQ(count, 0U);
}

TEST(SpecialText, CutsOverlappingSurfacesToo) {
  std::size_t count = 0;
  EXPECT_EQ(cuts("<end><end>", &count), (std::vector<std::size_t>{1, 6}));
}

TEST(SpecialText, CountsOnlyWhatTouchesTheRange) {
  std::size_t count = 0;
  const SpecialText special(kTokens, "");
  EXPECT_EQ(special.cuts("<end>x<end>", {5, 6}, &count).size(), 2U);
  EXPECT_EQ(count, 0U);
  EXPECT_EQ(special.cuts("<end>x<end>", {4, 6}, &count).size(), 2U);
  EXPECT_EQ(count, 1U);
}

TEST(SpecialText, OnlyMarkersCount) {
  EXPECT_EQ(SpecialText(kTokens, "").harmless(),
            (std::vector<std::string>{"\n\n", "tool_call", "|", "  "}));
  // What the template writes is a marker, but white space and single characters never are.
  EXPECT_EQ(SpecialText(kTokens, "\n\n  tool_call|").harmless(),
            (std::vector<std::string>{"\n\n", "|", "  "}));
}

TEST(SpecialText, KnowsTheTokensThatNoTicketMayHold) {
  const SpecialText special(kTokens, "");
  EXPECT_TRUE(special.is_marker(1));
  EXPECT_TRUE(special.is_marker(5));
  EXPECT_FALSE(special.is_marker(3));
  EXPECT_FALSE(special.is_marker(9));  // What an unknown character becomes.
  EXPECT_FALSE(special.is_marker(1000));
}

TEST(SpecialText, TakesTheLongestSurface) {
  const SpecialText special(kTokens, "");
  EXPECT_EQ(special.marker_at("<end><end>", 0)->id, 2);
  EXPECT_EQ(special.marker_at("<end><end>", 5)->id, 1);
  EXPECT_EQ(special.marker_at("<end", 0), nullptr);
}

}  // namespace
}  // namespace incipit::prompt
