// SPDX-License-Identifier: Apache-2.0
#include "incipit/command.h"

#include <CLI/CLI.hpp>

#include "incipit/exit_code.h"
#include "incipit/terminal_text.h"

namespace incipit::app {
namespace {

constexpr std::size_t kHelpWidth = 80;

}  // namespace

std::optional<int> parse_flags(CLI::App& flags, std::span<const std::string> arguments,
                               const Surroundings& around) {
  // The library takes arguments from the back.
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    flags.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    std::fputs(wrapped(flags.help(), kHelpWidth).c_str(), around.out);
    return kExitDone;
  } catch (const CLI::ParseError& error) {
    std::fprintf(around.err, "incipit: %s\nTry: %s --help\n",
                 printable(error.what(), LineEnds::kKept).c_str(), flags.get_name().c_str());
    return kExitUsage;
  }
  return std::nullopt;
}

void say(const Surroundings& around, const std::string& text, bool quiet) {
  if (!quiet) std::fprintf(around.err, "incipit: %s\n", printable(text, LineEnds::kKept).c_str());
}

std::function<void(const std::string&)> notices(const Surroundings& around, bool quiet) {
  return [&around, quiet](const std::string& event) { say(around, event, quiet); };
}

int fail(const Error& error, const Surroundings& around) {
  say(around, error.message);
  return exit_code_of(error.code);
}

}  // namespace incipit::app
