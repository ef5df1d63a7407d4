// SPDX-License-Identifier: Apache-2.0
#include "prompt/prompt_frame.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/prompt_model.h"

namespace incipit::prompt {
namespace {

using test::must;
using test::qwen;

// A rendered chat as if all of it were the template's, but for the hole.
PromptFrame frame_of(const std::string& text, const PromptText& reader) {
  const std::size_t at = text.find("HOLE");
  std::vector<PromptFrame> frames;
  frames.push_back(must(PromptFrame::open({text, {{at, at + 4}}}, "HOLE", reader)));
  must(PromptFrame::cut(frames, reader));
  return frames.front();
}

class PromptFrameTest : public testing::Test {
 protected:
  SpecialText special{qwen().tokenizer->special_tokens(), ""};
  PromptText reader{*qwen().tokenizer, special};

  std::string prefix(const std::string& text) {
    return qwen().spelled(frame_of(text, reader).prefix());
  }
  void expect_whole(const PromptFrame& frame, const std::string& ticket) {
    const auto policy = SpecialTextPolicy::kNeutralise;
    const FrameTokens tokens = must(frame.encode(ticket, policy, reader));
    TokenVector joined;
    if (!tokens.slow_path) joined.assign(frame.prefix().begin(), frame.prefix().end());
    joined.insert(joined.end(), tokens.suffix.begin(), tokens.suffix.end());
    EXPECT_EQ(joined, must(frame.whole(ticket, policy, reader))) << ticket;
  }
};

TEST_F(PromptFrameTest, TheCutStandsAsNearToTheTicketAsProbesAllow) {
  EXPECT_EQ(prefix("<|im_start|>HOLE<|im_end|>\n"), "<|im_start|>");
  EXPECT_EQ(prefix("<|im_start|>user\nTicket: HOLE<|im_end|>\n"), "<|im_start|>user\nTicket:");
  // A line feed merges with another one; the word before it does not.
  EXPECT_EQ(prefix("<|im_start|>user\nHOLE<|im_end|>\n"), "<|im_start|>user");
  // A letter that any word may continue.
  EXPECT_EQ(prefix("<|im_start|>user\naHOLE<|im_end|>\n"), "<|im_start|>user\n");
}

TEST_F(PromptFrameTest, TheSuffixHasTwoTokensAtLeast) {
  const PromptFrame frame = frame_of("<|im_start|>user\nTicket:\nx HOLE", reader);
  const FrameTokens tokens = must(frame.encode("", SpecialTextPolicy::kNeutralise, reader));
  EXPECT_GE(tokens.suffix.size(), 2U);
}

TEST_F(PromptFrameTest, ATicketThatChangesThePrefixIsFound) {
  // No probe makes another word of " app", but "le" does.
  const PromptFrame frame = frame_of("<|im_start|>user\n appHOLE<|im_end|>\n", reader);
  EXPECT_EQ(qwen().spelled(frame.prefix()), "<|im_start|>user\n app");
  EXPECT_FALSE(must(frame.encode("a", SpecialTextPolicy::kNeutralise, reader)).slow_path);
  EXPECT_TRUE(must(frame.encode("le", SpecialTextPolicy::kNeutralise, reader)).slow_path);
  expect_whole(frame, "a");
  expect_whole(frame, "le");
}

TEST_F(PromptFrameTest, SurfacesAcrossTheBorderAreCut) {
  const PromptFrame frame = frame_of("<|im_start|>user\n<|im_HOLE|><|im_end|>\n", reader);
  const FrameTokens tokens = must(frame.encode("end", SpecialTextPolicy::kNeutralise, reader));
  EXPECT_EQ(tokens.markers, 1U);
  EXPECT_FALSE(tokens.forged_marker);
  expect_whole(frame, "end");
}

TEST_F(PromptFrameTest, AHoleThatIsThereTwiceOrNotAtAllIsRefused) {
  EXPECT_FALSE(PromptFrame::open({"a HOLE HOLE", {}}, "HOLE", reader));
  EXPECT_FALSE(PromptFrame::open({"a hole", {}}, "HOLE", reader));
}

TEST_F(PromptFrameTest, FramesThatBeginDifferentlyShareNothing) {
  std::vector<PromptFrame> frames;
  frames.push_back(must(PromptFrame::open({"a HOLE", {}}, "HOLE", reader)));
  frames.push_back(must(PromptFrame::open({"b HOLE", {}}, "HOLE", reader)));
  EXPECT_FALSE(PromptFrame::cut(frames, reader));
}

}  // namespace
}  // namespace incipit::prompt
