// SPDX-License-Identifier: Apache-2.0
#include "policy/quality.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace incipit::policy {
namespace {

double share_of(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

void CalibrationError::add(double confidence, bool is_right) {
  const double place = std::clamp(confidence, 0.0, 1.0) * static_cast<double>(bins_.size());
  Bin& bin = bins_[std::min(static_cast<std::size_t>(place), bins_.size() - 1)];
  ++bin.rows;
  bin.right += is_right ? 1 : 0;
  bin.confidence += confidence;
}

double CalibrationError::value() const {
  double distance = 0;
  std::uint64_t rows = 0;
  for (const Bin& bin : bins_) {
    distance += std::abs(static_cast<double>(bin.right) - bin.confidence);
    rows += bin.rows;
  }
  return rows == 0 ? 0 : distance / static_cast<double>(rows);
}

QualityMeter::QualityMeter(std::size_t labels)
    : confusion_(labels, std::vector<std::uint64_t>(labels)), unscored_(labels) {}

void QualityMeter::add(std::size_t gold, const Label& label) {
  INCIPIT_CHECK(gold < confusion_.size(), "a right label that the task does not declare");
  ++rows_;
  if (!label.best) {
    ++unscored_[gold];
    return;
  }
  const bool is_right = *label.best == gold;
  ++confusion_[gold][*label.best];
  right_ += is_right ? 1 : 0;
  if (label.status == Status::kOk) {
    ++accepted_;
    accepted_right_ += is_right ? 1 : 0;
  }
  error_.add(label.confidence, is_right);
}

// F1 = 2 hits / (times it was right + times it was chosen).
double QualityMeter::macro_f1() const {
  double sum = 0;
  std::size_t occurring = 0;
  for (std::size_t label = 0; label < confusion_.size(); ++label) {
    std::uint64_t places = unscored_[label];
    for (std::size_t other = 0; other < confusion_.size(); ++other) {
      places += confusion_[label][other] + confusion_[other][label];
    }
    if (places == 0) continue;
    ++occurring;
    sum += 2 * share_of(confusion_[label][label], places);
  }
  return occurring == 0 ? 0 : sum / static_cast<double>(occurring);
}

Quality QualityMeter::quality() const {
  return {.rows = rows_,
          .unscored = std::accumulate(unscored_.begin(), unscored_.end(), std::uint64_t{0}),
          .accuracy = share_of(right_, rows_),
          .macro_f1 = macro_f1(),
          .coverage = share_of(accepted_, rows_),
          .accepted_accuracy = share_of(accepted_right_, accepted_),
          .ece = error_.value(),
          .confusion = confusion_};
}

void WinnerCounts::add(const Label& label) {
  if (label.best) ++counts_[*label.best];
}

std::optional<WinnerCounts::Dominant> WinnerCounts::dominant() const {
  constexpr std::uint64_t kTextsMin = 8;
  constexpr double kShare = 0.9;
  const auto texts = std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0});
  if (counts_.size() < 2 || texts < kTextsMin) return {};
  const auto top = std::ranges::max_element(counts_);
  const double share = share_of(*top, texts);
  if (share <= kShare) return {};
  return Dominant{.label = static_cast<std::size_t>(top - counts_.begin()), .share = share};
}

void OrderFlips::add(std::span<const std::optional<std::size_t>> labels) {
  ++texts_;
  const bool is_steady =
      std::ranges::adjacent_find(labels, std::ranges::not_equal_to()) == labels.end();
  flipped_ += is_steady ? 0 : 1;
}

double OrderFlips::share() const { return share_of(flipped_, texts_); }

}  // namespace incipit::policy
