// SPDX-License-Identifier: Apache-2.0
//
// What is run behind a prompt to score it, and what is read there.
//
// Work is a tree: branches fork from the end of the prompt, or from the end of another branch.
// A scorer says which, and reads the logits of each; when and beside whom they run is not its
// business (engine/batcher.h). Reading a branch again, after its cells were needed elsewhere, gives
// what the first time gave.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "incipit/types.h"
#include "model/runtime.h"

namespace incipit::decode {

// The id of the prompt, which is no branch.
inline constexpr std::size_t kPrompt = 0;

struct Branch {
  std::size_t id = kPrompt;     // Chosen by whoever reads it; not kPrompt.
  TokenSpan tokens;             // At least one; kept by the reader while it lives.
  std::size_t logits_rows = 1;  // Of its last tokens.
  bool has_more = false;        // Something may stand below: leave cells for it.
};

// What the model thinks of the labels after one prompt; natural logs.
struct LabelScores {
  std::string error = {};        // "too_long", "nonfinite" or empty; then the rest is set.
  std::vector<double> raw = {};  // By label: log probability; of questions, of yes.
  std::vector<double> surfaces =
      {};  // By LabelTree::surfaces(); of questions, the log odds of yes.
  std::vector<double> first_tokens = {};  // By LabelTree::surfaces(): of their first token alone.
  double mass = 0;                        // How much of the probability the answers have.
};

// Of one prompt. Confined to one thread at a time.
class PromptScorer {
 public:
  PromptScorer() = default;
  PromptScorer(const PromptScorer&) = delete;
  PromptScorer& operator=(const PromptScorer&) = delete;
  virtual ~PromptScorer() = default;

  // Rows of the prompt's last tokens that are read.
  [[nodiscard]] virtual std::size_t prompt_rows() const = 0;
  // Tokens behind the prompt on the longest path.
  [[nodiscard]] virtual std::size_t tokens_deepest() const = 0;
  // Reads the rows of the prompt or of a branch, which begin at `first_row`.
  virtual void read(std::size_t id, const model::Logits& logits, std::size_t first_row) = 0;
  // What stands below the prompt or a branch, once it was read.
  [[nodiscard]] virtual std::vector<Branch> below(std::size_t id) const = 0;
  // The last call, when all was read.
  [[nodiscard]] virtual LabelScores take() = 0;
};

}  // namespace incipit::decode
