// SPDX-License-Identifier: Apache-2.0
//
// The flags of every command that loads a model.
#pragma once

#include <cstddef>
#include <string>

#include "incipit/options.h"
#include "incipit/result.h"

namespace CLI {
class App;
}

namespace incipit::app {

struct EngineFlags {
  std::string model;
  std::string runtime = "auto";
  std::string precision = "auto";
  std::string kv_type = "auto";
  std::size_t ctx_size = EngineOptions{}.ctx_size;
  std::size_t threads = 0;
};

void add_engine_flags(CLI::App& app, EngineFlags& flags);

// Errors: kInvalidArgument names the flag.
Result<EngineOptions> engine_options(const EngineFlags& flags);

// The model that is used where -m is not given: in the cache directory.
[[nodiscard]] std::string default_model();

}  // namespace incipit::app
