// SPDX-License-Identifier: Apache-2.0
//
// Scores encoded texts of one task: a tree of labels, or a yes/no question for each label.
//
//     PromptPart --Job--> Scheduler, among the jobs of others --PromptScorer--> LabelScores
//
// This is where a route is chosen: the same tokens, with or without the shared prefix, one text
// or many at once. The results are the same to the bit where the runtime is exact.
// Confined to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "decode/label_tree.h"
#include "decode/prompt_scorer.h"
#include "decode/question_scorer.h"
#include "engine/scheduler.h"
#include "incipit/result.h"
#include "incipit/types.h"

namespace incipit::engine {

// One prompt of a text; a text has several where it was cut into shards.
struct PromptPart {
  TokenVector suffix;  // Behind the prefix, or the whole prompt.
  bool shares_prefix = true;
  std::vector<TokenVector> questions;
};

struct ScoringCounters {
  std::uint64_t passes = 0;  // While texts were in the model.
  std::uint64_t tokens = 0;  // Given to the model for them.
};

class TextScorer {
 public:
  // `tree` is null in a multi-label task, where `answers` hold yes and no. All must outlive the
  // scorer. `context_tokens` is the runtime's.
  TextScorer(Scheduler& scheduler, std::size_t context_tokens, std::string tenant,
             const decode::LabelTree* tree, const decode::AnswerTokens* answers)
      : scheduler_(scheduler),
        context_tokens_(context_tokens),
        tenant_(std::move(tenant)),
        tree_(tree),
        answers_(answers) {}

  // Computes the prefix that parts may share, unless it is cached.
  // Errors: of the model; kResourceExhausted for one beyond the cells.
  Result<void> set_prefix(TokenSpan prefix);

  // Scores another tree from here on, over the same prefix; returns the one before.
  const decode::LabelTree* use_tree(const decode::LabelTree* tree) {
    return std::exchange(tree_, tree);
  }

  // One result for each part, in order. A part that does not fit into the cells or the context is
  // "too_long" and harms no other.
  // Errors: kInvalidArgument for a part without tokens; what the queue and the model report.
  Result<std::vector<decode::LabelScores>> score(std::span<const PromptPart> parts);

  [[nodiscard]] const ScoringCounters& counters() const { return counters_; }

 private:
  Result<Job> job_of(const PromptPart& part, std::unique_ptr<decode::PromptScorer>& scorer) const;

  Scheduler& scheduler_;
  std::size_t context_tokens_;
  std::string tenant_;
  const decode::LabelTree* tree_;
  const decode::AnswerTokens* answers_;
  TokenVector prefix_;
  ScoringCounters counters_;
};

}  // namespace incipit::engine
