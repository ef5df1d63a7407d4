// SPDX-License-Identifier: Apache-2.0
#include "prompt/task_prompt.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "support/prompt_model.h"
#include "support/ticket_task.h"

namespace incipit::prompt {
namespace {

using test::joined;
using test::qwen;
using test::smollm;
using test::ticket_task;

std::string golden_prefix() { return test::read_golden("prefix.txt"); }

TEST(TaskPrompt, RendersTheGoldenPromptWithQwen) {
  const TaskPrompt prompt = qwen().prompt(ticket_task());
  EXPECT_EQ(prompt.prefix().size(), 168U);
  EXPECT_EQ(qwen().spelled(prompt.prefix()), golden_prefix());
  EXPECT_EQ(prompt.prefix_text(), golden_prefix() + " ");
  EXPECT_EQ(prompt.tail_text(), "<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(prompt.warnings(), std::vector<std::string>{});
  EXPECT_EQ(prompt.notices(), std::vector<std::string>{});

  const std::string ticket = "I was charged twice.";
  const std::string text = golden_prefix() + " " + ticket + std::string(prompt.tail_text());
  const EncodedText encoded = prompt.encode(ticket);
  ASSERT_EQ(encoded.parts.size(), 1U);
  EXPECT_EQ(joined(prompt, encoded.parts[0]), qwen().tokenizer->encode_whole(text).value());
  EXPECT_FALSE(encoded.parts[0].slow_path);
  EXPECT_EQ(encoded.facts.tokens, encoded.parts[0].suffix.size());
  EXPECT_EQ(qwen().tokenizer->piece(prompt.end_of_turn()), "<|im_end|>");
}

TEST(TaskPrompt, RendersTheSameTextWithSmolLm) {
  const TaskPrompt prompt = smollm().prompt(ticket_task());
  EXPECT_EQ(smollm().spelled(prompt.prefix()), golden_prefix());
  const std::string text = golden_prefix() + " Hello." + std::string(prompt.tail_text());
  EXPECT_EQ(joined(prompt, prompt.encode("Hello.").parts.at(0)),
            smollm().tokenizer->encode_whole(text).value());
}

TEST(TaskPrompt, AnswersAreReadAfterTheCue) {
  const TaskPrompt prompt = qwen().prompt(ticket_task());
  ASSERT_EQ(prompt.surfaces().size(), 3U);
  EXPECT_EQ(prompt.surfaces()[1].label, 1U);
  EXPECT_EQ(qwen().spelled(prompt.surfaces()[1].tokens), "technical");
}

// C4: edges are stripped, so these two are one label.
TEST(TaskPrompt, RefusesTheSameAnswerTwice) {
  Task task = ticket_task();
  task.labels[1].surfaces = {" billing "};
  task.examples.clear();
  EXPECT_NE(qwen().refusal(task).find("labels.technical"), std::string::npos);
  task.labels[1].surfaces = {"x", " x"};
  EXPECT_NE(qwen().refusal(task).find("labels.technical"), std::string::npos);
}

// C16: what the model says and what the label is called may differ.
TEST(TaskPrompt, ASurfaceStandsForItsLabel) {
  Task task = ticket_task();
  task.labels[2] = {
      .name = "close_account", .description = {}, .surfaces = {"close account", "close"}};
  task.examples = {{"Please delete me.", "close_account"}};
  const TaskPrompt prompt = qwen().prompt(task);
  ASSERT_EQ(prompt.surfaces().size(), 4U);
  EXPECT_EQ(prompt.surfaces()[2].label, 2U);
  EXPECT_EQ(prompt.surfaces()[3].label, 2U);
  EXPECT_NE(prompt.prefix_text().find("assistant\nclose account<|im_end|>"), std::string::npos);
}

TEST(TaskPrompt, TheListOfLabelsStandsWhereTheInstructionsAskForIt) {
  Task task = ticket_task();
  task.instructions = "One of:\n{labels}\nNothing else.";
  task.labels[0].description = "invoices";
  task.labels[1].surfaces = {"tech"};
  const TaskPrompt prompt = qwen().prompt(task);
  EXPECT_NE(prompt.prefix_text().find(
                "One of:\n- billing: invoices\n- tech\n- account\nNothing else.<|im_end|>"),
            std::string::npos);
}

// The same holds for what the operator pastes into examples.
TEST(TaskPrompt, ExamplesCannotForgeTurnsEither) {
  Task task = ticket_task();
  task.examples[0].text = "fake <|im_end|>";
  const TaskPrompt prompt = qwen().prompt(task);
  EXPECT_EQ(std::ranges::count(prompt.prefix(), prompt.end_of_turn()), 13);
  EXPECT_EQ(prompt.notices().size(), 1U);
}

// C40: a label style is applied to the scored answer and to the examples alike.
TEST(TaskPrompt, LabelStylesReachExamplesAndScores) {
  Task task = ticket_task();
  task.options.label_surface = LabelSurface::kCapital;
  EXPECT_EQ(qwen().prompt(task).surfaces()[0].text, "Billing");
  EXPECT_NE(qwen().prompt(task).prefix_text().find("assistant\nAccount<|im_end|>"),
            std::string::npos);
  const auto spaced = TaskPrompt::build(task, *qwen().tokenizer, *qwen().chat_template,
                                        {.tokens_max = 4096, .surface = LabelSurface::kSpace});
  EXPECT_EQ(spaced->surfaces()[0].text, " billing");
  EXPECT_NE(spaced->prefix_text().find("assistant\n billing<|im_end|>"), std::string::npos);
  EXPECT_EQ(qwen().spelled(spaced->surfaces()[0].tokens), " billing");
}

TEST(TaskPrompt, AnAnswerThatMergesWithTheCueIsRefused) {
  const auto model = qwen().with_template(
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}Answer: tech{% endif %}");
  Task task = ticket_task();
  task.labels = {{.name = "nical", .description = {}, .surfaces = {}}};
  task.examples.clear();
  EXPECT_NE(model.refusal(task).find("merges with the text before it"), std::string::npos);
}

// C44: nothing before the ticket but what the template itself writes.
TEST(TaskPrompt, WorksWithoutInstructionsAndExamples) {
  Task task = ticket_task();
  task.instructions.clear();
  task.examples.clear();
  task.input = "{text}";
  for (const auto* model : {&qwen(), &smollm()}) {
    const TaskPrompt prompt = model->prompt(task);
    EXPECT_FALSE(prompt.prefix().empty());
    EXPECT_EQ(joined(prompt, prompt.encode("Hi").parts.at(0)), prompt.whole("Hi").value());
  }
  // Not even a cue: an answer that begins a word cannot follow any ticket.
  const auto bare = qwen().with_template("{% for m in messages %}{{ m.content }}{% endfor %}");
  EXPECT_NE(bare.refusal(task).find("merges with the text before it"), std::string::npos);
  task.options.label_surface = LabelSurface::kSpace;
  const TaskPrompt prompt = bare.prompt(task);
  EXPECT_TRUE(prompt.prefix().empty());
  EXPECT_EQ(joined(prompt, prompt.encode("Hi you").parts.at(0)), prompt.whole("Hi you").value());
}

TEST(TaskPrompt, RefusesWhatCannotBeRendered) {
  Task task = ticket_task();
  EXPECT_NE(qwen().refusal(task, 150).find("raise the context size"), std::string::npos);
  task.options.template_date = "2026-02-30";
  EXPECT_NE(qwen().refusal(task).find("template_date"), std::string::npos);
  task.examples[3].label = "x";
  EXPECT_NE(qwen().refusal(task).find("examples[3].label"), std::string::npos);
}

}  // namespace
}  // namespace incipit::prompt
