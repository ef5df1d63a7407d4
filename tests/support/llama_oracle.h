// SPDX-License-Identifier: Apache-2.0
//
// What libllama computes from the same file: an oracle for the graphs that we build. It shares
// nothing with them but the file, so a part that is left out (a norm, a window, a scale) shows.
// It never agrees to the bit: it quantises activations in another way and sums in another order.
// Failures throw, which ends the test with the message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "incipit/types.h"

struct llama_model;

namespace incipit::test {

class LlamaOracle {
 public:
  explicit LlamaOracle(const std::string& file);

  // The logits of `rows` (ascending positions of `tokens`), one after the other, evaluated in one
  // piece.
  [[nodiscard]] std::vector<float> logits(TokenSpan tokens,
                                          std::span<const std::uint32_t> rows) const;

  // How the last of `tokens` attends to each of them in `layer`: heads x tokens weights.
  [[nodiscard]] std::vector<float> attention(TokenSpan tokens, std::size_t layer) const;

 private:
  std::unique_ptr<llama_model, void (*)(llama_model*)> model_;
};

// How far two rows of logits are from each other, as distributions.
struct Disagreement {
  double nats = 0;    // Kullback-Leibler divergence of `got` from `want`.
  double likely = 0;  // Largest difference of log-probabilities where `want` gives 1 % or more.
  double lost = 0;    // By how much `want` prefers its own first token to that of `got`.
};
Disagreement compare_logits(std::span<const float> want, std::span<const float> got);

}  // namespace incipit::test
