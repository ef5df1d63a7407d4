// SPDX-License-Identifier: Apache-2.0
//
// Prompts of model families that are not installed: their templates on small vocabularies.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "prompt/task_prompt.h"
#include "support/prompt_model.h"
#include "support/ticket_task.h"
#include "support/vocabulary_file.h"

namespace incipit::prompt {
namespace {

using test::joined;
using test::PromptModel;
using test::qwen;
using test::ticket_task;

PromptModel sentencepiece(const std::string& jinja) {
  auto tokenizer = test::must(model::Tokenizer::open(test::sentencepiece_file()));
  auto chat = test::must(
      model::ChatTemplate::open({.jinja = jinja, .bos = "<s>", .eos = "</s>", .name = "test"}));
  return {std::move(tokenizer), std::move(chat)};
}

// The shape of Llama 2: no control token but BOS and EOS, spaces around the content.
const std::string kInstTemplate =
    "{% for m in messages %}{% if m.role == 'user' %}{{ bos_token + '[INST] ' + m.content + "
    "' [/INST]' }}{% elif m.role == 'system' %}{{ raise_exception('no system') }}{% else %}"
    "{{ ' ' + m.content + ' ' + eos_token }}{% endif %}{% endfor %}";

// The shape of Gemma: BOS, another name for the assistant, content trimmed, no system turn.
const std::string kTurnTemplate =
    "{{ bos_token }}{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}"
    "{% endif %}{% for m in messages %}<|im_start|>{{ 'model' if m.role == 'assistant' else m.role "
    "}}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}"
    "<|im_start|>model\n{% endif %}";

// C37: the space in front is there once, where the whole prompt has it.
TEST(PromptFamilies, ASentencePiecePromptHasTheTokensOfTheWhole) {
  const PromptModel model = sentencepiece(kInstTemplate);
  Task task = ticket_task();
  task.examples.resize(2);
  for (const std::string input : {"{text}", "Ticket: {text}", "Refund{text}"}) {
    task.input = input;
    const TaskPrompt prompt = model.prompt(task);
    for (const std::string ticket :
         {"Refund", " Refund", "\nRefund", "und", "caf\xC3\xA9", "user"}) {
      const EncodedPart part = prompt.encode(ticket).parts.at(0);
      const TokenVector whole = prompt.whole(ticket).value();
      EXPECT_EQ(joined(prompt, part), whole) << input << " | " << ticket;
      const std::string text =
          std::string(prompt.prefix_text()) + ticket + std::string(prompt.tail_text());
      EXPECT_EQ(whole, model.tokenizer->encode_whole(text).value()) << input << " | " << ticket;
    }
  }
}

TEST(PromptFamilies, ATicketThatReachesFarBackTakesTheSlowPath) {
  const PromptModel model = sentencepiece(kInstTemplate);
  Task task = ticket_task();
  task.examples.clear();
  task.input = "Ref{text}";  // "Ref" + "und" is one token, which no probe begins with.
  const TaskPrompt prompt = model.prompt(task);
  const EncodedText encoded = prompt.encode("und");
  EXPECT_TRUE(encoded.facts.slow_path);
  EXPECT_TRUE(encoded.parts.at(0).slow_path);
  EXPECT_EQ(encoded.parts.at(0).suffix, prompt.whole("und").value());
  EXPECT_FALSE(prompt.encode("x").facts.slow_path);
}

// C38: a template that prints BOS turns the vocabulary's own off, and two are refused.
TEST(PromptFamilies, APromptBeginsWithOneBos) {
  const Task task = ticket_task();
  const auto count = [&](const std::string& jinja) {
    const PromptModel model = sentencepiece(jinja);
    const TokenVector whole = model.prompt(task).whole("x").value();
    EXPECT_EQ(whole.front(), *model.tokenizer->bos());
    EXPECT_EQ(model.prompt(task).prefix().front(), *model.tokenizer->bos());
    return std::ranges::count(whole, *model.tokenizer->bos());
  };
  const std::string turns = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";
  EXPECT_EQ(count("{{ bos_token }}" + turns + "A:\n"), 1);
  EXPECT_EQ(count(turns + "A:\n"), 1);
  EXPECT_NE(sentencepiece("<s>{{ bos_token }}" + turns + "A:\n").refusal(task).find("two BOS"),
            std::string::npos);
  // Qwen's vocabulary has a BOS that it does not ask for.
  EXPECT_NE(qwen().prompt(task).prefix().front(), *qwen().tokenizer->bos());
}

// C41
TEST(PromptFamilies, InstructionsGoToTheFirstUserTurnWithoutASystemRole) {
  const PromptModel model = qwen().with_template(kTurnTemplate);
  const TaskPrompt prompt = model.prompt(ticket_task());
  ASSERT_EQ(prompt.notices().size(), 1U);
  EXPECT_NE(prompt.notices()[0].find("no system role"), std::string::npos);
  EXPECT_NE(prompt.prefix_text().find("<|im_start|>user\nYou sort customer support tickets. Answer "
                                      "with exactly one word: billing, technical or account.\n\n"
                                      "Ticket: My card"),
            std::string::npos);
  EXPECT_EQ(joined(prompt, prompt.encode("Hi").parts.at(0)), prompt.whole("Hi").value());
  Task task = ticket_task();
  task.examples.clear();
  EXPECT_NE(model.prompt(task).prefix_text().find("account.\n\nTicket: "), std::string::npos);
}

// A template that trims does not trim the ticket: it is put in afterwards.
TEST(PromptFamilies, TheTicketKeepsItsWhiteSpace) {
  const PromptModel model = qwen().with_template(kTurnTemplate);
  const TaskPrompt prompt = model.prompt(ticket_task());
  const EncodedPart part = prompt.encode("  Hi  ").parts.at(0);
  EXPECT_TRUE(qwen().spelled(part.suffix).starts_with("   Hi  <|im_end|>"));
}

// C43
TEST(PromptFamilies, TheDateIsTheTasksOrAConstant) {
  const PromptModel model =
      qwen().with_template("{{ strftime_now('%d %b %Y') }}\n" + kTurnTemplate);
  Task task = ticket_task();
  EXPECT_TRUE(model.prompt(task).prefix_text().starts_with("01 Jan 2025\n"));
  EXPECT_EQ(model.prompt(task).template_date(), "2025-01-01");
  task.options.template_date = "2026-07-04";
  EXPECT_TRUE(model.prompt(task).prefix_text().starts_with("04 Jul 2026\n"));
  EXPECT_EQ(model.prompt(task).template_date(), "2026-07-04");
}

TEST(PromptFamilies, AnEmptyThinkBlockBelongsToTheCue) {
  const PromptModel model = qwen().with_template(
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n"
      "{% if enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}{% endif %}");
  const TaskPrompt prompt = model.prompt(ticket_task());
  EXPECT_TRUE(prompt.tail_text().ends_with("<think>\n\n</think>\n\n"));
  EXPECT_TRUE(prompt.warnings().empty());
  EXPECT_EQ(model.spelled(prompt.surfaces()[0].tokens), "billing");
}

// C40: where examples and cue disagree, somebody has to know.
TEST(PromptFamilies, AnswersThatDifferFromTheExamplesAreReported) {
  const PromptModel model = qwen().with_template(
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %} {% endif %}"
      "{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n");
  const TaskPrompt prompt = model.prompt(ticket_task());
  ASSERT_EQ(prompt.warnings().size(), 3U);
  EXPECT_NE(prompt.warnings()[0].find("label_surface"), std::string::npos);
}

TEST(PromptFamilies, UserDefinedTokensAreCutInTicketsAndReadInTheTemplate) {
  const PromptModel model =
      sentencepiece("{% for m in messages %}[TOOL]{{ m.content }}</s>{% endfor %}[TOOL]\n");
  Task task = ticket_task();
  task.examples.clear();
  const TaskPrompt prompt = model.prompt(task);
  const EncodedText encoded = prompt.encode("a [TOOL] b\n\nc");
  EXPECT_EQ(encoded.facts.neutralised, 1U);
  const TokenVector& suffix = encoded.parts.at(0).suffix;
  const auto count = [&](std::string_view surface) {
    return std::ranges::count_if(
        suffix, [&](Token token) { return model.tokenizer->piece(token) == surface; });
  };
  EXPECT_EQ(count("[TOOL]"), 1);  // The template's.
  EXPECT_EQ(count("\n\n"), 1);    // Harmless: left to the vocabulary.
  EXPECT_EQ(prompt.end_of_turn(), *model.tokenizer->eos());
}

TEST(PromptFamilies, ATemplateThatLosesTheTicketIsRefused) {
  const PromptModel model = qwen().with_template(
      "{% for m in messages %}{{ m.content | upper }}{{ m.content }}{% endfor %}");
  Task task = ticket_task();
  task.examples.clear();
  EXPECT_NE(model.refusal(task).find("exactly once"), std::string::npos);
}

}  // namespace
}  // namespace incipit::prompt
