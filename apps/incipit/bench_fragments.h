// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "incipit/command.h"

namespace incipit::app {

// The command line behind `incipit bench fragments`.
int bench_fragments(std::span<const std::string> arguments, const Surroundings& around);

// Consecutive paragraphs of a text, joined until each passage has `bytes_min`.
[[nodiscard]] std::vector<std::string> passages_of(const std::string& text, std::size_t bytes_min);

// Eight words from the middle of a passage; empty where it has fewer than sixteen.
[[nodiscard]] std::string quote_of(const std::string& passage);

}  // namespace incipit::app
