// SPDX-License-Identifier: Apache-2.0
//
// The rows between reading and writing: enough of them to fill one call to the classifier.
//
// A window ends when it has the texts that the classifier takes at a time, or when it holds many
// rows or bytes; so a file of repeats, or of long texts, is written as steadily as any other.
// Confined to one thread.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "api/paced_scorer.h"
#include "api/row_reader.h"
#include "api/score_journal.h"
#include "api/seen_texts.h"
#include "incipit/engine.h"

namespace incipit::api {

struct WindowRow {
  Row row;
  JournalRow record;                   // Scores are filled in by score().
  std::optional<std::size_t> repeats;  // Index of the row in this window with the same text.
};

class RowWindow {
 public:
  static constexpr std::size_t kBytesMax = std::size_t{64} << 20U;
  static constexpr std::size_t kRowsPerText = 16;

  // Reads the next rows; no rows at the end of the file. `seen` finds texts of earlier windows;
  // null: every row is scored.
  Result<void> fill(RowReader& reader, const SeenTexts* seen, std::size_t texts_max);
  // Scores the texts that occur here for the first time. Where `go_on` ends that early, only the
  // rows before the first text without scores stay.
  Result<void> score(PacedScorer& scorer, const PacedScorer::GoOn& go_on);

  [[nodiscard]] std::vector<WindowRow>& rows() { return rows_; }
  [[nodiscard]] std::size_t text_count() const { return texts_.size(); }

 private:
  std::vector<WindowRow> rows_;
  std::vector<std::size_t> texts_;  // Indices of the rows to score.
};

}  // namespace incipit::api
