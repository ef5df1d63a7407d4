// SPDX-License-Identifier: Apache-2.0
//
// What libllama computes from the same file: an oracle for the graphs that we build. It shares
// nothing with them but the file, so a part that is left out (a norm, a window, a scale) shows.
// It never agrees to the bit: it quantises activations in another way and sums in another order.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "incipit/types.h"

namespace incipit::test {

// The logits of `rows` (ascending positions of `tokens`), evaluated in one piece, one after the
// other. Failures throw, which ends the test with the message.
std::vector<float> llama_logits(const std::string& file, TokenSpan tokens,
                                std::span<const std::uint32_t> rows);

// How far two rows of logits are from each other, as distributions.
struct Disagreement {
  double nats = 0;    // Kullback-Leibler divergence of `got` from `want`.
  double likely = 0;  // Largest difference of log-probabilities where `want` gives 1 % or more.
  double lost = 0;    // By how much `want` prefers its own first token to that of `got`.
};
Disagreement compare_logits(std::span<const float> want, std::span<const float> got);

}  // namespace incipit::test
