// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "incipit/command.h"

namespace incipit::app {

// The command line behind `incipit bench window`.
int bench_window(std::span<const std::string> arguments, const Surroundings& around);

// The text of files, and of all .md files in folders, in the order of their names.
// Errors: as read_file(); kInvalidArgument where there is none.
Result<std::string> text_of(const std::vector<std::string>& paths);

}  // namespace incipit::app
