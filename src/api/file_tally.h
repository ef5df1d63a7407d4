// SPDX-License-Identifier: Apache-2.0
//
// Counts over the rows of a file, in constant memory. Confined to one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "incipit/classify_file.h"
#include "incipit/engine.h"
#include "policy/quality.h"

namespace incipit::api {

class FileTally {
 public:
  explicit FileTally(const Task& task);

  // A row as it was read. `scored` is null for one that could not be read; `plain` is its label
  // without a calibration.
  void add_read(const Scored* scored, const Label& plain, bool is_repeat);
  // A row as it is written.
  void add_written(const Label& label, const Label& plain, const std::optional<std::string>& gold);

  [[nodiscard]] FileReport& report() { return report_; }
  // The report with everything that is known at the end.
  [[nodiscard]] FileReport finish() const;

 private:
  const Task& task_;  // Outlives the tally: the classifier keeps it.
  FileReport report_;
  policy::QualityMeter quality_;
  policy::WinnerCounts winners_;  // Among distinct texts.
  std::uint64_t unknown_gold_ = 0;
};

// The index of a label by its name.
[[nodiscard]] std::optional<std::size_t> find_label(const Task& task, std::string_view name);

}  // namespace incipit::api
