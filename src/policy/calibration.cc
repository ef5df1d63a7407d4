// SPDX-License-Identifier: Apache-2.0
#include "policy/calibration.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "base/check.h"
#include "policy/label_decision.h"
#include "policy/normalisation.h"
#include "policy/quality.h"

namespace incipit::policy {
namespace {

constexpr int kFixedBits = 96;
constexpr std::size_t kRowsMin = 10;
// Two-sided 95 % of a normal distribution.
constexpr double kZ = 1.959963984540054;

// Every second row, from `first` on.
template <typename T>
std::vector<T> half(std::span<const T> rows, std::size_t first) {
  std::vector<T> chosen;
  for (std::size_t i = first; i < rows.size(); i += 2) chosen.push_back(rows[i]);
  return chosen;
}

Result<void> check_rows(std::size_t rows) {
  if (rows >= kRowsMin) return {};
  return failure(ErrorCode::kInvalidArgument, "calibration: " + std::to_string(rows) +
                                                  " labelled rows are too few, give at least " +
                                                  std::to_string(kRowsMin));
}

// The negative log likelihood is convex in 1/temperature, so it has one minimum and a golden
// section search finds it.
double best_temperature(std::span<const LabelledScores> rows) {
  constexpr double kGolden = 0.6180339887498949;
  const auto loss = [&](double log_temperature) {
    return mean_nll(rows, std::exp(log_temperature));
  };
  double low = std::log(0.05);
  double high = std::log(20.0);
  double left = high - kGolden * (high - low);
  double right = low + kGolden * (high - low);
  double loss_left = loss(left);
  double loss_right = loss(right);
  while (high - low > 1e-6) {
    if (loss_left <= loss_right) {
      high = right;
      right = left;
      loss_right = loss_left;
      left = high - kGolden * (high - low);
      loss_left = loss(left);
    } else {
      low = left;
      left = right;
      loss_left = loss_right;
      right = low + kGolden * (high - low);
      loss_right = loss(right);
    }
  }
  return std::exp((low + high) / 2);
}

double ece_at(std::span<const LabelledScores> rows, double temperature) {
  CalibrationError error;
  for (const LabelledScores& row : rows) {
    const std::vector<double> probabilities = softmax(row.scores, temperature);
    const auto top = std::ranges::max_element(probabilities);
    error.add(*top, static_cast<std::size_t>(top - probabilities.begin()) == row.gold);
  }
  return error.value();
}

struct Accepted {
  std::uint64_t rows = 0;
  std::uint64_t right = 0;
  [[nodiscard]] double accuracy() const {
    return rows == 0 ? 0 : static_cast<double>(right) / static_cast<double>(rows);
  }
  [[nodiscard]] double coverage(std::size_t total) const {
    return static_cast<double>(rows) / static_cast<double>(total);
  }
};

Accepted accept(std::span<const ConfidentRow> rows, double threshold) {
  Accepted accepted;
  for (const ConfidentRow& row : rows) {
    if (row.confidence < threshold) continue;
    ++accepted.rows;
    accepted.right += row.is_right ? 1 : 0;
  }
  return accepted;
}

// Walks from the most confident row down; the last place where the target is met is the answer.
std::optional<double> least_threshold(std::vector<ConfidentRow> rows, double target) {
  std::ranges::sort(rows, std::greater(), &ConfidentRow::confidence);
  std::optional<double> threshold;
  Accepted accepted;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ++accepted.rows;
    accepted.right += rows[i].is_right ? 1 : 0;
    const bool is_last_of_its_kind =
        i + 1 == rows.size() || rows[i + 1].confidence != rows[i].confidence;
    if (is_last_of_its_kind && accepted.accuracy() >= target) threshold = rows[i].confidence;
  }
  return threshold;
}

std::string percent(double share) {
  std::string text = std::to_string(std::round(share * 1000) / 10);
  return text.substr(0, text.find('.') + 2) + " %";
}

}  // namespace

Result<std::vector<double>> content_free_bias(std::span<const std::vector<double>> scores) {
  if (scores.empty() || scores.front().empty()) {
    return failure(ErrorCode::kInvalidArgument, "content-free calibration: no scored texts");
  }
  std::vector<double> mean(scores.front().size(), 0.0);
  for (const std::vector<double>& text : scores) {
    if (text.size() != mean.size()) {
      return failure(ErrorCode::kInvalidArgument,
                     "content-free calibration: the texts were scored with different labels");
    }
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += text[i];
  }
  for (double& value : mean) value /= static_cast<double>(scores.size());
  return mean;
}

