// SPDX-License-Identifier: Apache-2.0
#include "incipit/classify_flags.h"

#include <CLI/CLI.hpp>
#include <filesystem>

#include "api/row_reader.h"
#include "incipit/flag_value.h"

namespace incipit::app {
namespace {

constexpr const char* kRowsIn = "Rows in";
constexpr const char* kRowsOut = "Rows out";
constexpr const char* kScores = "Scores";
constexpr const char* kChecks = "Checks";

void add_input_flags(CLI::App& app, ClassifyFlags& flags) {
  RowFields& fields = flags.job.fields;
  app.add_option("input", flags.job.input, "The rows; - is standard input.")
      ->type_name("FILE")
      ->capture_default_str();
  app.add_option("--format", flags.format,
                 "The format of the rows where the file's name does not tell it; the output has "
                 "the same unless its name says otherwise. Standard input is JSONL by default.")
      ->type_name("jsonl|csv|tsv")
      ->group(kRowsIn);
  app.add_option("--text-field", fields.text,
                 "The field with the text. Several, with commas between them, are joined.")
      ->type_name("NAME,...")
      ->delimiter(',')
      ->group(kRowsIn)
      ->capture_default_str();
  app.add_option("--join", fields.join, "What stands between joined texts. Default: \\n")
      ->type_name("TEXT")
      ->group(kRowsIn);
  app.add_option("--id-field", fields.id,
                 "The field with the row's id. By default id, else custom_id, else the line "
                 "number.")
      ->type_name("NAME")
      ->group(kRowsIn);
  app.add_option("--label-field", fields.label,
                 "The field with the true label, if there is one: the report then tells how many "
                 "labels are right. By default label.")
      ->type_name("NAME")
      ->group(kRowsIn);
  app.add_option("--delimiter", flags.delimiter, "What stands between CSV cells: , or ; or \\t")
      ->type_name("CHAR")
      ->group(kRowsIn);
  app.add_flag("--no-header", flags.no_header,
               "The CSV file has no header line; fields go by number, from 1.")
      ->group(kRowsIn);
}

void add_output_flags(CLI::App& app, ClassifyFlags& flags) {
  app.add_option("-o,--output", flags.job.output,
                 "Where the labelled rows go; - is standard output. A file is written as FILE.part "
                 "and gets its name when it is complete.")
      ->type_name("FILE")
      ->group(kRowsOut)
      ->capture_default_str();
  app.add_flag("--keep", flags.job.fields.keep,
               "Copy the other fields of each row. From CSV to CSV they are always copied.")
      ->group(kRowsOut);
  app.add_flag("--probabilities", flags.job.probabilities, "Write the probability of every label.")
      ->group(kRowsOut);
  app.add_flag("--csv-safe", flags.job.csv_safe,
               "Put ' before CSV cells that a spreadsheet would run as a formula. This changes "
               "your data; by default nothing is changed.")
      ->group(kRowsOut);
  app.add_flag("--resume", flags.job.resume,
               "Go on with an interrupted run: FILE.state beside the output keeps what is done. "
               "The finished file is the same, byte for byte, as without the interruption.")
      ->group(kRowsOut);
  app.add_option("--report", flags.report, "Write a report about the run, as JSON.")
      ->type_name("FILE")
      ->group(kRowsOut);
  app.add_flag("-q,--quiet", flags.quiet, "No progress and no summary.")->group(kRowsOut);
  app.add_flag("--fail-on-review", flags.fail_on_review,
               "Exit with 1 also if a row went to review, not only if one has an error.")
      ->group(kRowsOut);
}

void add_score_flags(CLI::App& app, ClassifyFlags& flags) {
  app.add_option("--batch", flags.batch,
                 "How many texts go through the model at once. The labels and scores do not "
                 "depend on it, only the speed.")
      ->type_name("N|auto")
      ->group(kScores)
      ->capture_default_str();
  app.add_flag("--no-dedupe", flags.no_dedupe, "Score a text again each time it occurs.")
      ->group(kScores);
  app.add_option("--calibrate", flags.calibrate,
                 "Correct for a model that prefers some label words whatever the text says. "
                 "content-free subtracts what it says of an empty text. batch subtracts the mean "
                 "over the file: it assumes that the labels are about equally frequent, misleads "
                 "when one label dominates, makes a row's label depend on the other rows, and "
                 "writes only at the end. prior:FILE adds label frequencies that you know, a JSON "
                 "object.")
      ->type_name("none|content-free|batch|prior:FILE")
      ->group(kScores)
      ->capture_default_str();
  app.add_option("--calibrate-on", flags.calibrate_on,
                 "Labelled rows from which a temperature is fitted, so that a confidence of 0.9 is "
                 "right nine times out of ten. It is used only if it holds on the half of the rows "
                 "that it was not fitted on.")
      ->type_name("FILE")
      ->group(kScores);
  app.add_option("--target-accuracy", flags.target_accuracy,
                 "With --calibrate-on: the least confidence from which on this share of the labels "
                 "is right; rows below it go to review.")
      ->type_name("0..1")
      ->group(kScores);
}

void add_check_flags(CLI::App& app, ClassifyFlags& flags) {
  app.add_option("--verify", flags.verify,
                 "Score N texts, or all, a second time as whole prompts and compare: labels and "
                 "scores must be the same to the bit. A difference makes the exit code 4.")
      ->type_name("N|all")
      ->group(kChecks);
  app.add_option("--order-test", flags.order_test,
                 "First label up to 200 texts under N orders of the label list and report how many "
                 "labels change.")
      ->type_name("N")
      ->group(kChecks);
}

Result<std::optional<RowFormat>> input_format(const ClassifyFlags& flags) {
  const bool has_csv_flags = flags.no_header || !flags.delimiter.empty();
  if (flags.format.empty() && !has_csv_flags) return std::nullopt;
  RowFormat format;
  if (flags.format.empty()) {
    INCIPIT_TRY(format, api::format_of_path(flags.job.input));
  } else {
    INCIPIT_TRY(format, api::format_of_name(flags.format));
  }
  if (has_csv_flags && format.kind != RowFormat::Kind::kCsv) {
    return failure(ErrorCode::kInvalidArgument,
                   "--delimiter and --no-header are for CSV; add --format csv if it is");
  }
  if (!flags.delimiter.empty()) {
    const std::string delimiter = unescape(flags.delimiter);
    const bool is_possible = delimiter.size() == 1 && delimiter != "\"" && delimiter != "\n" &&
                             delimiter != "\r" && static_cast<unsigned char>(delimiter[0]) < 0x80;
    if (!is_possible) {
      return failure(ErrorCode::kInvalidArgument,
                     "--delimiter: expected one character such as , or ; or \\t, not '" +
                         flags.delimiter + "'");
    }
    format.delimiter = delimiter[0];
  }
  format.header = !flags.no_header;
  return format;
}

Result<void> read_calibration(const ClassifyFlags& flags, FileJob& job) {
  constexpr std::string_view kPrior = "prior:";
  if (flags.calibrate.starts_with(kPrior)) {
    job.calibration = Calibration::kPrior;
    job.prior_file = flags.calibrate.substr(kPrior.size());
    return {};
  }
  INCIPIT_TRY(job.calibration, choose<Calibration>("--calibrate", flags.calibrate,
                                                   {{"none", Calibration::kNone},
                                                    {"content-free", Calibration::kContentFree},
                                                    {"batch", Calibration::kBatch},
                                                    {"prior:FILE", Calibration::kPrior}}));
  return {};
}

Result<std::optional<FitOptions>> fit_options(const ClassifyFlags& flags, const FileJob& job) {
  if (flags.calibrate_on.empty()) {
    if (!flags.target_accuracy) return std::nullopt;
    return failure(ErrorCode::kInvalidArgument,
                   "--target-accuracy needs labelled rows: give --calibrate-on FILE");
  }
  return FitOptions{.input = flags.calibrate_on,
                    .fields = job.fields,
                    .calibration = job.calibration,
                    .prior_file = job.prior_file,
                    .target_accuracy = flags.target_accuracy};
}

Result<void> check_report_path(const ClassifyFlags& flags) {
  if (flags.report.empty()) return {};
  if (flags.report == flags.job.output || flags.report == flags.job.input) {
    return failure(ErrorCode::kInvalidArgument,
                   "--report: " + flags.report + " is the input or output file");
  }
  const auto folder = std::filesystem::path(flags.report).parent_path();
  std::error_code ignored;
  if (folder.empty() || std::filesystem::is_directory(folder, ignored)) return {};
  return failure(ErrorCode::kInvalidArgument, "--report: there is no directory " + folder.string());
}

}  // namespace

void add_classify_flags(CLI::App& app, ClassifyFlags& flags) {
  add_task_flags(app, flags.task);
  add_input_flags(app, flags);
  add_output_flags(app, flags);
  add_score_flags(app, flags);
  add_check_flags(app, flags);
  add_engine_flags(app, flags.engine);
}

Result<ClassifyPlan> plan_of(const ClassifyFlags& flags) {
  ClassifyPlan plan;
  plan.job = flags.job;
  plan.job.dedupe = !flags.no_dedupe;
  plan.job.fields.join = unescape(flags.job.fields.join);
  INCIPIT_TRY(plan.engine, engine_options(flags.engine));
  INCIPIT_TRY(plan.classifier.batch, count_or_word("--batch", flags.batch, "auto", 0));
  INCIPIT_TRY(plan.job.input_format, input_format(flags));
  INCIPIT_TRY_VOID(read_calibration(flags, plan.job));
  if (!flags.verify.empty()) {
    INCIPIT_TRY(plan.job.verify,
                count_or_word("--verify", flags.verify, "all", FileJob::kVerifyAll));
  }
  INCIPIT_TRY(plan.fit, fit_options(flags, plan.job));
  INCIPIT_TRY_VOID(check_report_path(flags));
  INCIPIT_TRY(plan.task, read_task(flags.task));
  return plan;
}

}  // namespace incipit::app
