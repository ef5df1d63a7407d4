// SPDX-License-Identifier: Apache-2.0
//
// The log probability of every label after one prompt.
//
// The row of the prompt's last token gives the first token of every label. Where labels go on, the
// segments of the label tree follow as branches, each once. Log probabilities are taken from
// a softmax over the whole vocabulary, in double; there is no cut to the top k.
//
// Where the runtime is exact, the scores of a prompt are a function of its tokens alone: not of
// its neighbours, their number and order, nor of the cells that were free (proved against whole
// prompts in label_scorer_property_test.cc). So near ties need no second look there.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "decode/label_tree.h"
#include "decode/prompt_scorer.h"

namespace incipit::decode {

class LabelScorer final : public PromptScorer {
 public:
  // The tree must outlive the scorer.
  explicit LabelScorer(const LabelTree& tree);

  [[nodiscard]] std::size_t prompt_rows() const override { return 1; }
  [[nodiscard]] std::size_t tokens_deepest() const override { return tree_.tokens_deepest(); }
  void read(std::size_t id, const model::Logits& logits, std::size_t first_row) override;
  [[nodiscard]] std::vector<Branch> below(std::size_t id) const override;
  [[nodiscard]] LabelScores take() override;

 private:
  void read_first_tokens(std::span<const float> values, double total);

  const LabelTree& tree_;
  LabelScores scores_;
  std::vector<double> sums_;  // By segment: log probability up to its first token.
};

}  // namespace incipit::decode
