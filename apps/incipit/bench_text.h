// SPDX-License-Identifier: Apache-2.0
//
// The text that benchmarks read: of files that are named, or of this project's own.
#pragma once

#include <string>
#include <vector>

#include "incipit/result.h"

namespace CLI {
class App;
}

namespace incipit::app {

// What is read where no files are named.
inline const std::vector<std::string> kTextsShipped{"README.md", "ARCHITECTURE.md",
                                                    "CONTRIBUTING.md", "THIRD_PARTY.md", "docs"};

void add_text_flag(CLI::App& app, std::vector<std::string>& paths);

// The text of files, and of all .md files in folders, in the order of their names.
// Errors: as read_file(); kInvalidArgument where there is none.
Result<std::string> text_of(const std::vector<std::string>& paths);

}  // namespace incipit::app
