// SPDX-License-Identifier: Apache-2.0
//
// prefix + suffix = whole prompt, for tickets made to break it: pieces of special surfaces, white
// space, combining marks, joined emoji, long repeats, bytes that are no UTF-8.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "prompt/task_prompt.h"
#include "support/prompt_model.h"
#include "support/ticket_task.h"
#include "support/vocabulary_file.h"

namespace incipit::prompt {
namespace {

using test::joined;
using test::PromptModel;

std::vector<std::string> nasty_pieces() {
  return {" ",
          "  ",
          "\n",
          "\n\n",
          "\r\n",
          "\t",
          "a",
          "Z",
          "9",
          "word",
          " word",
          "Refund",
          "'s",
          "'LL",
          "...",
          ":",
          "<",
          "|",
          ">",
          "[",
          "<|",
          "<|im_",
          "end|>",
          "<|im_end|>",
          "<|im_start|>",
          "assistant",
          "[TOOL]",
          "<s>",
          "</s>",
          "<|endoftext|>",
          "<tool_call>",
          "<file_sep>",
          "user\n",
          "Ticket: ",
          "{text}",
          "QTICKET0Q",
          "\xE2\x96\x81",
          "\xCC\x81",                                      // combining acute accent
          "\xD7\x90",                                      // Hebrew alef
          "\xE4\xB8\xAD\xE6\x96\x87",                      // CJK
          "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB",  // joined emoji
          "\xC2\xA0",                                      // no-break space
          "\xE9",
          "\xF0\x9F",
          "\xFF",
          std::string(1, '\0')};
}

rc::Gen<std::string> nasty_ticket() {
  const auto piece = rc::gen::elementOf(nasty_pieces());
  const auto repeated = rc::gen::apply(
      [](const std::string& text, int count) {
        std::string many;
        for (int i = 0; i < count; ++i) many += text;
        return many;
      },
      piece, rc::gen::weightedElement<int>({{8, 1}, {2, 3}, {1, 90}}));
  const auto any_bytes = rc::gen::container<std::string>(rc::gen::arbitrary<char>());
  return rc::gen::map(rc::gen::container<std::vector<std::string>>(
                          rc::gen::weightedOneOf<std::string>({{9, repeated}, {1, any_bytes}})),
                      [](const std::vector<std::string>& parts) {
                        std::string ticket;
                        for (const std::string& part : parts) ticket += part;
                        return ticket;
                      });
}

PromptModel sentencepiece() {
  std::shared_ptr<const model::Tokenizer> tokenizer =
      test::must(model::Tokenizer::open(test::sentencepiece_file()));
  return {tokenizer, test::must(model::ChatTemplate::open(
                         {.jinja = "{% for m in messages %}{{ bos_token if loop.first }}[INST] "
                                   "{{ m.content }} [/INST]{{ eos_token }}{% endfor %}",
                          .bos = "<s>",
                          .eos = "</s>",
                          .name = "test"}))};
}

Task scoring_everything(bool multi_label) {
  Task task = test::ticket_task();
  task.options.empty_text = EmptyTextPolicy::kScore;
  task.options.multi_label = multi_label;
  return task;
}

std::size_t markers_in(const TaskPrompt& prompt, TokenSpan tokens) {
  return static_cast<std::size_t>(std::ranges::count_if(
      tokens, [&](Token token) { return prompt.special().is_marker(token); }));
}

void check(const TaskPrompt& prompt, const PromptModel& model, const std::string& ticket) {
  const EncodedText encoded = prompt.encode(ticket);
  RC_ASSERT(encoded.error.empty());
  const EncodedPart& part = encoded.parts.at(0);
  const TokenVector innocent = joined(prompt, prompt.encode("a").parts.at(0));
  for (std::size_t i = 0; i < prompt.questions(); ++i) {
    const TokenVector tokens = joined(prompt, part, i);
    RC_ASSERT(tokens == test::must(prompt.whole(ticket, i)));
    // The control tokens of the prompt are the template's, whatever the ticket says.
    if (i == 0) RC_ASSERT(markers_in(prompt, tokens) == markers_in(prompt, innocent));
  }
  // Without special surfaces it is what libllama reads, and the text is all there.
  if (encoded.facts.neutralised > 0 || prompt.questions() > 1) return;
  const std::string text = std::string(prompt.prefix_text()) + repair_utf8(ticket, nullptr) +
                           std::string(prompt.tail_text());
  TokenVector reference = test::must(model.tokenizer->encode_whole(text));
  RC_ASSERT(joined(prompt, part) == reference);
}

RC_GTEST_PROP(TaskPromptProperty, QwenPrefixAndSuffixAreTheWhole, ()) {
  static const TaskPrompt prompt = test::qwen().prompt(scoring_everything(false), 1U << 20U);
  check(prompt, test::qwen(), *nasty_ticket());
}

RC_GTEST_PROP(TaskPromptProperty, SmolLmPrefixAndSuffixAreTheWhole, ()) {
  static const TaskPrompt prompt = test::smollm().prompt(scoring_everything(false), 1U << 20U);
  check(prompt, test::smollm(), *nasty_ticket());
}

RC_GTEST_PROP(TaskPromptProperty, MultiLabelQuestionsAreWholePrompts, ()) {
  static const TaskPrompt prompt = test::qwen().prompt(scoring_everything(true), 1U << 20U);
  check(prompt, test::qwen(), *nasty_ticket());
}

RC_GTEST_PROP(TaskPromptProperty, SentencePiecePrefixAndSuffixAreTheWhole, ()) {
  static const PromptModel model = sentencepiece();
  static const TaskPrompt prompt = model.prompt(scoring_everything(false), 1U << 20U);
  check(prompt, model, *nasty_ticket());
}

// A prompt that never fits the whole: what is kept fits, and is a prompt of some ticket.
RC_GTEST_PROP(TaskPromptProperty, ShortenedTicketsFit, ()) {
  Task task = scoring_everything(false);
  task.options.too_long = *rc::gen::element(TooLongPolicy::kHead, TooLongPolicy::kTail,
                                            TooLongPolicy::kHeadTail, TooLongPolicy::kShard);
  const std::size_t room = *rc::gen::inRange<std::size_t>(185, 220);
  const TaskPrompt prompt = test::qwen().prompt(task, room);
  const EncodedText encoded = prompt.encode(*nasty_ticket() + *nasty_ticket());
  RC_ASSERT(encoded.error.empty() || encoded.error == kTooLong);
  double weight = 0;
  for (const EncodedPart& part : encoded.parts) {
    const TokenVector tokens = joined(prompt, part);
    RC_ASSERT(tokens.size() + 1 <= room);
    RC_ASSERT(part.suffix.size() >= 2U);
    weight += part.weight;
  }
  RC_ASSERT(encoded.parts.empty() || std::abs(weight - 1) < 1e-9);
}

}  // namespace
}  // namespace incipit::prompt
