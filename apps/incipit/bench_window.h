// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "incipit/command.h"

namespace incipit::app {

// The command line behind `incipit bench window`.
int bench_window(std::span<const std::string> arguments, const Surroundings& around);

}  // namespace incipit::app
