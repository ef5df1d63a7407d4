// SPDX-License-Identifier: Apache-2.0
//
// incipit bench: how much faster the shared prefix is here, and that it changes nothing.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>

#include "base/counted.h"
#include "incipit/bench_attention.h"
#include "incipit/bench_fragments.h"
#include "incipit/bench_kv.h"
#include "incipit/bench_output.h"
#include "incipit/bench_run.h"
#include "incipit/bench_window.h"
#include "incipit/command.h"
#include "incipit/engine_flags.h"
#include "incipit/exit_code.h"
#include "incipit/task_file.h"
#include "incipit/task_flags.h"
#include "incipit/terminal_text.h"

namespace incipit::app {
namespace {

constexpr const char* kUsage =
    "Usage: incipit bench classify|kv|window|fragments|attention [FLAGS]\n\n"
    "  classify   time a task on whole prompts and on the shared prefix\n"
    "  kv         time cached prefixes: live, restored, and shared by many callers\n"
    "  window     what a sliding window loses, and what it costs\n"
    "  fragments  what passages in a new order lose and save when their cells are moved\n"
    "  attention  fit the attention check, and say what it is worth\n\n"
    "incipit bench classify --help tells more.\n";

constexpr const char* kDescription =
    "Times a task on whole prompts and on the shared prefix, after proving that all ways give "
    "equal labels and bit-equal scores.";

constexpr const char* kFooter =
    "Examples:\n"
    "  incipit bench classify\n"
    "  incipit bench classify --task task.json labelled.jsonl --report report.html\n\n"
    "Exit codes: 0 done, 2 usage or input, 3 model, memory or disk, 4 a score differs from that of "
    "the whole prompt, 130 interrupted.";

// The longest prefix of the report, 2,000 tokens, is held beside whole prompts of that length.
constexpr std::size_t kReportCells = 6144;

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
  app.add_option("tickets", flags.tickets, "Texts with labels, JSONL or CSV.")
      ->type_name("FILE")
      ->capture_default_str();
  app.add_option("--task", flags.task, "The task file: instructions, labels and examples, as JSON.")
      ->type_name("FILE")
      ->capture_default_str();
  app.add_option("--rounds", flags.rounds, "How often each mode is timed; the median counts.")
      ->type_name("N")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--report", flags.report,
                 "Write an HTML page with plots; this measures some minutes longer.")
      ->type_name("FILE");
  app.add_flag("--json", flags.json, "Print the result as one JSON object.");
  app.add_flag("-q,--quiet", flags.quiet, "No progress.");
  add_engine_flags(app, flags.engine);
}

// A line every 100 texts; an error after Ctrl-C.
OnTexts progress(const BenchFlags& flags, const std::string& precision,
                 const Surroundings& around) {
  return [&flags, &around, precision,
          done = std::size_t{0}](std::size_t texts) mutable -> Result<void> {
    INCIPIT_TRY_VOID(check_interrupt(around));
    const std::size_t before = std::exchange(done, done + texts);
    if (done / 100 != before / 100) {
      say(around, precision + ": " + std::to_string(done / 100 * 100) + " tickets scored",
          flags.quiet);
    }
    return {};
  };
}

Result<void> bench_precision(const BenchFlags& flags, EngineOptions options, const Task& task,
                             const std::vector<LabelledText>& rows, const Surroundings& around,
                             BenchResult& result) {
  if (!flags.report.empty()) options.ctx_size = std::max(options.ctx_size, kReportCells);
  options.on_event = notices(around, flags.quiet);
  INCIPIT_TRY(const auto engine, around.open_engine(options));
  INCIPIT_TRY(auto classifier, make_classifier(*engine, flags.task, task, {}));
  const ClassifierReport facts = classifier->report();
  const std::string& precision = facts.precision;
  const OnTexts on_texts = progress(flags, precision, around);
  say(around, precision + ": comparing labels and scores with those of whole prompts", flags.quiet);
  INCIPIT_TRY(EqualityCheck check, check_equality(*classifier, rows, on_texts));
  result.checks.emplace_back(precision, check);
  result.facts = facts;
  INCIPIT_TRY(result.suffix_tokens, mean_suffix_tokens(*classifier, rows));
  say(around,
      precision + ": timing " + counted(rows.size(), "ticket") + " in five modes, " +
          counted(flags.rounds, "round"),
      flags.quiet);
  INCIPIT_TRY(auto times, time_modes(*classifier, rows, precision, flags.rounds, on_texts));
  std::ranges::move(times, std::back_inserter(result.modes));
  if (flags.report.empty()) return {};
  classifier.reset();  // The classifiers that follow need its cells.
  say(around, precision + ": batch sizes and prefix lengths for the report (some minutes)",
      flags.quiet);
  INCIPIT_TRY(auto batches, time_batches(*engine, task, rows, precision, flags.rounds, on_texts));
  std::ranges::move(batches, std::back_inserter(result.batches));
  INCIPIT_TRY(auto shares, time_shares(*engine, task, rows, precision, on_texts));
  std::ranges::move(shares, std::back_inserter(result.shares));
  return {};
}

