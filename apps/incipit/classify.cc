// SPDX-License-Identifier: Apache-2.0
//
// incipit classify: sorts the rows of a file by a task.
#include <CLI/CLI.hpp>
#include <chrono>

#include "base/elapsed.h"
#include "base/file.h"
#include "incipit/classify_flags.h"
#include "incipit/command.h"
#include "incipit/exit_code.h"
#include "incipit/progress_line.h"

namespace incipit::app {
namespace {

constexpr const char* kDescription =
    "Gives every row of a file one of the task's labels.\n\n"
    "The instructions and examples of the task are computed once; each row costs only its own "
    "tokens. Rows come out in the order in which they went in, one for each. A row that cannot be "
    "labelled has the status error and says why; the others are not affected.";

constexpr const char* kFooter =
    "Examples:\n"
    "  incipit classify --task task.json tickets.jsonl -o labelled.jsonl\n"
    "  incipit classify --task task.json reviews.csv --text-field Title,Body --probabilities\n"
    "  incipit classify --task task.json new.jsonl -o out.jsonl --calibrate-on labelled.jsonl "
    "--target-accuracy 0.95\n\n"
    "Exit codes: 0 done, 1 done with row errors, 2 usage or input, 3 model, memory, disk or closed "
    "pipe, 4 verification mismatch, 130 interrupted.";

struct Outcome {
  std::unique_ptr<Engine> engine;  // Outlives the classifier.
  std::unique_ptr<Classifier> classifier;
  FileReport file;
  std::optional<FitReport> fit;
  std::optional<OrderReport> order;
};

Result<Outcome> classify(const ClassifyFlags& flags, ClassifyPlan plan,
                         const Surroundings& around) {
  const auto notice = [&](const std::string& text) {
    if (!flags.quiet) std::fprintf(around.err, "incipit: %s\n", text.c_str());
  };
  plan.engine.on_event = notice;
  plan.job.on_notice = notice;
  plan.job.cancelled = around.interrupted;
  Outcome outcome;
  INCIPIT_TRY(outcome.engine, around.open_engine(plan.engine));
  if (flags.order_test > 0) {
    INCIPIT_TRY(outcome.order,
                test_order(*outcome.engine, plan.task, plan.job,
                           {.orders = flags.order_test, .classifier = plan.classifier}));
  }
  INCIPIT_TRY(outcome.classifier,
              make_classifier(*outcome.engine, flags.task.path, plan.task, plan.classifier));
  if (plan.fit) {
    plan.fit->cancelled = around.interrupted;
    INCIPIT_TRY(outcome.fit, fit_on_file(*outcome.classifier, *plan.fit));
  }
  ProgressLine line(around.err,
                    {.is_terminal = around.err_is_terminal, .has_colour = around.has_colour});
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed_s = [start] { return ms_since(start) / 1000; };
  if (!flags.quiet) {
    plan.job.on_progress = [&](const Progress& progress) { line.update(progress, elapsed_s()); };
  }
  auto file = classify_file(*outcome.classifier, plan.job);
  line.finish(elapsed_s());
  INCIPIT_TRY(outcome.file, std::move(file));
  return outcome;
}

int exit_code(const ClassifyFlags& flags, const FileReport& report, bool is_exact) {
  // What is called approximate was not promised to be equal.
  if (is_exact && report.verify && report.verify->mismatches > 0) return kExitMismatch;
  if (report.errors > 0) return kExitRowErrors;
  return flags.fail_on_review && report.review > 0 ? kExitRowErrors : kExitDone;
}

}  // namespace

int run_classify(std::span<const std::string> arguments, const Surroundings& around) {
  ClassifyFlags flags;
  CLI::App app(kDescription, "incipit classify");
  app.footer(kFooter);
  add_classify_flags(app, flags);
  if (const auto code = parse_flags(app, arguments, around)) return *code;
  auto plan = plan_of(flags);
  if (!plan) return fail(plan.error(), around);
  const FileJob job = plan->job;
  const auto outcome = classify(flags, std::move(*plan), around);
  if (!outcome) return fail(outcome.error(), around);
  const ReportParts parts{.job = &job,
                          .file = &outcome->file,
                          .fit = outcome->fit ? &*outcome->fit : nullptr,
                          .order = outcome->order ? &*outcome->order : nullptr};
  const int code = exit_code(flags, outcome->file, outcome->classifier->report().exact);
  if (!flags.quiet || code == kExitMismatch) {
    std::fputs(report_text(*outcome->classifier, parts).c_str(), around.err);
  }
  if (!flags.report.empty()) {
    const auto written = write_file(flags.report, report_json(*outcome->classifier, parts));
    if (!written) return fail(written.error(), around);
  }
  return code;
}

}  // namespace incipit::app
