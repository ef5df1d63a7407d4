// SPDX-License-Identifier: Apache-2.0
#include "api/file_run.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <utility>

#include "api/job_facts.h"
#include "base/counted.h"
#include "base/elapsed.h"

namespace incipit::api {
namespace {

// Enough to make system calls rare, little enough to keep a follower of the file up to date.
constexpr std::size_t kPendingMax = std::size_t{1} << 16U;
constexpr std::uint64_t kRowsBetweenLooks = 1024;  // While nothing is scored.

Result<void> check_paths(const FileJob& job) {
  if (OutputFile::is_same_file(job.input, job.output)) {
    return failure(ErrorCode::kInvalidArgument,
                   job.output + " is the input file; give -o another name");
  }
  if (job.resume && OutputFile::is_stream(job.output)) {
    return failure(ErrorCode::kInvalidArgument, "--resume continues a file: name it with -o");
  }
  if (job.calibration == Calibration::kPrior && job.prior_file.empty()) {
    return failure(ErrorCode::kInvalidArgument, "--calibrate prior:FILE needs the file");
  }
  return {};
}

Result<RowFormat> output_format(const FileJob& job, const RowFormat& input) {
  if (job.output_format) return *job.output_format;
  if (job.output == "-" || OutputFile::is_stream(job.output)) return input;
  auto by_name = format_of_path(job.output);
  if (!by_name) return input;
  const bool both_csv = by_name->kind == RowFormat::Kind::kCsv && input.kind == by_name->kind;
  return both_csv ? input : *by_name;
}

}  // namespace

FileRun::FileRun(Classifier& classifier, const FileJob& job, RowSource source)
    : classifier_(classifier),
      scorer_(classifier),
      job_(job),
      source_(std::move(source)),
      is_stream_(OutputFile::is_stream(job.output)),
      tally_(classifier.task()),
      verifier_(classifier, job.verify, job.verify_tolerance, [this] { return check_cancelled(); }),
      batch_bias_(classifier.task().labels.size()) {}

Result<FileReport> FileRun::run(Classifier& classifier, const FileJob& job) {
  INCIPIT_TRY_VOID(check_paths(job));
  INCIPIT_TRY(RowSource source, RowSource::open(job.input, job.input_format, job.fields));
  FileRun run(classifier, job, std::move(source));
  INCIPIT_TRY_VOID(run.open());
  INCIPIT_TRY_VOID(run.replay(*run.reader_, [&run](const Row& row, const JournalRow& record) {
    if (record.kind == JournalRow::Kind::kScored && run.job_.dedupe) {
      run.seen_.insert(record.key, run.journal_->place());
    }
    ++run.tally_.report().resumed;
    return run.take(row, record);
  }));
  INCIPIT_TRY_VOID(run.journal_->cut());
  INCIPIT_TRY_VOID(run.score_rows());
  if (run.bias_comes_last()) INCIPIT_TRY_VOID(run.write_with_batch_bias());
  return run.finish();
}

Result<void> FileRun::open() {
  if (bias_comes_last()) {
    INCIPIT_TRY_VOID(source_.make_repeatable(OutputFile::directory_of(job_.output)));
  }
  if (job_.on_progress) {
    INCIPIT_TRY(const auto rows, source_.count_rows());
    progress_.rows_in_all = rows.value_or(0);
  }
  INCIPIT_TRY(reader_, source_.rows());
  const RowFormat input = source_.format();
  INCIPIT_TRY(const RowFormat output, output_format(job_, input));
  const bool input_is_csv = input.kind == RowFormat::Kind::kCsv;
  if (job_.fields.keep && !input_is_csv && output.kind == RowFormat::Kind::kCsv) {
    return failure(ErrorCode::kInvalidArgument,
                   "--keep: the fields of JSONL rows differ from row to row and make no CSV "
                   "columns; write JSONL");
  }
  INCIPIT_TRY(bias_, known_bias(classifier_, job_.calibration, job_.prior_file));
  INCIPIT_TRY_VOID(open_journal(output));
  INCIPIT_TRY(output_, OutputFile::open(job_.output));
  writer_ = RowWriter::make(classifier_.task(), {.format = output,
                                                 .probabilities = job_.probabilities,
                                                 .csv_safe = job_.csv_safe,
                                                 .input_is_csv = input_is_csv,
                                                 .columns = reader_->columns()});
  writer_->write_header(pending_);
  return {};
}

Result<void> FileRun::open_journal(const RowFormat& output) {
  const JournalFacts facts = job_facts(classifier_, job_, source_.format(), output);
  if (is_stream_) {
    INCIPIT_TRY(File file, File::temporary(OutputFile::directory_of(job_.output)));
    INCIPIT_TRY(journal_, ScoreJournal::start(std::move(file), facts));
    return {};
  }
  const std::string path = OutputFile::state_path(job_.output);
  const bool has_state = std::filesystem::exists(path);
  if (!has_state && job_.resume && job_.on_notice) {
    job_.on_notice("there is no " + path + " to resume; starting with the first row");
  }
  INCIPIT_TRY(File file, File::open_update(path));
  if (has_state && job_.resume) {
    INCIPIT_TRY(journal_, ScoreJournal::resume(std::move(file), facts));
    return {};
  }
  if (has_state && job_.on_notice) {
    job_.on_notice(path + " of an interrupted run is replaced; --resume would have continued it");
  }
  INCIPIT_TRY_VOID(file.truncate(0));
  INCIPIT_TRY(journal_, ScoreJournal::start(std::move(file), facts));
  return {};
}

template <typename Take>
Result<void> FileRun::replay(RowReader& reader, Take take) {
  JournalRow record;
  for (std::uint64_t count = 0;; ++count) {
    if (count % kRowsBetweenLooks == 0) INCIPIT_TRY_VOID(check_cancelled());
    INCIPIT_TRY(const bool has_record, journal_->next(record));
    if (!has_record) return {};
    Row row;
    INCIPIT_TRY(const bool has_row, reader.next(row));
    const bool is_unreadable = record.kind == JournalRow::Kind::kUnreadable;
    const TextKey key = text_key(row.error.empty() ? row.text : row.error);
    if (!has_row || is_unreadable == row.error.empty() || key != record.key) {
      return failure(ErrorCode::kInvalidArgument,
                     job_.input + ": row " + std::to_string(count + 1) +
                         " is not the row that was scored before; the input has changed, so run "
                         "without --resume to start over");
    }
    INCIPIT_TRY_VOID(take(row, record));
  }
}

Result<void> FileRun::score_rows() {
  RowWindow window;
  while (true) {
    INCIPIT_TRY_VOID(check_cancelled());
    INCIPIT_TRY_VOID(
        window.fill(*reader_, job_.dedupe ? &seen_ : nullptr, classifier_.texts_per_call()));
    if (window.rows().empty()) return flush_output();
    const ClassifierCounters before = classifier_.counters();
    const auto start = std::chrono::steady_clock::now();
    INCIPIT_TRY_VOID(window.score(scorer_, [this](std::size_t texts) {
      report_progress(texts);
      return !is_cancelled();
    }));
    const ClassifierCounters after = classifier_.counters();
    FileReport& report = tally_.report();
    report.ms_tickets += ms_since(start);
    report.scored += window.text_count();
    report.tokens_evaluated += after.tokens_evaluated - before.tokens_evaluated;
    report.tokens_full += after.tokens_full - before.tokens_full;
    INCIPIT_TRY_VOID(keep(window));
  }
}

// Into the journal first, then out: a row that was written can be replayed.
Result<void> FileRun::keep(RowWindow& window) {
  std::vector<std::uint64_t> places;
  for (WindowRow& each : window.rows()) {
    if (each.repeats) each.record.first = places[*each.repeats];
    INCIPIT_TRY(const std::uint64_t place, journal_->append(each.record));
    places.push_back(place);
    if (each.record.kind == JournalRow::Kind::kScored && job_.dedupe) {
      seen_.insert(each.record.key, place);
    }
  }
  INCIPIT_TRY_VOID(journal_->flush());
  for (const WindowRow& each : window.rows()) INCIPIT_TRY_VOID(take(each.row, each.record));
  INCIPIT_TRY_VOID(flush_output());
  report_progress(0);
  return {};
}

Result<const JournalRow*> FileRun::scores_of(const JournalRow& record) {
  switch (record.kind) {
    case JournalRow::Kind::kUnreadable:
      return nullptr;
    case JournalRow::Kind::kScored:
      return &record;
    case JournalRow::Kind::kRepeat:
      break;
  }
  INCIPIT_TRY(first_, journal_->read_at(record.first));
  return &first_;
}

Label FileRun::decide(const Row& row, const JournalRow* scores,
                      std::span<const double> bias) const {
  return scores == nullptr ? unreadable_label(row) : classifier_.decide(scores->scored, bias);
}

Result<void> FileRun::take(const Row& row, const JournalRow& record) {
  INCIPIT_TRY(const JournalRow* scores, scores_of(record));
  const Scored* scored = scores == nullptr ? nullptr : &scores->scored;
  const Label plain = decide(row, scores, {});
  tally_.add_read(scored, plain, record.kind == JournalRow::Kind::kRepeat);
  if (record.kind == JournalRow::Kind::kScored) {
    INCIPIT_TRY_VOID(verifier_.add(row.id, row.text, *scored));
  }
  ++progress_.rows;
  progress_.ok += plain.status == Status::kOk ? 1 : 0;
  progress_.review += plain.status == Status::kReview ? 1 : 0;
  progress_.errors += plain.status == Status::kError ? 1 : 0;
  if (!bias_comes_last()) return write(row, record, plain);
  if (plain.status != Status::kError) batch_bias_.add(scored->scores);
  return {};
}

Result<void> FileRun::write(const Row& row, const JournalRow& record, const Label& plain) {
  INCIPIT_TRY(const JournalRow* scores, scores_of(record));
  const Label label = bias_.empty() ? plain : decide(row, scores, bias_);
  tally_.add_written(label, plain, row.gold);
  const bool is_repeat = record.kind == JournalRow::Kind::kRepeat;
  writer_->write(row, label, is_repeat ? scores->id : std::string(), pending_);
  return pending_.size() < kPendingMax ? Result<void>{} : flush_output();
}

Result<void> FileRun::write_with_batch_bias() {
  bias_ = batch_bias_.bias();
  journal_->rewind();
  INCIPIT_TRY(reader_, source_.rows());
  INCIPIT_TRY_VOID(
      replay(*reader_, [this](const Row& row, const JournalRow& record) -> Result<void> {
        INCIPIT_TRY(const JournalRow* scores, scores_of(record));
        return write(row, record, decide(row, scores, {}));
      }));
  return flush_output();
}

Result<void> FileRun::flush_output() {
  INCIPIT_TRY_VOID(output_->write(pending_));
  pending_.clear();
  return {};
}

Result<FileReport> FileRun::finish() {
  INCIPIT_TRY_VOID(flush_output());
  INCIPIT_TRY_VOID(output_->finish());
  is_written_ = true;
  if (!is_stream_) ::unlink(OutputFile::state_path(job_.output).c_str());
  FileReport report = tally_.finish();
  report.bias = bias_;
  if (job_.verify > 0) {
    INCIPIT_TRY(report.verify, verifier_.finish());
  }
  return report;
}

Result<void> FileRun::check_cancelled() const {
  if (!is_cancelled()) return {};
  if (is_written_) {
    return failure(ErrorCode::kCancelled,
                   "interrupted while verifying; " + job_.output + " is complete");
  }
  const std::string rows = counted(progress_.rows, "row");
  if (is_stream_) return failure(ErrorCode::kCancelled, "interrupted after " + rows);
  return failure(ErrorCode::kCancelled, "interrupted after " + rows + "; what is done is kept in " +
                                            OutputFile::state_path(job_.output) +
                                            ", run again with --resume to go on");
}

void FileRun::report_progress(std::size_t texts) {
  if (!job_.on_progress) return;
  Progress progress = progress_;
  progress.rows += texts;
  job_.on_progress(progress);
}

}  // namespace incipit::api
