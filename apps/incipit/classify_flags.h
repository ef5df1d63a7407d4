// SPDX-License-Identifier: Apache-2.0
//
// The flags of `incipit classify`, and what they mean for the library.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "incipit/classify_file.h"
#include "incipit/engine_flags.h"
#include "incipit/task_flags.h"

namespace CLI {
class App;
}

namespace incipit::app {

struct ClassifyFlags {
  EngineFlags engine;
  TaskFlags task;
  FileJob job;  // What needs no further reading is filled in by the parser.
  std::string batch = "auto";
  std::string format;
  std::string delimiter;
  bool no_header = false;
  bool no_dedupe = false;
  std::string calibrate = "none";
  std::string calibrate_on;
  std::optional<double> target_accuracy;
  std::string verify;
  std::size_t order_test = 0;
  std::string report;
  bool quiet = false;
  bool fail_on_review = false;
};

// Requires: `flags` lives as long as `app`.
void add_classify_flags(CLI::App& app, ClassifyFlags& flags);

struct ClassifyPlan {
  EngineOptions engine;
  Task task;
  ClassifierOptions classifier;
  FileJob job;
  std::optional<FitOptions> fit;
};

// Reads the task and everything that is text in `flags`. Errors: kInvalidArgument names the flag.
Result<ClassifyPlan> plan_of(const ClassifyFlags& flags);

}  // namespace incipit::app
