// SPDX-License-Identifier: Apache-2.0
//
// Scores encoded texts of one task: a tree of labels, or a yes/no question for each label.
//
// This is where a route is chosen: the same tokens, with or without the shared prefix, one text
// or many in a pass. The results are the same to the bit where the runtime is exact.
// Confined to one thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "decode/label_scorer.h"
#include "decode/label_tree.h"
#include "decode/question_scorer.h"
#include "incipit/engine.h"
#include "incipit/result.h"
#include "model/runtime.h"
#include "prompt/task_prompt.h"

namespace incipit::engine {

// One prompt of a text; a text has several where it was cut into shards.
struct PromptPart {
  TokenVector suffix;  // Behind the prefix, or the whole prompt.
  bool shares_prefix = true;
  std::vector<TokenVector> questions;
};

struct PartScores {
  std::string error;
  std::vector<double> raw;           // By label.
  std::vector<double> surfaces;      // By scored surface; in a multi-label task the log odds.
  std::vector<double> first_tokens;  // By scored surface, of its first token alone.
  double mass = 0;
};

class TextScorer {
 public:
  // `tree` is empty in a multi-label task, where `answers` hold yes and no. Both must outlive
  // the scorer, and so must the runtime.
  TextScorer(model::Runtime& runtime, const decode::LabelTree* tree,
             const decode::AnswerTokens* answers)
      : runtime_(runtime), tree_(tree), answers_(answers) {}

  // Computes the prefix that parts may share.
  Result<void> set_prefix(TokenSpan prefix);

  // Scores another tree from here on, over the same prefix; returns the one before.
  const decode::LabelTree* use_tree(const decode::LabelTree* tree) {
    return std::exchange(tree_, tree);
  }

  // One result for each part, in order; `rows_max` bounds a pass, 0 leaves it to memory. A whole
  // prompt that finds no room beside the prefix takes its cells; the next part that shares the
  // prefix computes it again.
  Result<std::vector<PartScores>> score(std::span<const PromptPart> parts, std::size_t rows_max);

  [[nodiscard]] const decode::PassCounters& counters() const { return counters_; }

 private:
  void count(const decode::PassCounters& counters);
  Result<void> hold_prefix();
  Result<std::vector<PartScores>> score_beside_prefix(std::span<const PromptPart> parts,
                                                      std::size_t rows_max);
  Result<std::vector<PartScores>> score_tree(std::span<const decode::ScorePrompt> prompts,
                                             decode::PassLimits limits);
  Result<std::vector<PartScores>> score_questions(std::span<const decode::ScorePrompt> prompts,
                                                  std::span<const PromptPart> parts,
                                                  decode::PassLimits limits);

  model::Runtime& runtime_;
  const decode::LabelTree* tree_;
  const decode::AnswerTokens* answers_;
  TokenVector prefix_tokens_;
  std::optional<model::Sequence> prefix_;  // Empty while a whole prompt needed its cells.
  decode::PassCounters counters_;
};

}  // namespace incipit::engine
