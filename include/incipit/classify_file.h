// SPDX-License-Identifier: Apache-2.0
//
// A whole file through a Classifier: rows in, rows out in the same order, in constant memory.
//
//     auto report = incipit::classify_file(*classifier, {.input = "a.jsonl", .output = "b.jsonl"});
//
// A bad row gets an error of its own and never stops the others. Output goes to FILE.part and is
// renamed at the end; the scores of finished rows are kept in FILE.state, so that an interrupted
// job can go on where it stopped and end with the same bytes. Equal texts are scored once.
// docs/classify.md describes the formats and the report.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "incipit/engine.h"
#include "incipit/result.h"

namespace incipit {

struct RowFormat {
  enum class Kind { kJsonl, kCsv };
  Kind kind = Kind::kJsonl;
  char delimiter = ',';  // CSV only, an ASCII character.
  bool header = true;    // CSV only: the first record names the columns.
};

// Which fields of a row are read. Columns of a CSV file without a header go by number, from 1.
struct RowFields {
  std::vector<std::string> text = {"text"};  // Several are joined.
  std::string join = "\n";
  std::string id{};     // Empty: "id", else "custom_id", else the line number.
  std::string label{};  // The true label. Empty: "label".
  bool keep = false;    // Pass the other fields through; CSV to CSV always does.
  std::size_t row_bytes_max = std::size_t{16} << 20U;
};

// What is subtracted from the scores before the decision.
enum class Calibration {
  kNone,
  kContentFree,  // What the model says of a text without content.
  kBatch,        // The mean over the whole file; misleads where one label dominates.
  kPrior,        // Priors given by the user.
};

struct Progress {
  std::uint64_t rows = 0;
  std::uint64_t rows_in_all = 0;  // 0: not known, as with a pipe.
  std::uint64_t ok = 0;
  std::uint64_t review = 0;
  std::uint64_t errors = 0;
};

struct FileJob {
  static constexpr std::size_t kVerifyAll = SIZE_MAX;

  std::string input = "-";                   // "-" is standard input.
  std::string output = "-";                  // "-" is standard output.
  std::optional<RowFormat> input_format{};   // Empty: by the file's extension.
  std::optional<RowFormat> output_format{};  // Empty: by its extension, else the input's.
  RowFields fields{};

  Calibration calibration = Calibration::kNone;
  std::string prior_file{};  // For kPrior: a JSON object of label: prior.
  bool dedupe = true;
  bool probabilities = false;  // Write the probability of every label.
  bool csv_safe = false;       // Prefix cells that a spreadsheet would run as a formula.
  bool resume = false;         // Go on with FILE.part and FILE.state.

  // Texts that are scored again as whole prompts and compared, chosen by a hash of their ids.
  std::size_t verify = 0;
  double verify_tolerance = 0.05;  // Nats; used only where the classifier is not exact.

