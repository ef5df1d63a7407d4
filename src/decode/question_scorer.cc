// SPDX-License-Identifier: Apache-2.0
#include "decode/question_scorer.h"

#include <algorithm>
#include <cmath>

#include "decode/log_softmax.h"
#include "policy/normalisation.h"

namespace incipit::decode {
namespace {

// Segment of the text itself; question q is segment q.
constexpr std::size_t kText = static_cast<std::size_t>(-1);

class QuestionVisitor final : public PassVisitor {
 public:
  QuestionVisitor(std::span<const TokenVector> tails, const AnswerTokens& answers,
                  std::size_t prompts)
      : tails_(tails), answers_(answers), scores_(prompts), wants_room_(prompts) {
    for (const TokenVector& tail : tails)
      last_rows_.push_back(static_cast<std::uint32_t>(tail.size() - 1));
    for (std::size_t i = 0; i < prompts; ++i) reset(i);
  }

  void reset(std::size_t prompt) {
    wants_room_[prompt] = false;
    scores_[prompt] = {};
    scores_[prompt].yes.resize(tails_.size());
    scores_[prompt].no.resize(tails_.size());
  }

  void read(const PassItem& item, const model::Logits& logits, std::size_t first_row) override {
    if (item.segment == kText) return;
    const std::span<const float> values = logits.row(first_row);
    const double total = log_sum_exp(values);
    if (std::isnan(total)) {
      scores_[item.prompt].error = "nonfinite";
      return;
    }
    scores_[item.prompt].yes[item.segment] = sum_of(answers_.yes, values, total);
    scores_[item.prompt].no[item.segment] = sum_of(answers_.no, values, total);
  }

  std::vector<PassItem> next(const PassItem& item, const model::Sequence& sequence) override {
    std::vector<PassItem> questions;
    if (item.segment != kText) return questions;
    for (std::size_t i = 0; i < tails_.size(); ++i) {
      questions.push_back({.prompt = item.prompt,
                           .segment = i,
                           .parent = sequence.id(),
                           .shared = sequence.length(),
                           .tokens = tails_[i],
                           .logits_rows = {&last_rows_[i], 1},
                           .has_more = false});
    }
    return questions;
  }

  void does_not_fit(const PassItem& item) override { wants_room_[item.prompt] = true; }
  [[nodiscard]] bool wants_room(std::size_t prompt) const { return wants_room_[prompt]; }

  void fail(std::size_t prompt, std::string error) { scores_[prompt].error = std::move(error); }

  std::vector<QuestionScores> take() {
    for (QuestionScores& scores : scores_) {
      if (!scores.error.empty()) {
        scores.yes.clear();
        scores.no.clear();
        continue;
      }
      scores.mass = 1;
      for (std::size_t i = 0; i < tails_.size(); ++i) {
        scores.mass = std::min(scores.mass, std::exp(scores.yes[i]) + std::exp(scores.no[i]));
      }
    }
    return std::move(scores_);
  }

 private:
  static double sum_of(TokenSpan tokens, std::span<const float> values, double total) {
    std::vector<double> log_probabilities;
    for (const Token token : tokens) {
      log_probabilities.push_back(values[static_cast<std::size_t>(token)] - total);
    }
    return policy::log_sum_exp(log_probabilities);
  }

  std::span<const TokenVector> tails_;  // The scorer's.
  const AnswerTokens& answers_;
  std::vector<std::uint32_t> last_rows_;
  std::vector<QuestionScores> scores_;
  std::vector<bool> wants_room_;
};

}  // namespace

std::vector<double> QuestionScores::log_odds() const {
  std::vector<double> odds(yes.size());
  std::ranges::transform(yes, no, odds.begin(), std::minus());
  return odds;
}

Result<QuestionScorer> QuestionScorer::create(model::Runtime& runtime,
                                              std::vector<TokenVector> tails, AnswerTokens answers,
                                              PassLimits limits) {
  if (answers.yes.empty() || answers.no.empty()) {
    return failure(ErrorCode::kInvalidArgument, "multi-label: no token for yes or none for no");
  }
  if (std::ranges::find_first_of(answers.yes, answers.no) != answers.yes.end()) {
    return failure(ErrorCode::kInvalidArgument, "multi-label: one token means both yes and no");
  }
  if (std::ranges::any_of(tails, &TokenVector::empty)) {
    return failure(ErrorCode::kInvalidArgument, "multi-label: a question has no tokens");
  }
  return QuestionScorer(runtime, std::move(tails), std::move(answers), limits);
}

Result<std::vector<QuestionScores>> QuestionScorer::score(std::span<const ScorePrompt> prompts) {
  std::size_t longest = 0;
  for (const TokenVector& tail : tails_) longest = std::max(longest, tail.size());
  QuestionVisitor visitor(tails_, answers_, prompts.size());
  std::vector<PassItem> roots;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const ScorePrompt& prompt = prompts[i];
    if (prompt.suffix.empty()) {
      return failure(ErrorCode::kInvalidArgument,
                     "prompt " + std::to_string(i) + ": no tokens of its own");
    }
    if (prompt.shared + prompt.suffix.size() + longest > runtime_->limits().context_tokens) {
      visitor.fail(i, "too_long");
      continue;
    }
    roots.push_back({.prompt = i,
                     .segment = kText,
                     .parent = prompt.base,
                     .shared = prompt.shared,
                     .tokens = prompt.suffix,
                     .logits_rows = {},
                     .has_more = true});
  }
  INCIPIT_TRY_VOID(runner_.run(roots, visitor));
  for (const PassItem& root : roots) {
    if (!visitor.wants_room(root.prompt)) continue;
    visitor.reset(root.prompt);
    INCIPIT_TRY_VOID(runner_.run_singly(root, visitor));
    if (visitor.wants_room(root.prompt)) visitor.fail(root.prompt, "too_long");
  }
  return visitor.take();
}

}  // namespace incipit::decode
