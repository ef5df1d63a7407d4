// SPDX-License-Identifier: Apache-2.0
#include "incipit/task_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

#include "incipit/task_file.h"

namespace incipit::app {
namespace {

// "min_confidence" is --min-confidence; a switch that is on by default is switched off: --no-...
std::string flag_name(const TaskFlags::Option& option, bool is_on_by_default) {
  std::string name = option.name;
  std::ranges::replace(name, '_', '-');
  return (is_on_by_default ? "--no-" : "--") + name;
}

// What stands for the value in the help: "0..1", "TEXT", or the names to choose from.
std::string value_name(const TaskOptionInfo& info) {
  constexpr std::string_view kNumber = "a number from ";
  if (info.values == "a text") return "TEXT";
  if (!info.values.starts_with(kNumber)) return info.values;
  std::string range = info.values.substr(kNumber.size());
  const std::size_t to = range.find(" to ");
  return to == std::string::npos ? range : range.replace(to, 4, "..");
}

bool is_on_by_default(const std::string& name) {
  return name == "end_token" && TaskOptions{}.end_token;
}

}  // namespace

void add_task_flags(CLI::App& app, TaskFlags& flags) {
  app.add_option("--task", flags.path,
                 "The task file: instructions, labels, examples and options, as JSON.")
      ->type_name("FILE")
      ->required();
  const auto infos = task_option_infos();
  flags.options.reserve(infos.size());  // Pointers into it are handed out below.
  for (const TaskOptionInfo& info : infos) {
    TaskFlags::Option& option =
        flags.options.emplace_back(TaskFlags::Option{.name = info.name, .value = {}});
    const bool is_on = is_on_by_default(info.name);
    const std::string name = flag_name(option, is_on);
    const char* group = "Options of the task (they override the file)";
    if (info.is_switch) {
      app.add_flag(name, option.is_set, is_on ? "Switches this off: " + info.help : info.help)
          ->group(group);
    } else {
      app.add_option(name, option.value, info.help)->type_name(value_name(info))->group(group);
    }
  }
}

Result<Task> read_task(const TaskFlags& flags) {
  INCIPIT_TRY(Task task, read_task_file(flags.path));
  for (const TaskFlags::Option& option : flags.options) {
    const std::string value =
        option.is_set ? (is_on_by_default(option.name) ? "false" : "true") : option.value;
    if (value.empty()) continue;
    if (auto set = set_task_option(task.options, option.name, value); !set) {
      return failure(ErrorCode::kInvalidArgument, "flag " + set.error().message);
    }
  }
  if (auto checked = check_task(task); !checked) {
    return failure(ErrorCode::kInvalidArgument,
                   flags.path + " with the given flags: " + checked.error().message);
  }
  return task;
}

Result<std::unique_ptr<Classifier>> make_classifier(Engine& engine, const std::string& task_file,
                                                    const Task& task, ClassifierOptions options) {
  auto classifier = engine.classifier(task, options);
  if (classifier || classifier.error().code != ErrorCode::kInvalidArgument) return classifier;
  return failure(classifier.error().code, task_file + ": " + classifier.error().message);
}

}  // namespace incipit::app
