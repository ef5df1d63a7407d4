// SPDX-License-Identifier: Apache-2.0
#include "incipit/doctor.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/counted.h"
#include "base/memory.h"
#include "engine/loaded_model.h"
#include "model/bit_law.h"
#include "model/cpu.h"
#include "model/gguf_file.h"
#include "model/libllama.h"
#include "model/llama_machine.h"
#include "model/model_cache.h"
#include "model/type_names.h"

namespace incipit {
namespace {

std::string summary_of(const std::string& architecture, const std::size_t (&numbers)[4]) {
  return architecture + ", " + counted(numbers[0], "layer") + ", width " +
         std::to_string(numbers[1]) + ", vocabulary " + std::to_string(numbers[2]) + ", context " +
         std::to_string(numbers[3]);
}

// What libllama makes of a model that OpenVINO refuses.
void ask_libllama(const model::GgufFile& gguf, DoctorModel& result) {
  if (!model::is_of_another_kind(gguf)) return;
  const auto facts = model::LlamaMachine::look_at(gguf.path());
  if (!facts) {
    result.refused += " by OpenVINO; " + facts.error().message;
    return;
  }
  result.refused.clear();
  result.is_approximate = true;
  result.summary = summary_of(
      facts->architecture, {facts->layers, facts->width, facts->vocabulary, facts->context_tokens});
}

DoctorModel look_at(const std::string& path) {
  DoctorModel result{.file = path, .bytes = 0, .summary = "", .refused = ""};
  const auto gguf = model::GgufFile::open(path);
  if (!gguf) {
    result.refused = gguf.error().message;
    return result;
  }
  result.bytes = (*gguf)->bytes();
  const auto shape = model::read_model_shape(**gguf);
  if (!shape) {
    result.refused = shape.error().message;
    ask_libllama(**gguf, result);
    return result;
  }
  result.summary = summary_of(
      shape->architecture, {shape->layers, shape->width, shape->vocabulary, shape->context_tokens});
  return result;
}

std::vector<DoctorModel> find_models(const std::string& home, const std::string& asked) {
  std::vector<std::string> paths;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(home + "/models", code)) {
    if (entry.path().extension() == ".gguf") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  if (!asked.empty() && std::find(paths.begin(), paths.end(), asked) == paths.end())
    paths.push_back(asked);
  std::vector<DoctorModel> models;
  for (const std::string& path : paths) models.push_back(look_at(path));
  return models;
}

Result<DoctorRun> run_model(EngineOptions options, Precision precision, KvType kv_type) {
  DoctorRun run;
  run.precision = model::name_of(precision);
  run.kv_type = model::name_of(kv_type);
  options.precision = precision;
  options.kv_type = kv_type;
  const auto loaded = engine::load_model(options);
  if (!loaded) {
    run.refused = loaded.error().message;
    return run;
  }
  const model::LawProof& law = (*loaded)->law;
  run.exact = law.exact;
  run.approximate_reason = law.reason;
  run.rows_min = law.settings.rows_min;
  run.logits_rows_min = law.settings.logits_rows_min;
  run.ms_self_test = law.ms;
  run.cell_bytes = (*loaded)->runtime->limits().cell_bytes;
  INCIPIT_TRY(const model::LawMeasurement measured, model::measure_law(*(*loaded)->openvino));
  run.rows_needed = measured.rows_min;
  run.logits_rows_needed = measured.logits_rows_min;
  run.lone_token_needs_shadow = measured.lone_token_needs_shadow;
  // A proof that was kept is not believed here: the law is tried again.
  INCIPIT_TRY(const bool holds, model::keeps_the_law(*(*loaded)->openvino));
  if (run.exact && !holds) {
    run.exact = false;
    run.approximate_reason =
        "the kept self-test said exact, but the law does not hold now; delete " + options.home +
        "/prepared and start again";
  }
  return run;
}

}  // namespace

Result<DoctorReport> examine(const EngineOptions& options) {
  const model::CpuFacts& cpu = model::cpu_facts();
  DoctorReport report;
  report.cpu = cpu.name;
  report.instructions = cpu.instructions_text();
  report.broken_instructions = cpu.broken;
  report.cores = model::usable_cores();
  report.memory_available_bytes = available_memory_bytes();
  report.home = model::cache_home(options.home);
  report.runtime = model::OpenVinoMachine::library_version();
  report.other_runtime = model::libllama_version();
  report.precisions = {"f32"};
  if (engine::can_compute_bf16()) report.precisions.emplace_back("bf16");
  report.models = find_models(report.home, options.model);
  if (!options.model.empty()) {
    const auto asked = std::ranges::find(report.models, options.model, &DoctorModel::file);
    if (!asked->refused.empty()) return failure(ErrorCode::kUnavailable, asked->refused);
    if (asked->is_approximate) {
      report.memory_peak_bytes = peak_memory_bytes();
      return report;
    }
    EngineOptions each = options;
    each.home = report.home;
    const std::pair<Precision, KvType> ways[] = {{Precision::kBf16, KvType::kBf16},
                                                 {Precision::kBf16, KvType::kInt8},
                                                 {Precision::kF32, KvType::kF32},
                                                 {Precision::kF32, KvType::kInt8}};
    for (const auto& [precision, kv_type] : ways) {
      if (options.on_event) {
        options.on_event("proving the law in " + model::name_of(precision) + " with " +
                         model::name_of(kv_type) + " cells (some seconds)");
      }
      INCIPIT_TRY(DoctorRun run, run_model(each, precision, kv_type));
      report.runs.push_back(std::move(run));
    }
  }
  report.memory_peak_bytes = peak_memory_bytes();
  return report;
}

}  // namespace incipit