  std::function<void(const Progress&)> on_progress{};
  std::function<void(const std::string&)> on_notice{};  // Receives lines for the operator.
  const std::atomic<bool>* cancelled = nullptr;         // Looked at between passes.
};

// How the labels compare with the true ones, over the rows that have one.
struct FileQuality {
  std::uint64_t rows = 0;
  std::uint64_t unscored = 0;      // Rows with an error; they count as wrong.
  std::uint64_t unknown_gold = 0;  // Rows whose true label is none of the task's; left out.
  double accuracy = 0;             // Of the best label, accepted or not.
  double macro_f1 = 0;             // Mean F1 of the labels that occur or were chosen.
  double coverage = 0;             // Share of the rows that were accepted.
  double accepted_accuracy = 0;
  double ece = 0;  // Expected calibration error of the confidence.
  std::vector<std::vector<std::uint64_t>> confusion{};  // [true label][best label]
};

struct VerifyMismatch {
  std::string id{};  // JSON source text.
  std::vector<double> scores{};
  std::vector<double> full_scores{};
  bool label_differs = false;
};

struct VerifyReport {
  std::uint64_t rows = 0;
  std::uint64_t mismatches = 0;
  std::uint64_t label_mismatches = 0;
  double max_difference = 0;               // Nats.
  std::vector<VerifyMismatch> examples{};  // The first mismatches.
  double ms_full = 0;                      // Time of the whole prompts.
};

struct FileReport {
  std::uint64_t rows = 0;
  std::uint64_t unique = 0;
  std::uint64_t duplicates = 0;
  std::uint64_t ok = 0;
  std::uint64_t review = 0;
  std::uint64_t errors = 0;
  std::uint64_t resumed = 0;  // Rows whose scores came from FILE.state.
  std::uint64_t scored = 0;   // Texts that this run gave to the model.
  std::uint64_t slow_path = 0;
  std::uint64_t rescored = 0;       // Near ties on an approximate runtime, scored again alone.
  std::uint64_t neutralised = 0;    // Special-token surfaces kept as plain text.
  std::uint64_t utf8_replaced = 0;  // Bad byte runs replaced.
  std::uint64_t suffix_tokens = 0;
  std::uint64_t tokens_evaluated = 0;
  std::uint64_t tokens_full = 0;
  double ms_tickets = 0;  // Time in the model for the rows, loading and verifying left out.
  std::vector<std::uint64_t> predicted;               // Best labels, in label order.
  std::vector<std::uint64_t> predicted_uncalibrated;  // The same without the calibration.
  std::optional<std::size_t> dominant;  // A label that won nearly all of varied texts.
  double dominant_share = 0;
  std::uint64_t changed_by_calibration = 0;
  std::vector<double> bias;
  std::optional<FileQuality> quality;
  std::optional<VerifyReport> verify;
};

// Errors: kInvalidArgument for a wrong job, input or state file; kCancelled after `cancelled`,
//         with the finished rows kept; kResourceExhausted for a full disk or a closed pipe; and
//         what the classifier returns. FILE.part and FILE.state outlive each of them.
Result<FileReport> classify_file(Classifier& classifier, const FileJob& job);

// What --calibrate-on found on labelled rows.
struct FitReport {
  std::uint64_t rows = 0;
  double temperature = 1;         // What the classifier uses.
  double temperature_fitted = 1;  // What one half of the rows asked for.
  bool temperature_kept = false;  // It improved the other half.
  double nll_before = 0;          // Negative log likelihood of that half, per row.
  double nll_after = 0;
  double ece_before = 0;
  double ece_after = 0;
  std::optional<double> min_confidence{};  // For a target accuracy.
  double held_accuracy = 0;                // Among its accepted rows, on the other half.
  double held_accuracy_low = 0;            // Its Wilson lower bound, 95 %.
  double held_coverage = 0;
};

struct FitOptions {
  std::string input{};  // Labelled rows.
  std::optional<RowFormat> format{};
  RowFields fields{};
  Calibration calibration = Calibration::kNone;
  std::string prior_file{};
  std::optional<double> target_accuracy{};
  const std::atomic<bool>* cancelled = nullptr;
};

// Fits the temperature, and the least confidence that reaches a target accuracy, on one half of
// the rows and keeps what holds on the other. Changes `classifier`.
// Errors: kInvalidArgument if rows lack labels, are too few, or the target does not hold.
Result<FitReport> fit_on_file(Classifier& classifier, const FitOptions& options);

// How many texts get another label when the label list is rotated: a measure of order bias.
struct OrderReport {
  std::uint64_t texts = 0;
  std::size_t orders = 0;                // Label lists, the task's own among them.
  std::uint64_t flipped = 0;             // Texts that do not get one label under all of them.
  std::uint64_t flipped_calibrated = 0;  // The same with the calibration of the job.
};

struct OrderTest {
  std::size_t orders = 0;       // Label lists to compare, at most one for each label.
  std::size_t texts_max = 200;  // Distinct texts, from the start of the file.
  ClassifierOptions classifier{};
};

// Labels the first texts of the job's input under several orders of the label list that stands
// for {labels} in the instructions. The input must be a file, which can be read twice.
// Errors: as for classify_file(); kInvalidArgument for instructions without {labels}.
Result<OrderReport> test_order(Engine& engine, const Task& task, const FileJob& job,
                               const OrderTest& test);

// Reports for programs and for people. `fit` and `order` may be null.
struct ReportParts {
  const FileJob* job = nullptr;
  const FileReport* file = nullptr;
  const FitReport* fit = nullptr;
  const OrderReport* order = nullptr;
};
[[nodiscard]] std::string report_json(const Classifier& classifier, const ReportParts& parts);
[[nodiscard]] std::string report_text(const Classifier& classifier, const ReportParts& parts);

}  // namespace incipit
