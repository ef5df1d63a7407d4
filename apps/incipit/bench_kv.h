// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "incipit/command.h"

namespace incipit::app {

// The command line behind `incipit bench kv`.
int bench_kv(std::span<const std::string> arguments, const Surroundings& around);

}  // namespace incipit::app
