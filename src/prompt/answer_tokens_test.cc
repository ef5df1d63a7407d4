// SPDX-License-Identifier: Apache-2.0
#include "prompt/answer_tokens.h"

#include <gtest/gtest.h>

#include <string>

#include "support/prompt_model.h"

namespace incipit::prompt {
namespace {

using test::must;
using test::qwen;

class AnswerTokensTest : public testing::Test {
 protected:
  SpecialText special{qwen().tokenizer->special_tokens(), ""};
  PromptText reader{*qwen().tokenizer, special};

  std::string spelled(const std::string& prompt, const std::string& answer) {
    const auto tokens = answer_tokens({prompt, {}}, answer, reader);
    return tokens ? qwen().spelled(*tokens) : "refused";
  }
};

TEST_F(AnswerTokensTest, AreThoseAfterTheCue) {
  EXPECT_EQ(spelled("x<|im_start|>assistant\n", "billing"), "billing");
  EXPECT_EQ(spelled("x<|im_start|>", "billing"), "billing");
  EXPECT_EQ(spelled("Label:", " C"), " C");
}

// C32: a cue that ends in a space loses it to the answer.
TEST_F(AnswerTokensTest, AnswersThatMergeWithTheCueAreRefused) {
  EXPECT_EQ(spelled("Label: ", "C"), "refused");
  EXPECT_EQ(spelled("tech", "nical"), "refused");
  EXPECT_EQ(spelled("x<|im_start|>assistant\n", "\nx"), "refused");
}

TEST_F(AnswerTokensTest, AreComparedWithTheExamples) {
  const TokenVector tokens =
      must(answer_tokens({"<|im_start|>assistant\n", {}}, "billing", reader));
  const std::string turn = "<|im_start|>assistant\nbilling<|im_end|>";
  EXPECT_TRUE(must(has_same_tokens_in({turn, {{22, 29}}}, "billing", tokens, reader)));
  const std::string spaced = "<|im_start|>assistant\n billing<|im_end|>";
  EXPECT_FALSE(must(has_same_tokens_in({spaced, {{23, 30}}}, "billing", tokens, reader)));
  EXPECT_TRUE(must(has_same_tokens_in({"nothing", {}}, "billing", tokens, reader)));
}

TEST_F(AnswerTokensTest, TheTemplateSaysWhatEndsATurn) {
  const auto end = [&](const std::string& jinja) {
    const auto chat = must(model::ChatTemplate::open(
        {.jinja = jinja, .bos = "", .eos = "<|endoftext|>", .name = "test"}));
    return qwen().tokenizer->piece(*end_of_turn(*chat, {}, reader));
  };
  const std::string loop = "{% for m in messages %}{{ m.content }}";
  EXPECT_EQ(end(loop + " {{ eos_token }}{% endfor %}"), "<|endoftext|>");
  EXPECT_EQ(end(loop + "<|im_end|><|endoftext|>{% endfor %}"), "<|im_end|>");
  // Where the template says nothing, the vocabulary does.
  EXPECT_EQ(end(loop + " bye <|endoftext|>{% endfor %}"), "<|im_end|>");
  EXPECT_EQ(end(loop + "\n{% endfor %}"), "<|im_end|>");
}

}  // namespace
}  // namespace incipit::prompt
