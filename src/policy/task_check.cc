// SPDX-License-Identifier: Apache-2.0
#include "policy/task_check.h"

#include <algorithm>
#include <cctype>
#include <map>

namespace incipit::policy {
namespace {

using Fault = std::optional<TaskFault>;

std::string indexed(std::string path, std::size_t index) {
  return std::move(path) + "[" + std::to_string(index) + "]";
}

Fault check_input(const Task& task) {
  constexpr std::string_view kPlace = "{text}";
  const std::size_t first = task.input.find(kPlace);
  if (first == std::string::npos) {
    return TaskFault{"input", "must contain {text}, the place of the text to classify"};
  }
  if (task.input.find(kPlace, first + 1) != std::string::npos) {
    return TaskFault{"input", "must contain {text} only once"};
  }
  return {};
}

Fault check_label_name(const LabelDefinition& label) {
  const std::string path = "labels." + label.name;
  if (strip_edges(label.name).empty()) return TaskFault{path, "a label needs a name"};
  if (label.name.starts_with('/') || label.name.ends_with('/') || label.name.contains("//")) {
    return TaskFault{path, "a part of this label path is empty"};
  }
  return {};
}

// Every name and every surface belongs to one label.
Fault check_labels(const Task& task) {
  if (task.labels.empty()) return TaskFault{"labels", "a task needs at least one label"};
  std::map<std::string_view, std::string_view> name_owner;
  std::map<std::string_view, std::string_view> surface_owner;
  for (const LabelDefinition& label : task.labels) {
    if (Fault fault = check_label_name(label)) return fault;
    const std::string path = "labels." + label.name;
    if (!name_owner.emplace(strip_edges(label.name), label.name).second) {
      return TaskFault{path, "this label is declared twice; white space around it does not count"};
    }
    const std::vector<std::string> own = {label.name};
    const auto& surfaces = label.surfaces.empty() ? own : label.surfaces;
    for (std::size_t i = 0; i < surfaces.size(); ++i) {
      const std::string where = label.surfaces.empty() ? path : indexed(path + ".surfaces", i);
      const std::string_view surface =
          strip_edges(label.surfaces.empty() ? label.name : surfaces[i]);
      if (surface.empty()) return TaskFault{where, "a surface must not be empty"};
      const auto [owner, is_new] = surface_owner.emplace(surface, label.name);
      if (!is_new) {
        return TaskFault{where, "the surface '" + std::string(surface) +
                                    "' already belongs to the label '" +
                                    std::string(owner->second) + "'"};
      }
    }
  }
  return {};
}

bool has_label(const Task& task, std::string_view name) {
  return std::ranges::any_of(task.labels, [&](const LabelDefinition& label) {
    return strip_edges(label.name) == strip_edges(name);
  });
}

Fault check_examples(const Task& task) {
  for (std::size_t i = 0; i < task.examples.size(); ++i) {
    const std::string path = indexed("examples", i);
    if (strip_edges(task.examples[i].text).empty()) {
      return TaskFault{path + ".text", "an example needs a text"};
    }
    if (!has_label(task, task.examples[i].label)) {
      return TaskFault{path + ".label",
                       "'" + task.examples[i].label + "' is not one of the labels"};
    }
  }
  return {};
}

bool is_date(std::string_view text) {
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') return false;
  for (const std::size_t i : {0U, 1U, 2U, 3U, 5U, 6U, 8U, 9U}) {
    if (std::isdigit(static_cast<unsigned char>(text[i])) == 0) return false;
  }
  const int month = (text[5] - '0') * 10 + (text[6] - '0');
  const int day = (text[8] - '0') * 10 + (text[9] - '0');
  return month >= 1 && month <= 12 && day >= 1 && day <= 31;
}

Fault check_options(const Task& task) {
  const TaskOptions& options = task.options;
  if (!options.none_label.empty() && !has_label(task, options.none_label)) {
    return TaskFault{"options.none_label", "'" + options.none_label + "' is not one of the labels"};
  }
  if (!options.template_date.empty() && !is_date(options.template_date)) {
    return TaskFault{"options.template_date",
                     "expected a date such as 2026-01-31, not '" + options.template_date + "'"};
  }
  const bool by_length =
      options.normalise == Normalise::kMean || options.normalise == Normalise::kChar;
  if (options.scoring == Scoring::kFirst && by_length) {
    return TaskFault{"options.normalise",
                     "mean and char divide by a label's length, which means nothing where only its "
                     "first token is scored; use scoring \"sequence\""};
  }
  if (options.multi_label && !options.none_label.empty()) {
    return TaskFault{"options.none_label",
                     "a multi-label task needs no none label: a row may get no label at all"};
  }
  return {};
}

}  // namespace

std::string_view strip_edges(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::optional<TaskFault> find_task_fault(const Task& task) {
  if (Fault fault = check_input(task)) return fault;
  if (Fault fault = check_labels(task)) return fault;
  if (Fault fault = check_examples(task)) return fault;
  return check_options(task);
}

}  // namespace incipit::policy
