// SPDX-License-Identifier: Apache-2.0
//
// What this machine can do with a model, and whether the promise holds on it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "incipit/options.h"
#include "incipit/result.h"

namespace incipit {

// One way to run a model, tried: precision and KV type.
struct DoctorRun {
  std::string precision;
  std::string kv_type;
  std::string refused;  // Why it cannot run here; the rest is empty then.
  bool exact = false;   // Pieces, batches and whole prompts agree to the bit.
  std::string approximate_reason;
  std::size_t rows_min = 0;  // In use: least rows of a pass, and of the last product.
  std::size_t logits_rows_min = 0;
  std::size_t rows_needed = 0;  // The least that keep the law, measured.
  std::size_t logits_rows_needed = 0;
  bool lone_token_needs_shadow = false;
  double ms_self_test = 0;     // What the self-test of a first start cost.
  std::size_t cell_bytes = 0;  // Memory of one token's KV cells.
};

// A model file and what the runtimes make of it.
struct DoctorModel {
  std::string file;
  std::size_t bytes = 0;
  std::string summary;  // Such as "qwen2, 24 layers, width 896, vocabulary 151936".
  std::string refused;  // Why it cannot be loaded, naming what is unsupported; empty if it can.
  bool is_approximate = false;  // Only libllama knows it.
};

struct DoctorReport {
  std::string cpu;
  std::string instructions;
  std::vector<std::string> broken_instructions;  // Announced, but trapped when tried.
  std::size_t cores = 0;
  std::size_t memory_available_bytes = 0;
  std::size_t memory_peak_bytes = 0;  // Of this process.
  std::string home;                   // The cache directory.
  std::string runtime;                // Name and version of OpenVINO.
  std::string other_runtime;          // And of libllama.
  std::vector<std::string> precisions;
  std::vector<DoctorModel> models;  // Of the cache directory, and the one asked for.
  std::vector<DoctorRun> runs;      // Of the model asked for; none with libllama.

  // Whether a run was possible, so that something was proved or refuted.
  [[nodiscard]] bool is_proved() const {
    for (const DoctorRun& run : runs) {
      if (run.refused.empty()) return true;
    }
    return false;
  }
  // Whether the law holds in every run that was possible.
  [[nodiscard]] bool is_well() const {
    for (const DoctorRun& run : runs) {
      if (run.refused.empty() && !run.exact) return false;
    }
    return true;
  }
};

// Looks at the machine and, where options.model names a file that can be loaded, proves the law on
// it in every precision and KV type
// (of OpenVINO; libllama makes no promise to be proved); that takes seconds for each.
// options.on_event hears of each. Errors: kUnavailable if options.model is set and cannot be
// loaded.
Result<DoctorReport> examine(const EngineOptions& options);

}  // namespace incipit
