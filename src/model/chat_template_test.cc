// SPDX-License-Identifier: Apache-2.0
#include "model/chat_template.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/prompt_model.h"

namespace incipit::model {
namespace {

using test::must;

std::unique_ptr<ChatTemplate> opened(const std::string& jinja) {
  return must(ChatTemplate::open({.jinja = jinja, .bos = "<s>", .eos = "</s>", .name = "test"}));
}

std::string refusal(const std::string& jinja) {
  const auto result =
      ChatTemplate::open({.jinja = jinja, .bos = "<s>", .eos = "</s>", .name = "test.gguf"});
  return result ? "" : result.error().message;
}

const std::string kPlainTemplate =
    "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{{ eos_token }}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";

const std::vector<ChatMessage> kDialogue{{Role::kSystem, "Be <b>brief</b>."},
                                         {Role::kUser, "Hi <|user|>"}};

TEST(ChatTemplate, RendersTurnsWithBosEosAndCue) {
  const auto chat = opened(kPlainTemplate);
  EXPECT_TRUE(chat->has_system_role());
  EXPECT_EQ(must(chat->render(kDialogue, {})).text,
            "<s><|system|>Be <b>brief</b>.</s><|user|>Hi <|user|></s><|assistant|>");
  EXPECT_EQ(must(chat->render(kDialogue, {.generation_prompt = false})).text,
            "<s><|system|>Be <b>brief</b>.</s><|user|>Hi <|user|></s>");
}

TEST(ChatTemplate, RemembersWhatCameFromMessages) {
  const RenderedChat chat = must(opened(kPlainTemplate)->render(kDialogue, {}));
  ASSERT_EQ(chat.content.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(chat.text.substr(chat.content[i].begin, chat.content[i].end - chat.content[i].begin),
              kDialogue[i].content);
  }
}

TEST(ChatTemplate, TrimmingKeepsTheMark) {
  const auto chat = opened("{% for m in messages %}[{{ m.content | trim }}]{% endfor %}");
  const std::vector<ChatMessage> turns{{Role::kUser, "  Hi  "}};
  const RenderedChat rendered = must(chat->render(turns, {}));
  EXPECT_EQ(rendered.text, "[Hi]");
  ASSERT_EQ(rendered.content.size(), 1U);
  EXPECT_EQ(rendered.content[0].begin, 1U);
  EXPECT_EQ(rendered.content[0].end, 3U);
}

// C41: a template that refuses a system turn, and one that passes it over in silence.
TEST(ChatTemplate, FindsOutThatThereIsNoSystemRole) {
  EXPECT_FALSE(opened("{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}"
                      "{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}")
                   ->has_system_role());
  EXPECT_FALSE(opened("{% for m in messages %}{% if m.role != 'system' %}{{ m.content }}{% endif %}"
                      "{% endfor %}")
                   ->has_system_role());
}

TEST(ChatTemplate, AListOfPartsIsAnotherWayToGiveContent) {
  const auto chat = opened(
      "{% for m in messages %}{% for part in m.content %}{% if part.type == 'text' %}"
      "{{ part.text }}{% endif %}{% endfor %};{% endfor %}");
  EXPECT_EQ(must(chat->render(kDialogue, {})).text, "Be <b>brief</b>.;Hi <|user|>;");
}

// C43: a date in the template must not make tomorrow's prefix another one.
TEST(ChatTemplate, TheDateIsFixed) {
  const auto chat =
      opened("{{ strftime_now('%d %b %Y') }}{% for m in messages %}{{ m.content }}{% endfor %}");
  const std::vector<ChatMessage> turns{{Role::kUser, "."}};
  EXPECT_EQ(must(chat->render(turns, {})).text, "01 Jan 2025.");
  EXPECT_EQ(must(chat->render(turns, {.date = "2024-02-29"})).text, "29 Feb 2024.");
  for (const std::string bad : {"2023-02-29", "2024-13-01", "24-01-01", "2024-1-011", "today",
                                "2024-01-0x", "-024-01-01"}) {
    EXPECT_FALSE(chat->render(turns, {.date = bad})) << bad;
  }
}

TEST(ChatTemplate, ThinkingIsOff) {
  const auto chat = opened(
      "{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}"
      "{% if enable_thinking is defined and enable_thinking is false %}<think></think>{% endif %}"
      "{% endif %}");
  EXPECT_EQ(must(chat->render(std::vector<ChatMessage>{{Role::kUser, "."}}, {})).text,
            ".<think></think>");
}

TEST(ChatTemplate, BadTemplatesAreNamedWithTheReason) {
  EXPECT_NE(refusal("{% for m in messages %}").find("test.gguf"), std::string::npos);
  EXPECT_NE(refusal("{{ raise_exception('never') }}").find("never"), std::string::npos);
  EXPECT_NE(refusal("constant").find("does not show"), std::string::npos);
  EXPECT_NE(refusal(std::string(std::size_t{1} << 19U, ' ')).find("256 KiB"), std::string::npos);
}

TEST(ChatTemplate, AModelFileWithoutOneIsRefused) {
  EXPECT_EQ(must(ChatTemplate::of(*test::qwen().tokenizer))->source().name, test::qwen_path());
}

}  // namespace
}  // namespace incipit::model
