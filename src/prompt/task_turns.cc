// SPDX-License-Identifier: Apache-2.0
#include "prompt/task_turns.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/utf8.h"
#include "prompt/ticket_text.h"

namespace incipit::prompt {
namespace {

using model::ChatMessage;
using model::Role;

constexpr std::string_view kTextField = "{text}";
constexpr std::string_view kLabelsField = "{labels}";
constexpr std::string_view kQuestion =
    "\n\nDoes this label fit the text above? Answer yes or no. Label: ";

std::unexpected<Error> wrong(const std::string& field, const std::string& reason) {
  return failure(ErrorCode::kInvalidArgument, "task: " + field + ": " + reason);
}

std::string indexed(std::string_view list, std::size_t index, std::string_view field) {
  return std::string(list) + "[" + std::to_string(index) + "]" + std::string(field);
}

std::string replaced(std::string text, std::string_view field, std::string_view value) {
  for (std::size_t at = text.find(field); at != std::string::npos;
       at = text.find(field, at + value.size())) {
    text.replace(at, field.size(), value);
  }
  return text;
}

Result<void> check_labels(const Task& task) {
  if (task.labels.empty()) return wrong("labels", "is empty; name at least one label");
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < task.labels.size(); ++i) {
    const LabelDefinition& label = task.labels[i];
    if (stripped(label.name).empty()) return wrong(indexed("labels", i, ""), "has an empty name");
    if (!names.insert(label.name).second) {
      return wrong("labels." + label.name, "is declared twice; remove one");
    }
    bool valid = is_valid_utf8(label.name) && is_valid_utf8(label.description);
    for (const std::string& surface : label.surfaces) valid = valid && is_valid_utf8(surface);
    if (!valid) return wrong(indexed("labels", i, ""), "is not UTF-8; re-encode it");
  }
  const std::string& none = task.options.none_label;
  if (!none.empty() && !names.contains(none)) {
    return wrong("options.none_label", "\"" + none + "\" is no label of this task");
  }
  return {};
}

Result<void> check_examples(const Task& task) {
  for (std::size_t i = 0; i < task.examples.size(); ++i) {
    const Example& example = task.examples[i];
    const TicketText text = prepare_ticket(example.text, task.options);
    if (!is_valid_utf8(example.text)) {
      return wrong(indexed("examples", i, ".text"), "is not UTF-8; re-encode it");
    }
    if (!text.error.empty()) return wrong(indexed("examples", i, ".text"), "is empty; remove it");
    const bool known = std::ranges::any_of(
        task.labels, [&](const LabelDefinition& label) { return label.name == example.label; });
    if (!known) {
      return wrong(indexed("examples", i, ".label"),
                   "\"" + example.label + "\" is no label of this task");
    }
  }
  return {};
}

std::string styled(std::string_view surface, LabelSurface style) {
  std::string text(stripped(surface));
  if (style == LabelSurface::kSpace) return " " + text;
  if (style == LabelSurface::kCapital && !text.empty() && text[0] >= 'a' && text[0] <= 'z') {
    text[0] = static_cast<char>(text[0] - 'a' + 'A');
  }
  return text;
}

// The first surface of a label, as it is shown inside a sentence.
std::string shown_name(const Task& task, const std::vector<Surface>& surfaces, std::size_t label) {
  if (task.options.multi_label) {
    const LabelDefinition& definition = task.labels[label];
    const bool named = definition.surfaces.empty();
    return std::string(stripped(named ? definition.name : definition.surfaces.front()));
  }
  const auto found = std::ranges::find(surfaces, label, &Surface::label);
  return std::string(stripped(found->text));
}

std::string label_list(const Task& task, const std::vector<Surface>& surfaces) {
  std::string list;
  for (std::size_t i = 0; i < task.labels.size(); ++i) {
    if (i > 0) list += '\n';
    list += "- " + shown_name(task, surfaces, i);
    if (!task.labels[i].description.empty()) list += ": " + task.labels[i].description;
  }
  return list;
}

std::size_t label_index(const Task& task, std::string_view name) {
  const auto found = std::ranges::find(task.labels, name, &LabelDefinition::name);
  return static_cast<std::size_t>(found - task.labels.begin());
}

// A user turn: the input field with `text`, and the question on `label` in a multi-label task.
std::string user_turn(const Task& task, const std::vector<Surface>& surfaces, std::string_view text,
                      std::size_t label) {
  std::string turn = task.input;
  turn.replace(turn.find(kTextField), kTextField.size(), text);
  if (!task.options.multi_label) return turn;
  turn += kQuestion;
  turn += shown_name(task, surfaces, label);
  const std::string& description = task.labels[label].description;
  if (!description.empty()) turn += " (" + description + ")";
  return turn;
}

std::string answer(const std::vector<Surface>& surfaces, std::size_t label) {
  return std::ranges::find(surfaces, label, &Surface::label)->text;
}

}  // namespace

