// SPDX-License-Identifier: Apache-2.0
//
// incipit doctor: what this machine can do, and whether the promise holds on it.
#include "incipit/doctor.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <string>

#include "incipit/command.h"
#include "incipit/doctor_output.h"
#include "incipit/engine_flags.h"
#include "incipit/exit_code.h"

namespace incipit::app {
namespace {

constexpr const char* kDescription =
    "Shows what this machine can do, and proves with a model that cached, batched and whole "
    "prompts "
    "agree to the last bit. The proof takes some seconds for each precision.";

constexpr const char* kFooter =
    "Example:\n  incipit doctor -m model.gguf\n\n"
    "Exit codes: 0 the promise holds, or there was nothing to prove; 2 usage; 3 the model cannot "
    "be "
    "used; 4 the promise does not hold.";

// Why nothing was proved, where it was not.
std::string not_proved(bool machine_only, bool is_there, const std::string& model) {
  if (machine_only) return "--machine-only loads no model";
  if (!is_there) return "there is no model at " + model + "; name one with --model";
  return "this model runs on libllama, which is approximate and makes no promise";
}

int exit_code(const DoctorReport& report) {
  if (!report.is_well()) return kExitMismatch;
  return report.runs.empty() || report.is_proved() ? kExitDone : kExitFailed;
}

}  // namespace

int run_doctor(std::span<const std::string> arguments, const Surroundings& around) {
  CLI::App app(kDescription, "incipit doctor");
  app.footer(kFooter);
  std::string model;
  bool machine_only = false;
  app.add_option("-m,--model", model,
                 "The model, a GGUF file. By default the one that ./dev fetched, if it is there: " +
                     default_model())
      ->type_name("FILE");
  app.add_flag("--machine-only", machine_only,
               "Look at the machine and the model files only; load no model.");
  if (const auto over = parse_flags(app, arguments, around)) return *over;
  EngineOptions options;
  options.model = model.empty() ? default_model() : model;
  const bool is_there = !model.empty() || std::filesystem::exists(options.model);
  if (machine_only || !is_there) options.model.clear();
  options.on_event = notices(around);
  const auto report = around.examine(options);
  if (!report) return fail(report.error(), around);
  const std::string reason = not_proved(machine_only, is_there, default_model());
  std::fputs(doctor_text(*report, reason).c_str(), around.out);
  return exit_code(*report);
}

}  // namespace incipit::app
