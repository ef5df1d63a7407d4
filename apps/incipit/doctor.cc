// SPDX-License-Identifier: Apache-2.0
#include "incipit/doctor.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <string>

#include "incipit/command.h"
#include "incipit/engine_flags.h"
#include "incipit/exit_code.h"

namespace incipit::app {
namespace {

void print(std::FILE* out, const char* name, const std::string& value) {
  std::fprintf(out, "%-14s %s\n", name, value.c_str());
}

std::string mib(std::size_t bytes) { return std::to_string(bytes >> 20U) + " MiB"; }

void print_machine(const DoctorReport& report, std::FILE* out) {
  print(out, "CPU", report.cpu + ", " + std::to_string(report.cores) + " cores to use");
  print(out, "instructions", report.instructions);
  for (const std::string& broken : report.broken_instructions) {
    print(out, "", broken + " is announced but does not work here; it is not used");
  }
  print(out, "memory",
        mib(report.memory_available_bytes) + " available, " + mib(report.memory_peak_bytes) +
            " taken at most by this process");
  print(out, "cache", report.home);
  std::string precisions;
  for (const std::string& precision : report.precisions)
    precisions += (precisions.empty() ? "" : ", ") + precision;
  print(out, "runtime", report.runtime + " (CPU; precisions: " + precisions + ")");
  for (const DoctorModel& model : report.models) {
    const std::string name = std::filesystem::path(model.file).filename().string();
    print(out, "model",
          name + (model.refused.empty() ? ": " + model.summary
                                        : ": cannot be used: " + model.refused));
  }
}

void print_runs(const DoctorReport& report, std::FILE* out) {
  for (const DoctorRun& run : report.runs) {
    const std::string way = run.precision + ", " + run.kv_type + " cells";
    if (!run.refused.empty()) {
      print(out, "law", way + ": cannot run here: " + run.refused);
      continue;
    }
    print(out, "law",
          way + ": " +
              (run.exact ? "exact, to the last bit" : "APPROXIMATE: " + run.approximate_reason));
    print(out, "",
          "passes of at least " + std::to_string(run.rows_min) + " rows (" +
              std::to_string(run.rows_needed) + " needed), logits of " +
              std::to_string(run.logits_rows_min) + " (" + std::to_string(run.logits_rows_needed) +
              " needed), a lone token " +
              (run.lone_token_needs_filler ? "needs" : "does not need") + " a filler");
    char line[96];
    std::snprintf(line, sizeof(line), "%zu bytes of memory a token; first-start self-test %.0f ms",
                  run.cell_bytes, run.ms_self_test);
    print(out, "", line);
  }
}

}  // namespace

int run_doctor(std::span<const std::string> arguments, const Surroundings& around) {
  CLI::App app(
      "Shows what this machine can do, and proves on it that cached, batched and whole prompts "
      "agree "
      "to the last bit. Exit code 4 if they do not.",
      "incipit doctor");
  EngineFlags flags;
  add_engine_flags(app, flags);
  bool quick = false;
  app.add_flag("--machine-only", quick, "Look at the machine and the model files; load no model");
  if (const auto over = parse_flags(app, arguments, around)) return *over;
  auto options = engine_options(flags);
  if (!options) return fail(options.error(), around);
  const bool asked = !flags.model.empty();
  if (quick || (!asked && !std::filesystem::exists(options->model))) options->model.clear();
  options->on_event = [&](const std::string& event) {
    std::fprintf(around.err, "%s\n", event.c_str());
  };
  const auto report = examine(*options);
  if (!report) return fail(report.error(), around);
  print_machine(*report, around.out);
  print_runs(*report, around.out);
  if (report->runs.empty()) print(around.out, "law", "not proved: no model was loaded");
  return report->is_well() ? kExitDone : kExitMismatch;
}

}  // namespace incipit::app
