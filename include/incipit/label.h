// SPDX-License-Identifier: Apache-2.0
//
// What comes out for one text: first its scores (Scored), then the decision (Label).
//
// The two are apart because a calibration over a whole file needs every score before it can
// decide on the first row: scores are spooled, decisions are made from them without the model.
// Plain data.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace incipit {

enum class Status { kOk, kReview, kError };

// Facts about the text that both results carry.
struct TextFacts {
  std::size_t tokens = 0;            // Tokens of this text's own part of the prompt.
  std::size_t truncated_tokens = 0;  // Cut away by a too_long policy.
  std::size_t neutralised = 0;       // Special-token surfaces that were kept as plain text.
  std::size_t utf8_replaced = 0;     // Bad byte runs replaced by U+FFFD.
  bool slow_path = false;            // The prefix could not be shared with this text.
  bool rescored = false;             // A near tie on an approximate runtime: scored again, alone.
};

// The scores of one text, in the task's label order.
struct Scored {
  std::string error;           // Empty, or a row error: "empty_text", "too_long", ...
  std::vector<double> scores;  // Natural log; the label's score under the normalisation.
  std::vector<double> raw;     // Natural log; unadjusted log probability of the label.
  double mass = 0;             // Sum of exp(raw): did the model want to answer with a label?
  TextFacts facts;
};

// The decision for one text.
struct Label {
  Status status = Status::kError;
  std::optional<std::size_t> label;   // Index into Task::labels; empty for review and error.
  std::optional<std::size_t> best;    // The top label, also where it was not accepted.
  std::string node;                   // With label paths: the deepest node that was accepted.
  std::vector<std::size_t> chosen;    // Multi-label tasks: every label that was accepted.
  std::string reason;                 // Why review: "low_confidence", "low_margin", ...
  std::string error;                  // Why error.
  std::vector<double> probabilities;  // In label order; sums to 1 (not in multi-label tasks).
  double confidence = 0;
  double margin = 0;  // p1 - p2
  double gap = 0;     // score1 - score2, nats
  double mass = 0;
  bool tie = false;  // The two best scores are equal to the bit; the label declared first won.
  TextFacts facts;
};

}  // namespace incipit
