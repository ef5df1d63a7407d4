// SPDX-License-Identifier: Apache-2.0
#include "incipit/doctor_output.h"

#include <cmath>
#include <filesystem>
#include <string_view>

#include "base/counted.h"
#include "incipit/terminal_text.h"

namespace incipit::app {
namespace {

constexpr std::size_t kNameWidth = 13;

// "name   value"; a line without a name goes on with the one above it.
std::string line(std::string_view name, std::string_view value) {
  return padded(name, kNameWidth) + printable(value, LineEnds::kEscaped) + "\n";
}

std::string mib(std::size_t bytes) { return std::to_string(bytes >> 20U) + " MiB"; }

std::string machine_text(const DoctorReport& report) {
  std::string text = line("CPU", (report.cpu.empty() ? "unknown" : report.cpu) + ", " +
                                     counted(report.cores, "core") + " to use");
  text += line("instructions",
               report.instructions.empty() ? "none of those that matter" : report.instructions);
  for (const std::string& broken : report.broken_instructions) {
    text += line("", broken + " is announced but does not work here; it is not used");
  }
  text += line("memory", mib(report.memory_available_bytes) + " available; this process took " +
                             mib(report.memory_peak_bytes) + " at most");
  text += line("cache", report.home);
  std::string precisions;
  for (const std::string& precision : report.precisions) {
    precisions += (precisions.empty() ? "" : ", ") + precision;
  }
  return text + line("runtime", report.runtime + " (exact; precisions: " + precisions + ")") +
         line("", report.other_runtime + " (approximate; for other architectures)");
}

std::string models_text(const DoctorReport& report) {
  if (report.models.empty()) {
    return line("model", "none in " + report.home + "/models; ./dev setup fetches the default one");
  }
  std::string text;
  for (const DoctorModel& model : report.models) {
    const std::string name = std::filesystem::path(model.file).filename().string();
    text += line("model", !model.refused.empty()
                              ? name + ": cannot be used: " + model.refused
                              : name + ": " + model.summary + ", " + mib(model.bytes) +
                                    (model.is_approximate ? "; with libllama, approximate" : ""));
  }
  return text;
}

std::string run_text(const DoctorRun& run) {
  const std::string way = run.precision + ", " + run.kv_type + " cells: ";
  if (!run.refused.empty()) return line("law", way + "cannot run here: " + run.refused);
  const auto rows = [](std::size_t used, std::size_t needed) {
    return counted(used, "row") + " (" + std::to_string(needed) + " needed)";
  };
  return line("law", way + (run.exact ? "exact, to the last bit"
                                      : "APPROXIMATE: " + run.approximate_reason)) +
         line("", "passes of at least " + rows(run.rows_min, run.rows_needed) +
                      ", logits of at least " + rows(run.logits_rows_min, run.logits_rows_needed)) +
         line("", run.lone_token_needs_shadow ? "attention has to see a token on its own twice"
                                              : "attention may see a token on its own once") +
         line("", counted(run.cell_bytes, "byte") + " of memory a token; the self-test took " +
                      std::to_string(std::lround(run.ms_self_test)) + " ms");
}

std::string result_text(const DoctorReport& report) {
  if (!report.is_proved()) return "not proved: no precision and cell type can run here";
  return report.is_well() ? "cached, batched and whole prompts agree to the last bit"
                          : "cached and whole prompts may DIFFER where it says APPROXIMATE";
}

}  // namespace

std::string doctor_text(const DoctorReport& report, std::string_view not_proved) {
  std::string text = machine_text(report) + models_text(report);
  for (const DoctorRun& run : report.runs) text += run_text(run);
  if (report.runs.empty()) return text + line("law", "not proved: " + std::string(not_proved));
  return text + line("result", result_text(report));
}

}  // namespace incipit::app
