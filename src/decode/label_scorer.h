// SPDX-License-Identifier: Apache-2.0
//
// The log probability of every label after every prompt.
//
// Many prompts continue one shared prefix: each is forked from it and brings its own tokens, and
// all go through the model in one pass, with logits for their last token only. That row gives
// the first token of every label. Where labels go on, the segments of the label tree follow in
// further passes, each segment once for each prompt. Log probabilities are taken from a softmax
// over the whole vocabulary, in double; there is no cut to the top k.
//
// Where the runtime is exact, the scores of a prompt are a function of its tokens alone: not of
// its neighbours, their number and order, nor of the cells that were free (proved against whole
// prompts in label_scorer_property_test.cc). So near ties need no second look there.
// Confined to one thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "decode/label_tree.h"
#include "decode/pass_runner.h"
#include "incipit/result.h"
#include "model/runtime.h"

namespace incipit::decode {

// A prompt: the first `shared` cells of `base`, then `suffix`. With `shared` = 0 the suffix is
// the whole prompt, in a fresh sequence, and `base` is not looked at.
struct ScorePrompt {
  model::SequenceId base{};
  std::size_t shared = 0;
  TokenSpan suffix = {};
};

// What the model thinks of the labels after one prompt; natural logs.
struct LabelScores {
  std::string error;                 // "too_long", "nonfinite" or empty; then the rest is set.
  std::vector<double> raw;           // By label: log probability, its surfaces summed.
  std::vector<double> surfaces;      // By LabelTree::surfaces(); -infinity where pruned.
  std::vector<double> first_tokens;  // By LabelTree::surfaces(): of their first token alone.
  std::vector<char> is_bound;        // By label: `raw` is an upper bound, the label was pruned.
  double mass = 0;                   // Sum of exp(raw): did the model want to answer at all?
};

struct ScoreOptions {
  PassLimits limits = {};
  // Prune labels that cannot come within this many nats of the best one. The winner, its score
  // and every label within the band stay exact; the rest become bounds, so there are no
  // probabilities. Only for scores that compete as they are: Normalise::kNone and no bias.
  std::optional<double> prune_band = {};
};

class LabelScorer {
 public:
  // Both must outlive the scorer.
  LabelScorer(model::Runtime& runtime, const LabelTree& tree, ScoreOptions options = {});

  // One result for each prompt, in order. A prompt that does not fit or whose logits are not
  // finite gets an error of its own and harms no other.
  // Errors: kInvalidArgument for a prompt without a suffix, or pruning with a normalisation;
  //         kInternal if the model failed.
  Result<std::vector<LabelScores>> score(std::span<const ScorePrompt> prompts);

  [[nodiscard]] const PassCounters& counters() const { return runner_.counters(); }

 private:
  model::Runtime& runtime_;
  const LabelTree& tree_;
  ScoreOptions options_;
  PassRunner runner_;
};

}  // namespace incipit::decode