Result<std::vector<double>> prior_bias(std::span<const double> priors) {
  const double sum = std::accumulate(priors.begin(), priors.end(), 0.0);
  std::vector<double> bias;
  for (const double prior : priors) {
    if (!(prior > 0) || !std::isfinite(sum)) {
      return failure(ErrorCode::kInvalidArgument, "priors: " + std::to_string(prior) +
                                                      " is not a positive number; a label that "
                                                      "never occurs should not be declared");
    }
    bias.push_back(-std::log(prior / sum));
  }
  return bias;
}

void BatchBias::add(std::span<const double> scores) {
  INCIPIT_CHECK(scores.size() == sums_.size(), "one score for each label");
  const std::vector<double> probabilities = softmax(scores, 1);
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const auto units = static_cast<Fixed>(std::ldexp(probabilities[i], kFixedBits));
    sums_[i] += std::max<Fixed>(units, 1);
  }
  ++texts_;
}

std::vector<double> BatchBias::bias() const {
  std::vector<double> bias(sums_.size(), 0.0);
  if (texts_ == 0) return bias;
  for (std::size_t i = 0; i < bias.size(); ++i) {
    bias[i] = std::log(std::ldexp(static_cast<double>(sums_[i]), -kFixedBits) /
                       static_cast<double>(texts_));
  }
  return bias;
}

double mean_nll(std::span<const LabelledScores> rows, double temperature) {
  double sum = 0;
  for (const LabelledScores& row : rows) {
    std::vector<double> scaled = row.scores;
    for (double& score : scaled) score /= temperature;
    sum += log_sum_exp(scaled) - scaled[row.gold];
  }
  return sum / static_cast<double>(rows.size());
}

Result<TemperatureFit> fit_temperature(std::span<const LabelledScores> rows) {
  INCIPIT_TRY_VOID(check_rows(rows.size()));
  const std::vector<LabelledScores> held = half(rows, 1);
  TemperatureFit fit;
  fit.fitted = best_temperature(half(rows, 0));
  fit.nll_before = mean_nll(held, 1);
  fit.nll_after = mean_nll(held, fit.fitted);
  fit.ece_before = ece_at(held, 1);
  fit.ece_after = ece_at(held, fit.fitted);
  fit.is_kept = fit.nll_after < fit.nll_before;
  if (fit.is_kept) fit.temperature = fit.fitted;
  return fit;
}

Result<ThresholdFit> fit_threshold(std::span<const ConfidentRow> rows, double target) {
  if (!(target > 0 && target <= 1)) {
    return failure(ErrorCode::kInvalidArgument,
                   "--target-accuracy: " + std::to_string(target) + " is outside (0, 1]");
  }
  INCIPIT_TRY_VOID(check_rows(rows.size()));
  const std::vector<ConfidentRow> first = half(rows, 0);
  const std::vector<ConfidentRow> held = half(rows, 1);
  const auto threshold = least_threshold(first, target);
  if (!threshold) {
    return failure(ErrorCode::kInvalidArgument,
                   "--target-accuracy: no confidence threshold reaches " + percent(target) +
                       " on these rows; lower the target or improve the task");
  }
  const Accepted fitted = accept(first, *threshold);
  const Accepted proof = accept(held, *threshold);
  if (proof.accuracy() < target) {
    return failure(ErrorCode::kInvalidArgument,
                   "--target-accuracy: a threshold of " + std::to_string(*threshold) + " reaches " +
                       percent(fitted.accuracy()) + " on one half of the rows but only " +
                       percent(proof.accuracy()) + " of " + std::to_string(proof.rows) +
                       " accepted rows on the other; give more labelled rows or lower the target");
  }
  return ThresholdFit{.threshold = *threshold,
                      .fit_accuracy = fitted.accuracy(),
                      .fit_coverage = fitted.coverage(first.size()),
                      .held_accuracy = proof.accuracy(),
                      .held_coverage = proof.coverage(held.size()),
                      .held_wilson = wilson_lower(proof.right, proof.rows)};
}

double wilson_lower(std::uint64_t hits, std::uint64_t trials) {
  if (trials == 0) return 0;
  const auto n = static_cast<double>(trials);
  const double share = static_cast<double>(hits) / n;
  const double centre = share + kZ * kZ / (2 * n);
  const double spread = kZ * std::sqrt(share * (1 - share) / n + kZ * kZ / (4 * n * n));
  return std::max(0.0, (centre - spread) / (1 + kZ * kZ / n));
}

}  // namespace incipit::policy
