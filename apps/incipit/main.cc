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
#include "incipit/terminal_text.h"

namespace {

using incipit::app::Command;
using incipit::app::LineEnds;
using incipit::app::printable;

constexpr std::array kCommands = {
    Command{.name = "classify",
            .summary = "label every row of a file by a task",
            .run = incipit::app::run_classify,
            .heeds_interrupt = true},
    Command{.name = "explain",
            .summary = "show tokens, cut and scores of one text",
            .run = incipit::app::run_explain},
    Command{.name = "doctor",
            .summary = "show what this machine can do, and prove that a cache hit changes nothing",
            .run = incipit::app::run_doctor},
    Command{.name = "kv",
            .summary = "look into a folder of cached prefixes; check, carry or clear them",
            .run = incipit::app::run_kv},
    Command{.name = "bench",
            .summary = "time a task, the cache of prefixes, and the two lossy ways",
            .run = incipit::app::run_bench,
            .heeds_interrupt = true},
};

// The one thing that a signal handler may touch.
std::atomic<bool> interrupted = false;

void on_interrupt(int) { interrupted = true; }

// The first Ctrl-C ends the work in good order, a second one ends the process.
void heed_interrupts() {
  struct sigaction action{};
  action.sa_handler = on_interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

// A closed pipe or a file over its limit is an error of the write that meets it, not the end of
// the process.
void ignore_write_signals() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

void print_usage(std::FILE* out) {
  std::fputs("Incipit: a prompt cache for language models.\n\nUsage: incipit COMMAND [FLAGS]\n\n",
             out);
  for (const Command& command : kCommands) {
    std::fprintf(out, "  %-10s %s\n", command.name, command.summary);
  }
  std::fputs(
      "\nExample:\n"
      "  incipit classify --task task.json tickets.jsonl -o labelled.jsonl\n"
      "\nincipit COMMAND --help tells more; incipit --version prints the version.\n",
      out);
}

int run_command(const std::string& name, std::span<const std::string> arguments) {
  const bool is_terminal = ::isatty(STDERR_FILENO) == 1;
  const char* no_colour = std::getenv("NO_COLOR");
  const incipit::app::Surroundings around{
      .err_is_terminal = is_terminal,
      .has_colour = is_terminal && (no_colour == nullptr || *no_colour == '\0'),
      .interrupted = &interrupted,
      .open_engine = incipit::Engine::open,
      .examine = incipit::examine};
  for (const Command& command : kCommands) {
    if (name != command.name) continue;
    if (command.heeds_interrupt) heed_interrupts();
    return command.run(arguments, around);
  }
  if (!name.empty()) {
    std::fprintf(stderr, "incipit: there is no command '%s'\n\n",
                 printable(name, LineEnds::kEscaped).c_str());
  }
  print_usage(stderr);
  return incipit::app::kExitUsage;
}

// What was printed through stdio may have met a full disk without anyone looking.
int close_output(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  std::fputs("incipit: cannot write standard output; is the disk full or the pipe closed?\n",
             stderr);
  return code == incipit::app::kExitDone ? incipit::app::kExitFailed : code;
}

}  // namespace

int main(int argc, char** argv) {
  ignore_write_signals();
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  const std::string name = arguments.empty() ? "" : arguments.front();
  if (name == "--version") {
    std::puts("incipit " INCIPIT_VERSION);
    return close_output(incipit::app::kExitDone);
  }
  if (name == "--help" || name == "-h" || name == "help") {
    print_usage(stdout);
    return close_output(incipit::app::kExitDone);
  }
  return close_output(run_command(name, std::span(arguments).subspan(arguments.empty() ? 0 : 1)));
}
