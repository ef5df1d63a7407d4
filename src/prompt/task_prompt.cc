// SPDX-License-Identifier: Apache-2.0
#include "prompt/task_prompt.h"

#include <algorithm>
#include <utility>

#include "base/counted.h"
#include "prompt/answer_tokens.h"

namespace incipit::prompt {
namespace {

// Stands for the ticket while the template runs: letters and digits only, so that no filter
// changes it, and not a part of anything that the task says.
std::string unused_word(const Task& task) {
  std::string everything = task.instructions + task.input;
  for (const Example& example : task.examples) everything += example.text;
  for (const LabelDefinition& label : task.labels) {
    everything += label.name + label.description;
    for (const std::string& surface : label.surfaces) everything += surface;
  }
  std::string word = "QTICKET0Q";
  for (int i = 1; everything.find(word) != std::string::npos; ++i) {
    word = "QTICKET" + std::to_string(i) + "Q";
  }
  return word;
}

}  // namespace

Result<TaskPrompt> TaskPrompt::build(const Task& task, const model::Tokenizer& tokenizer,
                                     const model::ChatTemplate& chat_template,
                                     PromptOptions options) {
  INCIPIT_TRY_VOID(check_task(task));
  TaskPrompt prompt(task, tokenizer, options);
  const LabelSurface style = options.surface.value_or(task.options.label_surface);
  INCIPIT_TRY(const std::vector<Surface> surfaces, answer_surfaces(task, style));
  INCIPIT_TRY_VOID(prompt.render_frames(task, chat_template, surfaces));
  INCIPIT_TRY_VOID(prompt.read_answers(surfaces, chat_template));
  INCIPIT_TRY_VOID(prompt.check_room());
  INCIPIT_TRY_VOID(prompt.check_reading());
  return prompt;
}

TaskPrompt::TaskPrompt(const Task& task, const model::Tokenizer& tokenizer, PromptOptions options)
    : task_(task.options), options_(options), tokenizer_(&tokenizer) {
  if (!task.options.template_date.empty()) render_.date = task.options.template_date;
}

Result<void> TaskPrompt::render_frames(const Task& task, const model::ChatTemplate& chat_template,
                                       const std::vector<Surface>& surfaces) {
  if (!task.instructions.empty() && !chat_template.has_system_role()) {
    notices_.push_back(chat_template.source().name +
                       ": its chat template has no system role; the instructions stand before the "
                       "first user turn");
  }
  const std::string word = unused_word(task);
  for (std::size_t i = 0; i < question_count(task); ++i) {
    const auto turns =
        task_turns(task, surfaces,
                   {.ticket = word, .question = i, .system_role = chat_template.has_system_role()});
    INCIPIT_TRY(const model::RenderedChat chat, chat_template.render(turns, render_));
    if (!special_) {
      special_ = std::make_unique<SpecialText>(tokenizer_->special_tokens(), template_bytes(chat));
    }
    INCIPIT_TRY(PromptFrame frame, PromptFrame::open(chat, word, text()));
    frames_.push_back(std::move(frame));
  }
  return PromptFrame::cut(frames_, text());
}

Result<void> TaskPrompt::read_answers(const std::vector<Surface>& surfaces,
                                      const model::ChatTemplate& chat_template) {
  const model::RenderedChat chat = frames_.front().filled("a");
  for (const Surface& surface : surfaces) {
    INCIPIT_TRY(TokenVector tokens, answer_tokens(chat, surface.text, text()));
    INCIPIT_TRY(const bool same, has_same_tokens_in(chat, surface.text, tokens, text()));
    if (!same) {
      warnings_.push_back("the answer \"" + surface.text +
                          "\" has other tokens in the examples than where it is scored; try "
                          "another options.label_surface");
    }
    const auto same_tokens = std::ranges::find(surfaces_, tokens, &AnswerSurface::tokens);
    if (same_tokens != surfaces_.end()) {
      return failure(ErrorCode::kInvalidArgument,
                     "task: the answers \"" + same_tokens->text + "\" and \"" + surface.text +
                         "\" are the same tokens to this model; change one of them");
    }
    surfaces_.push_back({surface.label, surface.text, std::move(tokens)});
  }
  const auto token = prompt::end_of_turn(chat_template, render_, text());
  if (!token) {
    return failure(ErrorCode::kInvalidArgument,
                   tokenizer_->path() +
                       ": neither the chat template nor the vocabulary says which "
                       "token ends a turn; use an instruction-tuned model");
  }
  end_of_turn_ = *token;
  return {};
}

std::size_t TaskPrompt::answer_tokens_max() const {
  std::size_t tokens = 0;
  for (const AnswerSurface& surface : surfaces_) tokens = std::max(tokens, surface.tokens.size());
  return tokens;
}

Result<void> TaskPrompt::check_room() const {
  for (const PromptFrame& frame : frames_) {
    INCIPIT_TRY(const TokenVector whole, frame.whole("a", SpecialTextPolicy::kNeutralise, text()));
    const std::size_t needed = whole.size() + answer_tokens_max();
    if (needed > options_.tokens_max) {
      return failure(ErrorCode::kInvalidArgument,
                     "task: the prompt of a ticket of one letter needs " +
                         counted(needed, "token") + ", but there is room for " +
                         std::to_string(options_.tokens_max) +
                         "; shorten instructions or examples, or raise the context size");
    }
  }
  return {};
}

// Our reading of the prompt must be libllama's, as long as no message holds a special surface.
Result<void> TaskPrompt::check_reading() {
  const PromptFrame& frame = frames_.front();
  const model::RenderedChat chat = frame.filled("a");
  std::size_t markers = 0;
  for (const TextRange& range : chat.content) {
    std::size_t count = 0;
    static_cast<void>(special_->cuts(chat.text, range, &count));
    markers += count;
  }
  if (markers > 0) {
    notices_.push_back("the task's own texts hold " + counted(markers, "surface") +
                       " of special tokens, kept as plain text");
    return {};
  }
  INCIPIT_TRY(const TokenVector own, frame.whole("a", SpecialTextPolicy::kNeutralise, text()));
  INCIPIT_TRY(TokenVector reference, tokenizer_->encode_whole(chat.text));
  INCIPIT_TRY_VOID(text().begin_with_bos(reference));
  if (own != reference) {
    warnings_.push_back(tokenizer_->path() +
                        ": the prompt has other tokens than libllama's own reading of its text; "
                        "its special tokens may overlap");
  }
  return {};
}

Result<TokenVector> TaskPrompt::whole(std::string_view ticket, std::size_t question) const {
  const TicketText prepared = prepare_ticket(ticket, task_);
  if (!prepared.error.empty()) return failure(ErrorCode::kInvalidArgument, prepared.error);
  return frames_.at(question).whole(prepared.text, task_.special_text, text());
}

}  // namespace incipit::prompt
