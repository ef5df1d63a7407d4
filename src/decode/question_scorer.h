// SPDX-License-Identifier: Apache-2.0
//
// Multi-label: a yes/no question about each label, asked of one text.
//
// The questions of a text differ only in their tail. The text's cells are computed once, behind
// the shared prefix; each question forks from them and brings its tail. So K labels cost one text
// and K tails, and the tails of many texts go through the model in one pass.
//
// The answers are no probabilities over labels: every question stands alone, and all of them may
// be answered with no.
// Confined to one thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "decode/label_scorer.h"
#include "decode/pass_runner.h"
#include "incipit/result.h"
#include "model/runtime.h"

namespace incipit::decode {

// What a model says for yes and for no, as first tokens: "yes", "Yes", ...
struct AnswerTokens {
  TokenVector yes;
  TokenVector no;
};

// Of one text, by question; natural logs of the probabilities over the whole vocabulary.
struct QuestionScores {
  std::string error;  // "too_long", "nonfinite" or empty; then the rest is set.
  std::vector<double> yes;
  std::vector<double> no;
  double mass = 0;  // The least of p(yes) + p(no): did the model answer every question?

  // log p(yes) - log p(no) by question: the scores that policy::LabelDecision takes.
  [[nodiscard]] std::vector<double> log_odds() const;
};

class QuestionScorer {
 public:
  // Errors: kInvalidArgument for no yes, no no, a token that is both, or an empty tail.
  static Result<QuestionScorer> create(model::Runtime& runtime, std::vector<TokenVector> tails,
                                       AnswerTokens answers, PassLimits limits = {});

  // `prompts` end before the tail. Results, order and errors as LabelScorer::score().
  Result<std::vector<QuestionScores>> score(std::span<const ScorePrompt> prompts);

  [[nodiscard]] const PassCounters& counters() const { return runner_.counters(); }

 private:
  QuestionScorer(model::Runtime& runtime, std::vector<TokenVector> tails, AnswerTokens answers,
                 PassLimits limits)
      : runtime_(&runtime),
        tails_(std::move(tails)),
        answers_(std::move(answers)),
        runner_(runtime, limits) {}

  model::Runtime* runtime_;  // Borrowed; never null.
  std::vector<TokenVector> tails_;
  AnswerTokens answers_;
  PassRunner runner_;
};

}  // namespace incipit::decode
