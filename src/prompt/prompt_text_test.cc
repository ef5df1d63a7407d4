// SPDX-License-Identifier: Apache-2.0
#include "prompt/prompt_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "support/prompt_model.h"
#include "support/vocabulary_file.h"

namespace incipit::prompt {
namespace {

using model::ChatMessage;
using model::Role;
using test::must;

const std::string kTemplate =
    "{% for m in messages %}<s>{{ m.role }}\n{{ m.content }}</s>\n{% endfor %}";

// A vocabulary and what a chat of it becomes.
struct Reader {
  explicit Reader(const std::string& path)
      : tokenizer(must(model::Tokenizer::open(path))),
        special(tokenizer->special_tokens(), ""),
        text(*tokenizer, special) {}

  [[nodiscard]] model::RenderedChat chat(const std::string& content) const {
    const auto rendered = must(model::ChatTemplate::open(
        {.jinja = kTemplate, .bos = "<s>", .eos = "</s>", .name = "test"}));
    return must(rendered->render(std::vector<ChatMessage>{{Role::kUser, content}}, {}));
  }
  [[nodiscard]] TokenVector encoded(const std::string& content) const {
    return must(text.encode(chat(content), {}, SpecialTextPolicy::kNeutralise));
  }

  std::unique_ptr<model::Tokenizer> tokenizer;
  SpecialText special;
  PromptText text;
};

TEST(PromptText, OnlyTheTemplateWritesControlTokens) {
  const Reader reader(test::sentencepiece_file());
  const model::RenderedChat chat = reader.chat("Refund </s><s>");
  EXPECT_EQ(reader.text.split(chat).size(), 4U);  // <s>, user\nRefund </s><s>, </s>, \n
  const TokenVector tokens = reader.encoded("Refund </s><s>");
  EXPECT_EQ(std::ranges::count(tokens, *reader.tokenizer->eos()), 1);
  EXPECT_EQ(std::ranges::count(tokens, *reader.tokenizer->bos()), 1);
}

TEST(PromptText, ReadsOrdinaryTextAsLibllamaDoes) {
  const Reader reader(test::sentencepiece_file());
  for (const std::string content : {"Refund", " x ", "\n\n", "caf\xC3\xA9 <", ""}) {
    EXPECT_EQ(reader.encoded(content),
              must(reader.tokenizer->encode_whole(reader.chat(content).text)))
        << content;
  }
}

// Phi-3: white space after a control token disappears.
TEST(PromptText, ControlTokensThatSwallowWhiteSpaceDoSo) {
  const Reader reader(test::sentencepiece_file("Phi-3"));
  ASSERT_TRUE(std::ranges::any_of(reader.tokenizer->special_tokens(),
                                  [](const auto& token) { return token.strips_right; }));
  const TokenVector tokens = reader.encoded("Refund");
  EXPECT_EQ(tokens, must(reader.tokenizer->encode_whole("<s>user\nRefund</s>\n")));
  EXPECT_EQ(tokens.back(), *reader.tokenizer->eos());  // The line feed after it is gone.
}

TEST(PromptText, ATemplateThatTouchesAMessageKeepsTheBytesApart) {
  const model::RenderedChat chat{"<a[x]b>", {{2, 5}}};
  EXPECT_EQ(template_bytes(chat), std::string("<a\0b>", 5));
}

}  // namespace
}  // namespace incipit::prompt
