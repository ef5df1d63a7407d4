// SPDX-License-Identifier: Apache-2.0
#include "decode/question_scorer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "decode/log_softmax.h"
#include "policy/normalisation.h"

namespace incipit::decode {
namespace {

double sum_of(TokenSpan tokens, std::span<const float> values, double total) {
  std::vector<double> log_probabilities;
  for (const Token token : tokens)
    log_probabilities.push_back(values[static_cast<std::size_t>(token)] - total);
  return policy::log_sum_exp(log_probabilities);
}

}  // namespace

Result<std::unique_ptr<QuestionScorer>> QuestionScorer::create(std::span<const TokenVector> tails,
                                                               const AnswerTokens& answers) {
  if (answers.yes.empty() || answers.no.empty()) {
    return failure(ErrorCode::kInvalidArgument, "multi-label: no token for yes or none for no");
  }
  if (std::ranges::find_first_of(answers.yes, answers.no) != answers.yes.end()) {
    return failure(ErrorCode::kInvalidArgument, "multi-label: one token means both yes and no");
  }
  if (std::ranges::any_of(tails, &TokenVector::empty)) {
    return failure(ErrorCode::kInvalidArgument, "multi-label: a question has no tokens");
  }
  return std::unique_ptr<QuestionScorer>(new QuestionScorer(tails, answers));
}

QuestionScorer::QuestionScorer(std::span<const TokenVector> tails, const AnswerTokens& answers)
    : tails_(tails), answers_(answers), no_(tails.size()) {
  scores_.raw.resize(tails.size());
}

std::size_t QuestionScorer::tokens_deepest() const {
  std::size_t longest = 0;
  for (const TokenVector& tail : tails_) longest = std::max(longest, tail.size());
  return longest;
}

// Question q is branch q + 1.
void QuestionScorer::read(std::size_t id, const model::Logits& logits, std::size_t first_row) {
  if (id == kPrompt) return;
  const std::span<const float> values = logits.row(first_row);
  const double total = log_sum_exp(values);
  if (std::isnan(total)) {
    scores_.error = "nonfinite";
    return;
  }
  scores_.raw[id - 1] = sum_of(answers_.yes, values, total);
  no_[id - 1] = sum_of(answers_.no, values, total);
}

std::vector<Branch> QuestionScorer::below(std::size_t id) const {
  std::vector<Branch> questions;
  for (std::size_t i = 0; id == kPrompt && i < tails_.size(); ++i)
    questions.push_back({.id = i + 1, .tokens = tails_[i]});
  return questions;
}

LabelScores QuestionScorer::take() {
  if (!scores_.error.empty()) return {.error = std::move(scores_.error)};
  scores_.mass = 1;
  for (std::size_t i = 0; i < tails_.size(); ++i) {
    scores_.surfaces.push_back(scores_.raw[i] - no_[i]);
    scores_.mass = std::min(scores_.mass, std::exp(scores_.raw[i]) + std::exp(no_[i]));
  }
  return std::move(scores_);
}

}  // namespace incipit::decode
