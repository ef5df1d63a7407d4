// SPDX-License-Identifier: Apache-2.0
//
// Task files: a Task as JSON, read strictly and written back.
//
// A task file shapes every answer, so nothing in it is guessed: unknown keys, repeated keys and
// labels that cannot be told apart are refused with file, line and key path. The order of the
// labels in the file is their order everywhere, ties included. docs/task_file.md has the fields.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "incipit/result.h"
#include "incipit/task.h"

namespace incipit {

// Reads and checks a task file. Errors: kInvalidArgument "FILE:LINE:COLUMN: KEY PATH: ...".
Result<Task> read_task_file(const std::string& path);

// The same from memory; `name` stands for the file in messages.
Result<Task> parse_task(std::string_view json, const std::string& name);

// The task as a task file with every field written out: parse_task() gives the same task back,
// so equal texts mean equal tasks.
[[nodiscard]] std::string task_json(const Task& task);

// Checks a task that was filled or changed by hand. Errors: kInvalidArgument "KEY PATH: ...".
Result<void> check_task(const Task& task);

// A field of TaskOptions by its name in a task file, for command lines and forms.
struct TaskOptionInfo {
  std::string name;
  std::string help;        // One sentence.
  std::string values;      // "auto|first|sequence", "true|false", "a number from 0 to 1", "a text".
  bool is_switch = false;  // true or false.
};
[[nodiscard]] std::vector<TaskOptionInfo> task_option_infos();

// Sets one field from text. Errors: kInvalidArgument names the values that are possible.
Result<void> set_task_option(TaskOptions& options, std::string_view name, std::string_view value);

}  // namespace incipit
