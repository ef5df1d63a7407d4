// SPDX-License-Identifier: Apache-2.0
//
// A command of the program: one function in one file, named in one table (main.cc).
//
// A command sees the outside only through Surroundings, so tests run it with a fake engine and
// files of their own. It returns an exit code (exit_code.h) and never ends the process.
#pragma once

#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "incipit/doctor.h"
#include "incipit/engine.h"

namespace CLI {
class App;
}

namespace incipit::app {

struct Surroundings {
  std::FILE* out = stdout;  // Results and help.
  std::FILE* err = stderr;  // Everything else.
  bool err_is_terminal = false;
  bool has_colour = false;                         // A terminal, and NO_COLOR is not set.
  const std::atomic<bool>* interrupted = nullptr;  // Set by Ctrl-C.
  std::function<Result<std::unique_ptr<Engine>>(EngineOptions)> open_engine{};
  std::function<Result<DoctorReport>(const EngineOptions&)> examine{};
};

// Runs a command with the arguments behind its name.
using RunCommand = int (*)(std::span<const std::string> arguments, const Surroundings& around);

struct Command {
  const char* name;
  const char* summary;
  RunCommand run;
  // Whether the command looks at Surroundings::interrupted; Ctrl-C ends the others at once.
  bool heeds_interrupt = false;
};

// Parses `arguments` into the variables that `flags` was given. Returns an exit code where the
// command is over: after help, and after a mistake, which is printed.
std::optional<int> parse_flags(CLI::App& flags, std::span<const std::string> arguments,
                               const Surroundings& around);

// Prints a line of ours to `err`; without effect where `quiet`.
void say(const Surroundings& around, const std::string& text, bool quiet = false);

// say() as what EngineOptions::on_event wants. The surroundings must outlive it.
std::function<void(const std::string&)> notices(const Surroundings& around, bool quiet = false);

// Prints the error and returns its exit code.
int fail(const Error& error, const Surroundings& around);

int run_classify(std::span<const std::string> arguments, const Surroundings& around);
int run_explain(std::span<const std::string> arguments, const Surroundings& around);
int run_doctor(std::span<const std::string> arguments, const Surroundings& around);
int run_kv(std::span<const std::string> arguments, const Surroundings& around);
int run_bench(std::span<const std::string> arguments, const Surroundings& around);

}  // namespace incipit::app
