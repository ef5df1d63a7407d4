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
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "decode/prompt_scorer.h"
#include "incipit/result.h"

namespace incipit::decode {

// What a model says for yes and for no, as first tokens: "yes", "Yes", ...
struct AnswerTokens {
  TokenVector yes;
  TokenVector no;
};

class QuestionScorer final : public PromptScorer {
 public:
  // The prompt ends before the tails. Tails and answers must outlive the scorer.
  // Errors: kInvalidArgument for no yes, no no, a token that is both, or an empty tail.
  static Result<std::unique_ptr<QuestionScorer>> create(std::span<const TokenVector> tails,
                                                        const AnswerTokens& answers);

  [[nodiscard]] std::size_t prompt_rows() const override { return 0; }
  [[nodiscard]] std::size_t tokens_deepest() const override;
  void read(std::size_t id, const model::Logits& logits, std::size_t first_row) override;
  [[nodiscard]] std::vector<Branch> below(std::size_t id) const override;
  // `mass` is the least of p(yes) + p(no): did the model answer every question?
  [[nodiscard]] LabelScores take() override;

 private:
  QuestionScorer(std::span<const TokenVector> tails, const AnswerTokens& answers);

  std::span<const TokenVector> tails_;
  const AnswerTokens& answers_;
  LabelScores scores_;
  std::vector<double> no_;  // By question.
};

}  // namespace incipit::decode
