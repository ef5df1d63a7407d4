// SPDX-License-Identifier: Apache-2.0
//
// What can be corrected about scores, and how far they can be trusted. All of it is off unless
// asked for, and none of it runs the model.
//
// A bias is subtracted from the scores label by label:
//
//     content-free   the mean log probability of each label after texts that say nothing
//     batch          the log of its mean probability over all texts of a file
//     prior          less the log of a frequency that the user knows
//
// Batch bias assumes that the file holds every label about equally often: where one dominates it
// pushes texts out of it. A temperature and a confidence threshold are fitted on one half of the
// labelled rows (the even ones) and must prove themselves on the other.
// Pure functions and a confined accumulator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "incipit/result.h"

namespace incipit::policy {

// The mean over texts of the scores of each label.
// Errors: kInvalidArgument for no texts or unequal numbers of labels.
Result<std::vector<double>> content_free_bias(std::span<const std::vector<double>> scores);

// -log of each prior, which are scaled to sum to 1.
// Errors: kInvalidArgument for a prior that is not positive.
Result<std::vector<double>> prior_bias(std::span<const double> priors);

// The log of the mean label probability over any number of texts, in constant memory. The sums
// are integers, so the bias has the same bits in any order of the texts.
class BatchBias {
 public:
  explicit BatchBias(std::size_t labels) : sums_(labels) {}

  void add(std::span<const double> scores);
  // Never below -67 nats, also for a label that no text wanted. All 0 before the first text.
  [[nodiscard]] std::vector<double> bias() const;
  [[nodiscard]] std::uint64_t texts() const { return texts_; }

 private:
  // Probabilities in units of 2^-96: 2^31 texts fit, and 1e-20 keeps nine digits.
  __extension__ using Fixed = unsigned __int128;

  std::vector<Fixed> sums_;
  std::uint64_t texts_ = 0;
};

// A scored text whose right label is known.
struct LabelledScores {
  std::vector<double> scores;  // Bias subtracted.
  std::size_t gold = 0;
};

struct TemperatureFit {
  double temperature = 1;  // 1 where `is_kept` is false.
  bool is_kept = false;    // The held-out half improved.
  double fitted = 1;       // What the first half asked for.
  // On the held-out half, at temperature 1 and at `fitted`.
  double nll_before = 0;
  double nll_after = 0;
  double ece_before = 0;
  double ece_after = 0;
};

// Mean negative log likelihood of the right labels.
[[nodiscard]] double mean_nll(std::span<const LabelledScores> rows, double temperature);

// Errors: kInvalidArgument for fewer than 10 rows.
Result<TemperatureFit> fit_temperature(std::span<const LabelledScores> rows);

struct ConfidentRow {
  double confidence = 0;
  bool is_right = false;
};

struct ThresholdFit {
  double threshold = 0;
  double fit_accuracy = 0;   // Of the rows that reach the threshold, on the half it came from.
  double fit_coverage = 0;   // Their share.
  double held_accuracy = 0;  // The same on the other half.
  double held_coverage = 0;
  double held_wilson = 0;  // Lower end of the 95 % Wilson interval of held_accuracy.
};

// The least confidence from which on the accuracy is at least `target`.
// Errors: kInvalidArgument for a target outside (0, 1], for fewer than 10 rows, and where no
//         threshold reaches the target or the one found does not hold on the other half.
Result<ThresholdFit> fit_threshold(std::span<const ConfidentRow> rows, double target);

// Lower end of the 95 % Wilson score interval of a share; 0 of nothing.
[[nodiscard]] double wilson_lower(std::uint64_t hits, std::uint64_t trials);

}  // namespace incipit::policy
