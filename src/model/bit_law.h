// SPDX-License-Identifier: Apache-2.0
//
// The law of bits, proved on this CPU.
//
// A kernel is chosen by the number of rows that it sees. As long as the same kernel runs, a row's
// result does not depend on its neighbours, and cached, batched and whole prompts agree to the
// last bit (docs/adr/0002). Which settings make the same kernel run is a fact about a model, a
// precision and a CPU, so it is measured: once, in a few passes, and kept.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "incipit/result.h"
#include "model/openvino_runtime.h"

namespace incipit::model {

struct LawProof {
  LawSettings settings;
  bool exact = false;
  std::string reason;    // What differed, where no settings keep the law.
  double ms = 0;         // What the proof cost.
  bool is_kept = false;  // It was read back, not made.
};

// Compares a prompt cut into small pieces, among strangers, with the same prompt in one piece:
// logits and cells, bit by bit. True if they are equal under the runtime's present settings. Where
// layers see a window, the same again at its edge.
// Errors: what evaluate() reports.
Result<bool> keeps_the_law(OpenVinoRuntime& runtime);

// Reads the proof kept at `path`, or makes one: tries the usual settings, then larger ones, and
// leaves the runtime with those that keep the law, or marked approximate.
Result<LawProof> prove_law(OpenVinoRuntime& runtime, const std::string& path);

// The least settings that keep the law, found by trying (seconds). Leaves the runtime as it was.
struct LawMeasurement {
  bool lone_token_needs_shadow = false;
  std::size_t rows_min = 0;  // 0: none of those tried keeps the law.
  std::size_t logits_rows_min = 0;
};
Result<LawMeasurement> measure_law(OpenVinoRuntime& runtime);

}  // namespace incipit::model
