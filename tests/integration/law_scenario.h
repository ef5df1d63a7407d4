// SPDX-License-Identifier: Apache-2.0
//
// Random histories of sequences, compared to the bit with their tokens in one piece.
//
// A scenario grows several sequences at once: pieces of random size in passes of random mixes and
// orders, with forks, truncations, saves and restores in between. Whatever it did, the logits
// seen on the way and the cells at the end must be those of the whole prompt on a runtime that
// never saw anything but whole prompts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "incipit/options.h"
#include "model/runtime.h"

namespace incipit::test {

struct Mode {
  const char* name;
  Precision precision;
  KvType kv_type;
};

void PrintTo(const Mode& mode, std::ostream* out);

// Cells of the pass's precision: f32, and bf16 where this CPU has it.
std::vector<Mode> float_modes();
// These, each followed by INT8 cells in the same precision.
std::vector<Mode> all_modes();

struct Scenario {
  std::size_t sequences = 4;
  std::size_t tokens_min = 1;  // Length of a sequence at the end.
  std::size_t tokens_max = 200;
  std::vector<std::size_t> pieces;  // Sizes to choose from.
  std::size_t rows_watched = 2;     // Most logits rows asked of a piece.
  bool disturb = true;              // Forks, truncations, saves and restores.
  std::size_t shared_tokens = 0;    // All sequences begin with the same tokens, computed once.
  std::uint64_t seed = 1;
};

// What differed, for a person; empty where nothing did.
std::string run_scenario(const Scenario& scenario, model::Runtime& subject, model::Runtime& oracle);

// `count` tokens that look like text in no language: any ids of the vocabulary.
TokenVector random_tokens(std::size_t count, std::uint64_t seed, std::size_t vocabulary);

// One prompt in one call on a new sequence: the logits of `rows`, and all cells.
struct WholePrompt {
  std::vector<float> logits;
  std::vector<std::byte> payload;  // save() without its frame, which names the runtime.
};
WholePrompt evaluate_whole(model::Runtime& runtime, TokenSpan tokens,
                           const std::vector<std::uint32_t>& rows);

// save() of a whole sequence, without the frame.
std::vector<std::byte> saved_payload(const model::Runtime& runtime, model::SequenceId sequence);

}  // namespace incipit::test
