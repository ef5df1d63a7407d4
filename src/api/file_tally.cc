// SPDX-License-Identifier: Apache-2.0
#include "api/file_tally.h"

#include <algorithm>

namespace incipit::api {

std::optional<std::size_t> find_label(const Task& task, std::string_view name) {
  const auto found = std::ranges::find(task.labels, name, &LabelDefinition::name);
  if (found == task.labels.end()) return std::nullopt;
  return static_cast<std::size_t>(found - task.labels.begin());
}

FileTally::FileTally(const Task& task)
    : task_(task), quality_(task.labels.size()), winners_(task.labels.size()) {
  report_.predicted.resize(task.labels.size());
  report_.predicted_uncalibrated.resize(task.labels.size());
}

void FileTally::add_read(const Scored* scored, const Label& plain, bool is_repeat) {
  ++report_.rows;
  if (scored == nullptr) return;
  if (is_repeat) {
    ++report_.duplicates;
    return;
  }
  ++report_.unique;
  winners_.add(plain);
  const TextFacts& facts = scored->facts;
  report_.slow_path += facts.slow_path ? 1 : 0;
  report_.rescored += facts.rescored ? 1 : 0;
  report_.neutralised += facts.neutralised;
  report_.utf8_replaced += facts.utf8_replaced;
  report_.suffix_tokens += facts.tokens;
}

void FileTally::add_written(const Label& label, const Label& plain,
                            const std::optional<std::string>& gold) {
  report_.ok += label.status == Status::kOk ? 1 : 0;
  report_.review += label.status == Status::kReview ? 1 : 0;
  report_.errors += label.status == Status::kError ? 1 : 0;
  if (label.best) ++report_.predicted[*label.best];
  if (plain.best) ++report_.predicted_uncalibrated[*plain.best];
  report_.changed_by_calibration += label.best != plain.best ? 1 : 0;
  if (!gold) return;
  if (const auto index = find_label(task_, *gold)) {
    quality_.add(*index, label);
  } else {
    ++unknown_gold_;
  }
}

FileReport FileTally::finish() const {
  FileReport report = report_;
  if (const auto dominant = winners_.dominant()) {
    report.dominant = dominant->label;
    report.dominant_share = dominant->share;
  }
  const policy::Quality quality = quality_.quality();
  if (quality.rows + unknown_gold_ > 0) {
    report.quality = FileQuality{.rows = quality.rows,
                                 .unscored = quality.unscored,
                                 .unknown_gold = unknown_gold_,
                                 .accuracy = quality.accuracy,
                                 .macro_f1 = quality.macro_f1,
                                 .coverage = quality.coverage,
                                 .accepted_accuracy = quality.accepted_accuracy,
                                 .ece = quality.ece,
                                 .confusion = quality.confusion};
  }
  return report;
}

}  // namespace incipit::api
