// SPDX-License-Identifier: Apache-2.0
//
// A task as chat turns.
//
//     system      instructions
//     user        input with the text of example 1
//     assistant   the surface of its label, and nothing else
//     ...
//     user        input with the ticket
//
// "{labels}" in the instructions becomes one line for each label, "- billing: invoices, refunds",
// without the colon where a label has no description; the name shown is the label's first
// surface, since that is what the model is to say. Where a template has no system role, the
// instructions and an empty line stand before the first user turn.
//
// A multi-label task asks one question for each label, after the text, so that questions share
// the text's cells; the wording that does not depend on the label comes first:
//
//     Ticket: ...
//
//     Does this label fit the text above? Answer yes or no. Label: billing (invoices, refunds)
//
// Each example then becomes two turns: its own label, answered yes, and the label declared next,
// answered no. One of each keeps the prompt short and the answers balanced; an example should
// therefore be of one label only.
// Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "incipit/result.h"
#include "incipit/task.h"
#include "model/chat_template.h"

namespace incipit::prompt {

// Something that the model may answer, and what the answer means.
struct Surface {
  std::size_t label = 0;  // Index into Task::labels; in a multi-label task kYes or kNo.
  std::string text;
};

inline constexpr std::size_t kYes = 0;
inline constexpr std::size_t kNo = 1;

// Errors: kInvalidArgument with the field that is wrong.
[[nodiscard]] Result<void> check_task(const Task& task);

// Every answer in the order of the labels. kAuto reads as kAsIs.
// Errors: kInvalidArgument for an empty surface, or one that stands twice.
[[nodiscard]] Result<std::vector<Surface>> answer_surfaces(const Task& task, LabelSurface style);

// The prompts of a task: one, or one for each label in a multi-label task.
[[nodiscard]] std::size_t question_count(const Task& task);

struct TurnOptions {
  std::string_view ticket;  // Stands for the ticket in the last turn.
  std::size_t question = 0;
  bool system_role = true;
};

// Requires: check_task() and answer_surfaces() agreed.
[[nodiscard]] std::vector<model::ChatMessage> task_turns(const Task& task,
                                                         const std::vector<Surface>& surfaces,
                                                         const TurnOptions& options);

}  // namespace incipit::prompt
