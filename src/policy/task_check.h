// SPDX-License-Identifier: Apache-2.0
//
// What makes a task senseless before any model is asked: labels that cannot be told apart,
// examples of labels that do not exist, options that contradict each other.
//
// The edges of labels and surfaces do not count: " billing" and "billing" are the same label,
// because the model is shown both in the same way. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "incipit/task.h"

namespace incipit::policy {

struct TaskFault {
  std::string path;  // Such as "labels.billing.surfaces[1]".
  std::string what;
};

// The first thing that is wrong with `task`, in the order of its fields.
[[nodiscard]] std::optional<TaskFault> find_task_fault(const Task& task);

// Without ASCII white space at both ends.
[[nodiscard]] std::string_view strip_edges(std::string_view text);

}  // namespace incipit::policy