// Found out before minutes of measuring, not behind them.
Result<void> check_report_path(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path();
  std::error_code ignored;
  if (folder.empty() || std::filesystem::is_directory(folder, ignored)) return {};
  return failure(ErrorCode::kInvalidArgument, "--report: there is no directory " + folder.string());
}

Result<BenchResult> measure(const BenchFlags& flags, const Surroundings& around) {
  INCIPIT_TRY_VOID(check_report_path(flags.report));
  INCIPIT_TRY(EngineOptions options, engine_options(flags.engine));
  INCIPIT_TRY(const Task task, read_task_file(flags.task));
  INCIPIT_TRY(const auto rows, read_labelled_texts(flags.tickets));
  BenchResult result;
  result.rows = rows.size();
  if (options.precision != Precision::kAuto || options.runtime == RuntimeKind::kLlama) {
    INCIPIT_TRY_VOID(bench_precision(flags, options, task, rows, around, result));
    return result;
  }
  // Both precisions, one after the other: two loaded models would not be measured fairly.
  options.precision = Precision::kBf16;
  if (auto done = bench_precision(flags, options, task, rows, around, result); !done) {
    if (done.error().code != ErrorCode::kInvalidArgument) return std::unexpected(done.error());
    say(around, "bf16 is left out: " + done.error().message, flags.quiet);
  }
  options.precision = Precision::kF32;
  INCIPIT_TRY_VOID(bench_precision(flags, options, task, rows, around, result));
  return result;
}

int bench_classify(std::span<const std::string> arguments, const Surroundings& around) {
  CLI::App app(kDescription, "incipit bench classify");
  app.footer(kFooter);
  BenchFlags flags;
  add_flags(app, flags);
  if (const auto over = parse_flags(app, arguments, around)) return *over;
  const auto result = measure(flags, around);
  if (!result) return fail(result.error(), around);
  std::fputs((flags.json ? bench_json(*result) : bench_text(*result)).c_str(), around.out);
  if (!flags.report.empty()) {
    std::string command = "incipit bench classify";
    for (const std::string& argument : arguments) command += " " + argument;
    const auto written = write_bench_html(*result, command, flags.report);
    if (!written) return fail(written.error(), around);
    say(around, "the report is in " + flags.report, flags.quiet);
  }
  const bool equal = std::ranges::all_of(result->checks, [](const auto& check) {
    return !check.second.exact || check.second.all_equal();
  });
  return equal ? kExitDone : kExitMismatch;
}

}  // namespace

int run_bench(std::span<const std::string> arguments, const Surroundings& around) {
  const std::string name = arguments.empty() ? "" : arguments.front();
  if (name == "classify") return bench_classify(arguments.subspan(1), around);
  if (name == "kv") return bench_kv(arguments.subspan(1), around);
  if (name == "fragments") return bench_fragments(arguments.subspan(1), around);
  if (name == "attention") return bench_attention(arguments.subspan(1), around);
  if (name == "window") return bench_window(arguments.subspan(1), around);
  const bool help = name == "--help" || name == "-h";
  if (!help && !name.empty()) {
    std::fprintf(around.err, "incipit bench: there is no benchmark '%s'\n\n",
                 printable(name, LineEnds::kEscaped).c_str());
  }
  std::fputs(kUsage, help ? around.out : around.err);
  return help ? kExitDone : kExitUsage;
}

}  // namespace incipit::app
