// SPDX-License-Identifier: Apache-2.0
//
// What `incipit bench classify` measured, as text, as JSON and as an HTML page.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "incipit/bench_run.h"
#include "incipit/engine.h"
#include "incipit/html_report.h"
#include "incipit/result.h"

namespace incipit::app {

struct BenchResult {
  std::size_t rows = 0;
  double suffix_tokens = 0;  // Mean over the rows.
  ClassifierReport facts;    // Of the precision that was measured last.
  std::vector<std::pair<std::string, EqualityCheck>> checks;  // By precision.
  std::vector<ModeTime> modes;
  std::vector<BatchPoint> batches;
  std::vector<SharePoint> shares;
};

[[nodiscard]] std::string bench_text(const BenchResult& result);
[[nodiscard]] std::string bench_json(const BenchResult& result);
// Errors: kInvalidArgument or kResourceExhausted if `path` cannot be written.
Result<void> write_bench_html(const BenchResult& result, const std::string& command,
                              const std::string& path);

}  // namespace incipit::app
