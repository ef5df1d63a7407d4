// SPDX-License-Identifier: Apache-2.0
//
// From scores to a label, or to "a person should look".
//
//     scores - bias --/ temperature--> softmax --> confidence, margin, gap --> ok | review
//
// One softmax over the labels, no more and no less. The label declared first wins an exact tie,
// and the result says that it was one. A text never gets a label by default: what cannot be
// scored is an error, what fails a threshold is under review and keeps its best label as a hint.
//
// In a multi-label task a score is log p(yes) - log p(no) of the label's own question, so a
// "probability" is that of yes, the labels do not sum to 1, and none may be accepted. Confidence,
// margin and gap are those of the least certain question.
// Pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "incipit/label.h"
#include "incipit/result.h"
#include "incipit/task.h"
#include "policy/label_paths.h"

namespace incipit::policy {

// exp(score / temperature) over their sum. Sums to 1 within 1e-9 for any finite scores.
[[nodiscard]] std::vector<double> softmax(std::span<const double> scores, double temperature);

class LabelDecision {
 public:
  // Errors: kInvalidArgument names the option that is out of range or the none_label that is
  // no label.
  static Result<LabelDecision> create(const Task& task);

  // `bias` is subtracted from the scores, label by label; empty means none.
  [[nodiscard]] Label decide(const Scored& scored, std::span<const double> bias) const;

 private:
  explicit LabelDecision(const Task& task);
  void choose_one(Label& label, std::span<const double> scores) const;
  void choose_many(Label& label, std::span<const double> scores) const;
  void choose_node(Label& label) const;
  [[nodiscard]] std::string review_reason(const Label& label) const;

  TaskOptions options_;
  std::size_t labels_ = 0;
  std::optional<std::size_t> none_label_;
  LabelPaths paths_;
};

// Where the runtime is exact the answer is always no: scores depend on the text alone, so there is
// nothing to look at twice. Where it is not, a gap this small could turn with the next batch:
// the caller scores the text again, alone. `band` is in nats, at least twice the drift.
[[nodiscard]] bool needs_rescore(double gap, double band);

// The same for everything that the label stands on: the gap, and each threshold that is set.
[[nodiscard]] bool needs_rescore(const Label& label, const TaskOptions& options, double band);

}  // namespace incipit::policy
