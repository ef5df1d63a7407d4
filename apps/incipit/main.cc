// SPDX-License-Identifier: Apache-2.0
//
// The program: finds the command by its name and hands it the rest of the line.
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "incipit/command.h"
#include "incipit/exit_code.h"

namespace {

using incipit::app::Command;

constexpr std::array kCommands = {
    Command{"classify", "label every row of a file by a task", incipit::app::run_classify},
    Command{"explain", "show tokens, cut and scores of one text", incipit::app::run_explain},
    Command{"doctor", "show what this machine can do, prove the law on it",
            incipit::app::run_doctor},
    Command{"bench", "time a task on whole prompts and on the shared prefix",
            incipit::app::run_bench},
};

// The one thing that a signal handler may touch.
std::atomic<bool> interrupted = false;

void on_interrupt(int) { interrupted = true; }

// The first Ctrl-C ends the work in good order, a second one ends the process. A closed pipe is
// an error of the write that meets it, not the end of the process.
void install_signal_handlers() {
  struct sigaction action{};
  action.sa_handler = on_interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

void print_usage(std::FILE* out) {
  std::fputs("Incipit: a prompt cache for language models.\n\nUsage: incipit COMMAND [FLAGS]\n\n",
             out);
  for (const Command& command : kCommands) {
    std::fprintf(out, "  %-10s %s\n", command.name, command.summary);
  }
  std::fputs("\nincipit COMMAND --help tells more; incipit --version prints the version.\n", out);
}

}  // namespace

int main(int argc, char** argv) {
  install_signal_handlers();
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  const std::string name = arguments.empty() ? "" : arguments.front();
  if (name == "--version") {
    std::puts("incipit " INCIPIT_VERSION);
    return incipit::app::kExitDone;
  }
  if (name == "--help" || name == "-h" || name == "help") {
    print_usage(stdout);
    return incipit::app::kExitDone;
  }
  const bool is_terminal = ::isatty(STDERR_FILENO) == 1;
  const char* no_colour = std::getenv("NO_COLOR");
  const incipit::app::Surroundings around{
      .err_is_terminal = is_terminal,
      .has_colour = is_terminal && (no_colour == nullptr || *no_colour == '\0'),
      .interrupted = &interrupted,
      .open_engine = incipit::Engine::open};
  for (const Command& command : kCommands) {
    if (name == command.name) return command.run(std::span(arguments).subspan(1), around);
  }
  if (!name.empty()) std::fprintf(stderr, "incipit: there is no command '%s'\n\n", name.c_str());
  print_usage(stderr);
  return incipit::app::kExitUsage;
}
