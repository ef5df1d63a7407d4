// SPDX-License-Identifier: Apache-2.0
//
// --task and the flags that change a task's options, one for each option of a task file.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "incipit/engine.h"
#include "incipit/result.h"
#include "incipit/task.h"

namespace CLI {
class App;
}

namespace incipit::app {

struct TaskFlags {
  struct Option {
    std::string name;   // As in a task file: "min_confidence".
    std::string value;  // Empty: not given.
    bool is_set = false;
  };
  std::string path;
  std::vector<Option> options;
};

// Requires: `flags` lives as long as `app`.
void add_task_flags(CLI::App& app, TaskFlags& flags);

// The task of the file with the flags applied. Errors: kInvalidArgument names file or flag.
Result<Task> read_task(const TaskFlags& flags);

// engine.classifier() with errors that name the file where the task is at fault.
Result<std::unique_ptr<Classifier>> make_classifier(Engine& engine, const std::string& task_file,
                                                    const Task& task, ClassifierOptions options);

}  // namespace incipit::app
