// SPDX-License-Identifier: Apache-2.0
//
// One job over one file, from its input to its report.
//
//     open -> replay what the journal has -> score the rest, window by window -> finish
//                  \______________ each row: count, decide, write ______________/
//
// With a calibration over the whole file nothing is written on the way; the finish replays the
// whole journal once more, with the bias that is known by then. Every row goes through take(),
// whether its scores come from the model or from the journal, so a resumed job cannot differ
// from an uninterrupted one. The journal is written before the output, so it is never behind.
// Confined to one thread.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/bias.h"
#include "api/file_tally.h"
#include "api/output_file.h"
#include "api/paced_scorer.h"
#include "api/row_source.h"
#include "api/row_window.h"
#include "api/row_writer.h"
#include "api/score_journal.h"
#include "api/seen_texts.h"
#include "api/verifier.h"
#include "incipit/classify_file.h"
#include "policy/calibration.h"

namespace incipit::api {

class FileRun {
 public:
  static Result<FileReport> run(Classifier& classifier, const FileJob& job);

 private:
  FileRun(Classifier& classifier, const FileJob& job, RowSource source);

  Result<void> open();
  Result<void> open_journal(const RowFormat& output);
  Result<void> score_rows();
  Result<void> keep(RowWindow& window);
  Result<void> write_with_batch_bias();
  // Passes every row that the journal has to `take`, beside the row of the input.
  template <typename Take>
  Result<void> replay(RowReader& reader, Take take);
  Result<FileReport> finish();

  // The first pass: counts a row, and writes it unless the bias is known at the end only.
  Result<void> take(const Row& row, const JournalRow& record);
  Result<void> write(const Row& row, const JournalRow& record, const Label& plain);
  // The scores of a row; those of a repeat are read back into `first_`.
  Result<const JournalRow*> scores_of(const JournalRow& record);
  [[nodiscard]] Label decide(const Row& row, const JournalRow* scores,
                             std::span<const double> bias) const;

  Result<void> flush_output();
  [[nodiscard]] bool is_cancelled() const {
    return job_.cancelled != nullptr && job_.cancelled->load();
  }
  Result<void> check_cancelled() const;
  // `texts`: scored, but not yet written.
  void report_progress(std::size_t texts);
  [[nodiscard]] bool bias_comes_last() const { return job_.calibration == Calibration::kBatch; }

  Classifier& classifier_;
  PacedScorer scorer_;
  const FileJob& job_;
  RowSource source_;
  bool is_stream_;
  bool is_written_ = false;  // The output has its name.
  std::unique_ptr<RowReader> reader_;
  std::optional<ScoreJournal> journal_;
  std::optional<OutputFile> output_;
  std::unique_ptr<RowWriter> writer_;
  SeenTexts seen_;
  FileTally tally_;
  Verifier verifier_;
  policy::BatchBias batch_bias_;
  std::vector<double> bias_;
  JournalRow first_;
  std::string pending_;  // Lines that are not yet given to output_.
  Progress progress_;
};

}  // namespace incipit::api
