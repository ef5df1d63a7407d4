// SPDX-License-Identifier: Apache-2.0
//
// A classification task as tokens: computed once what all tickets share, then for each ticket
// its own part.
//
//     tokens of a ticket's whole prompt = prefix() + part.suffix (+ one of part.questions)
//
// build() renders the task with the model's chat template (task_turns.h), proves where the
// prompt may be cut (prompt_frame.h), and reads the tokens of every answer in context
// (answer_tokens.h). encode() prepares a ticket (ticket_text.h), neutralises special surfaces
// (special_text.h), and shortens or splits what does not fit (ticket_fit.h).
//
// A multi-label task has one prompt for each label: prefix and suffix are shared by all of them,
// part.questions[i] is the rest for label i.
//
// Invariant (task_prompt_property_test.cc): for every ticket, the tokens above equal whole().
// Immutable. Borrows the tokenizer, which must outlive it. encode() costs about 30 us for a
// ticket of 20 tokens.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "incipit/label.h"
#include "incipit/result.h"
#include "incipit/task.h"
#include "incipit/types.h"
#include "model/chat_template.h"
#include "model/tokenizer.h"
#include "prompt/prompt_frame.h"
#include "prompt/prompt_text.h"
#include "prompt/special_text.h"
#include "prompt/task_turns.h"
#include "prompt/ticket_text.h"

namespace incipit::prompt {

// An answer and its tokens directly after the cue.
struct AnswerSurface {
  std::size_t label = 0;  // Index into Task::labels; in a multi-label task kYes or kNo.
  std::string text;
  TokenVector tokens;
};

// One prompt's own tokens. A ticket has several only under TooLongPolicy::kShard.
struct EncodedPart {
  TokenVector suffix;      // After prefix(); on the slow path the prompt from its first token.
  bool slow_path = false;  // The ticket changes tokens of the prefix, which it cannot share then.
  double weight = 1;       // Share of the ticket's tokens; the weights of a ticket sum to 1.
  std::vector<TokenVector> questions;  // Multi-label tasks: what follows the suffix, by label.
};

struct EncodedText {
  std::string error;  // Empty, or one of the names in ticket_text.h.
  TextFacts facts;
  std::vector<EncodedPart> parts;
};

struct PromptOptions {
  std::size_t tokens_max = 0;           // Of a whole prompt with its longest answer.
  std::optional<LabelSurface> surface;  // Instead of TaskOptions::label_surface.
};

class TaskPrompt {
 public:
  // Errors: kInvalidArgument names the field of the task, or the model file, that is wrong.
  static Result<TaskPrompt> build(const Task& task, const model::Tokenizer& tokenizer,
                                  const model::ChatTemplate& chat_template, PromptOptions options);

  [[nodiscard]] TokenSpan prefix() const { return frames_.front().prefix(); }
  // The prompt's text before and after the ticket (of the first question).
  [[nodiscard]] std::string_view prefix_text() const {
    return frames_.front().text_before_ticket();
  }
  [[nodiscard]] std::string_view tail_text() const { return frames_.front().text_after_ticket(); }

  // A bad ticket gets an error and never fails others.
  [[nodiscard]] EncodedText encode(std::string_view ticket) const;

  // The whole prompt of a ticket, read from its text alone and never shortened: the oracle for
  // encode(). `question` is a label's index in a multi-label task.
  // Errors: kInvalidArgument with the ticket's error name.
  [[nodiscard]] Result<TokenVector> whole(std::string_view ticket, std::size_t question = 0) const;

  [[nodiscard]] const std::vector<AnswerSurface>& surfaces() const { return surfaces_; }
  [[nodiscard]] Token end_of_turn() const { return end_of_turn_; }
  [[nodiscard]] std::size_t questions() const { return frames_.size(); }
  [[nodiscard]] const std::string& template_date() const { return render_.date; }
  [[nodiscard]] const SpecialText& special() const { return *special_; }

  // What an operator should know: notices are harmless, warnings put accuracy or speed at risk.
  [[nodiscard]] const std::vector<std::string>& notices() const { return notices_; }
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  struct Attempt;

  TaskPrompt(const Task& task, const model::Tokenizer& tokenizer, PromptOptions options);
  Result<void> render_frames(const Task& task, const model::ChatTemplate& chat_template,
                             const std::vector<Surface>& surfaces);
  Result<void> read_answers(const std::vector<Surface>& surfaces,
                            const model::ChatTemplate& chat_template);
  Result<void> check_room() const;
  Result<void> check_reading();

  [[nodiscard]] Result<Attempt> attempt(std::string_view ticket) const;
  [[nodiscard]] Result<EncodedText> encode_prepared(std::string_view ticket) const;
  [[nodiscard]] Result<EncodedText> shorten(std::string_view ticket, std::size_t excess) const;
  [[nodiscard]] Result<EncodedText> shard(std::string_view ticket, std::size_t excess) const;
  [[nodiscard]] std::size_t answer_tokens_max() const;
  [[nodiscard]] PromptText text() const { return {*tokenizer_, *special_}; }

  TaskOptions task_;
  PromptOptions options_;
  model::RenderOptions render_;
  const model::Tokenizer* tokenizer_;
  std::unique_ptr<SpecialText> special_;  // By pointer: frames outlive moves of this object.
  std::vector<PromptFrame> frames_;       // One for each question.
  std::vector<AnswerSurface> surfaces_;
  Token end_of_turn_ = 0;
  std::vector<std::string> notices_;
  std::vector<std::string> warnings_;
};

}  // namespace incipit::prompt
