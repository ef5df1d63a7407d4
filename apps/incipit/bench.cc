// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <string>
#include <utility>

#include "incipit/bench_output.h"
#include "incipit/bench_run.h"
#include "incipit/command.h"
#include "incipit/engine_flags.h"
#include "incipit/exit_code.h"
#include "incipit/task_file.h"

namespace incipit::app {
namespace {

struct BenchFlags {
  EngineFlags engine;
  std::string task = "examples/tickets/bench_task.json";
  std::string tickets = "examples/tickets/bench_tickets.jsonl";
  std::size_t rounds = 3;
  std::string report;
  bool json = false;
  bool quiet = false;
};

void add_flags(CLI::App& app, BenchFlags& flags) {
  add_engine_flags(app, flags.engine);
  app.add_option("--task", flags.task, "Task file (JSON)")
      ->capture_default_str()
      ->type_name("FILE");
  app.add_option("tickets", flags.tickets, "Texts with labels, JSONL or CSV")
      ->capture_default_str();
  app.add_option("--rounds", flags.rounds, "How often each mode is timed; the median counts")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_option("--report", flags.report,
                 "Write an HTML page with plots; measures some minutes longer")
      ->type_name("FILE");
  app.add_flag("--json", flags.json, "Print the result as one JSON object");
  app.add_flag("--quiet", flags.quiet, "No progress");
}

// A line on `err` every 100 texts.
OnTexts progress(const BenchFlags& flags, const std::string& precision, std::FILE* err) {
  if (flags.quiet) return {};
  return [precision, err, done = std::size_t{0}](std::size_t texts) mutable {
    const std::size_t before = done;
    done += texts;
    if (done / 100 != before / 100)
      std::fprintf(err, "%s: %zu tickets\n", precision.c_str(), done / 100 * 100);
  };
}

Result<void> bench_precision(const BenchFlags& flags, EngineOptions options, const Task& task,
                             const std::vector<LabelledText>& rows, const Surroundings& around,
                             BenchResult& result) {
  INCIPIT_TRY(const auto engine, around.open_engine(options));
  INCIPIT_TRY(const auto classifier, engine->classifier(task, {}));
  const ClassifierReport& facts = classifier->report();
  const OnTexts on_texts = progress(flags, facts.precision, around.err);
  INCIPIT_TRY(EqualityCheck check, check_equality(*classifier, rows, on_texts));
  result.checks.emplace_back(facts.precision, check);
  result.facts = facts;
  INCIPIT_TRY(result.suffix_tokens, mean_suffix_tokens(*classifier, rows));
  INCIPIT_TRY(auto times, time_modes(*classifier, rows, facts.precision, flags.rounds, on_texts));
  for (ModeTime& time : times) result.modes.push_back(std::move(time));
  if (flags.report.empty()) return {};
  if (!flags.quiet)
    std::fprintf(around.err, "%s: batch sizes and prefix lengths for the report (some minutes)\n",
                 facts.precision.c_str());
  INCIPIT_TRY(auto batches, time_batches(*engine, task, rows, facts.precision));
  for (BatchPoint& point : batches) result.batches.push_back(std::move(point));
  INCIPIT_TRY(auto shares, time_shares(*engine, task, rows, facts.precision));
  for (SharePoint& point : shares) result.shares.push_back(std::move(point));
  return {};
}

Result<BenchResult> measure(const BenchFlags& flags, const Surroundings& around) {
  INCIPIT_TRY(EngineOptions options, engine_options(flags.engine));
  INCIPIT_TRY(const Task task, read_task_file(flags.task));
  INCIPIT_TRY(const auto rows, read_labelled_texts(flags.tickets));
  BenchResult result;
  result.rows = rows.size();
  if (options.precision != Precision::kAuto) {
    INCIPIT_TRY_VOID(bench_precision(flags, options, task, rows, around, result));
    return result;
  }
  // Both precisions, one after the other: two loaded models would not be measured fairly.
  options.precision = Precision::kBf16;
  if (auto done = bench_precision(flags, options, task, rows, around, result); !done) {
    if (done.error().code != ErrorCode::kInvalidArgument) return std::unexpected(done.error());
    std::fprintf(around.err, "bf16 left out: %s\n", done.error().message.c_str());
  }
  options.precision = Precision::kF32;
  INCIPIT_TRY_VOID(bench_precision(flags, options, task, rows, around, result));
  return result;
}

int bench_classify(std::span<const std::string> arguments, const Surroundings& around) {
  CLI::App app(
      "Times a task on whole prompts and on the shared prefix, after proving that all ways give "
      "equal "
      "labels and bit-equal scores. Exit code 4 if they do not.",
      "incipit bench classify");
  BenchFlags flags;
  add_flags(app, flags);
  if (const auto over = parse_flags(app, arguments, around)) return *over;
  const auto result = measure(flags, around);
  if (!result) return fail(result.error(), around);
  if (flags.json) {
    std::fputs(bench_json(*result).c_str(), around.out);
  } else {
    std::fputs(bench_text(*result).c_str(), around.out);
  }
  if (!flags.report.empty()) {
    std::string command = "incipit bench classify";
    for (const std::string& argument : arguments) command += " " + argument;
    if (auto written = write_bench_html(*result, command, flags.report); !written)
      return fail(written.error(), around);
    std::fprintf(around.err, "report: %s\n", flags.report.c_str());
  }
  const bool equal = std::ranges::all_of(
      result->checks, [](const auto& check) { return check.second.all_equal(); });
  return equal ? kExitDone : kExitMismatch;
}

}  // namespace

int run_bench(std::span<const std::string> arguments, const Surroundings& around) {
  if (!arguments.empty() && arguments.front() == "classify")
    return bench_classify(arguments.subspan(1), around);
  const bool help =
      !arguments.empty() && (arguments.front() == "--help" || arguments.front() == "-h");
  std::fputs(
      "Usage: incipit bench classify [FLAGS]\n\n  classify   time a task on whole prompts and on "
      "the shared prefix\n",
      help ? around.out : around.err);
  return help ? kExitDone : kExitUsage;
}

}  // namespace incipit::app
