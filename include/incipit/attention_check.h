// SPDX-License-Identifier: Apache-2.0
//
// The attention check: does a prompt look at its cached prefix as if the cells were its own?
//
// Some heads look, in each row, for earlier cells of the row's own token. They find them where the
// cells are those of the prefix's tokens, and look elsewhere where a fault or a forger put other
// cells in their place. A checksum proves bytes; this looks at what they mean.
//
// It is a doubt, no proof: a hit whose heads find less than the threshold is computed again, and
// its entry is dropped if the cells differ. So a check can cost time, never an answer. Which heads,
// and what threshold: Generator::fit_attention_check(), or incipit bench attention.
#pragma once

#include <compare>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "incipit/result.h"
#include "incipit/types.h"

namespace incipit {

// One attention head of a model, both counted from 0.
struct AttentionHead {
  std::size_t layer = 0;
  std::size_t head = 0;

  auto operator<=>(const AttentionHead&) const = default;
};

struct AttentionCheck {
  std::vector<AttentionHead> heads;  // At least one.
  // Weight that the heads must find on average, beyond what chance gives: above 0, below 1.
  double threshold = 0;

  bool operator==(const AttentionCheck&) const = default;
};

// "2.4,11.7:0.183": LAYER.HEAD,...:THRESHOLD.
[[nodiscard]] std::string to_string(const AttentionCheck& check);
// Errors: kInvalidArgument says what is wrong in `text`.
Result<AttentionCheck> parse_attention_check(std::string_view text);

// A prompt whose first `cut` tokens are the prefix, and prefixes as long whose cells are put in
// the place of its own.
struct AttentionTrial {
  TokenVector prompt;
  std::size_t cut = 0;
  std::vector<TokenVector> wrong;
};

struct AttentionFitOptions {
  std::size_t heads = 8;       // How many to name.
  double false_alarms = 0.02;  // Share of right prefixes that may be suspected.
  // Called with how many trials are done, on the model's thread. False ends the fit.
  std::function<bool(std::size_t)> on_trial{};
};

// How well a number tells right prefixes from wrong ones, on trials that nothing was fitted to.
struct AttentionQuality {
  // Chance that a right prefix has the larger number (area under the ROC curve); 0.5 is a coin.
  double auc = 0;
  double right_least = 0;
  double right_median = 0;
  double wrong_median = 0;
  double wrong_most = 0;
};

struct AttentionFit {
  AttentionCheck check;
  AttentionQuality found;  // What the check goes by.
  AttentionQuality most;   // The largest weight of any head, the sink left out: for comparison.
  std::size_t right = 0;   // Prefixes that were tried with both numbers,
  std::size_t wrong = 0;
  std::size_t suspected_right = 0;  // and of these, how many the check suspects.
  std::size_t suspected_wrong = 0;
};

}  // namespace incipit