Result<void> check_task(const Task& task) {
  if (!is_valid_utf8(task.instructions)) return wrong("instructions", "is not UTF-8; re-encode it");
  if (!is_valid_utf8(task.input)) return wrong("input", "is not UTF-8; re-encode it");
  const std::size_t at = task.input.find(kTextField);
  if (at == std::string::npos || task.input.find(kTextField, at + 1) != std::string::npos) {
    return wrong("input", "must hold {text} exactly once, where the ticket goes");
  }
  INCIPIT_TRY_VOID(check_labels(task));
  return check_examples(task);
}

Result<std::vector<Surface>> answer_surfaces(const Task& task, LabelSurface style) {
  if (task.options.multi_label) {
    return std::vector<Surface>{{kYes, styled("yes", style)}, {kNo, styled("no", style)}};
  }
  std::vector<Surface> surfaces;
  for (std::size_t i = 0; i < task.labels.size(); ++i) {
    const LabelDefinition& label = task.labels[i];
    std::vector<std::string> texts = label.surfaces;
    if (texts.empty()) texts.push_back(label.name);
    for (const std::string& text : texts) {
      Surface surface{i, styled(text, style)};
      const std::string field = "labels." + label.name;
      if (stripped(surface.text).empty()) return wrong(field, "has an empty surface");
      const auto same = std::ranges::find(surfaces, surface.text, &Surface::text);
      if (same != surfaces.end()) {
        return wrong(field, "the surface \"" + surface.text + "\" stands already in labels." +
                                task.labels[same->label].name +
                                "; an answer may mean one label only, and once");
      }
      surfaces.push_back(std::move(surface));
    }
  }
  return surfaces;
}

std::size_t question_count(const Task& task) {
  return task.options.multi_label ? task.labels.size() : 1;
}

std::vector<ChatMessage> task_turns(const Task& task, const std::vector<Surface>& surfaces,
                                    const TurnOptions& options) {
  std::vector<ChatMessage> turns;
  const auto ask = [&](std::string_view text, std::size_t label) {
    turns.push_back({Role::kUser, user_turn(task, surfaces, text, label)});
  };
  for (const Example& example : task.examples) {
    const std::string text = prepare_ticket(example.text, task.options).text;
    const std::size_t label = label_index(task, example.label);
    ask(text, label);
    turns.push_back({Role::kAssistant, answer(surfaces, task.options.multi_label ? kYes : label)});
    if (!task.options.multi_label || task.labels.size() == 1) continue;
    ask(text, (label + 1) % task.labels.size());
    turns.push_back({Role::kAssistant, answer(surfaces, kNo)});
  }
  ask(options.ticket, options.question);
  if (task.instructions.empty()) return turns;

  std::string instructions = replaced(task.instructions, kLabelsField, label_list(task, surfaces));
  if (options.system_role) {
    turns.insert(turns.begin(), {Role::kSystem, std::move(instructions)});
  } else {
    turns.front().content.insert(0, instructions + "\n\n");
  }
  return turns;
}

}  // namespace incipit::prompt
