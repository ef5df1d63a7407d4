// SPDX-License-Identifier: Apache-2.0
#include "support/real_runtime.h"

#include <unistd.h>

#include <filesystem>
#include <stdexcept>
#include <utility>

#include "model/cpu.h"
#include "model/gguf_file.h"
#include "model/model_cache.h"
#include "support/installed_models.h"

namespace incipit::test {
namespace {

template <typename T>
T value_of(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

}  // namespace

RealRuntime open_runtime(const std::string& model, const RealRuntimeOptions& options) {
  const auto gguf = value_of(model::GgufFile::open(model));
  RealRuntime real{.shape = value_of(model::read_model_shape(*gguf)), .weights = {}, .runtime = {}};
  const std::string cache = options.home.empty() ? home() : options.home;
  const std::string sha256 = value_of(model::remembered_sha256(model, cache));
  const std::string folder = value_of(model::prepared_folder(cache, sha256));
  real.weights = value_of(
      model::PreparedWeights::open(*gguf, real.shape, folder + "/weights", options.threads, {}));
  real.runtime =
      value_of(model::OpenVinoRuntime::open(real.shape, *real.weights,
                                            {.precision = options.precision,
                                             .kv_type = options.kv_type,
                                             .cells = options.cells,
                                             .threads = options.threads,
                                             .law = options.law,
                                             .exact = false,
                                             .approximate_reason = "not proved in this test",
                                             .identity = sha256}));
  return real;
}

RealRuntime open_proved_runtime(const std::string& model, RealRuntimeOptions options) {
  const std::size_t rows = options.precision == Precision::kBf16 ? 8 : 2;
  options.law.rows_min = rows;
  options.law.logits_rows_min = rows;
  RealRuntime real = open_runtime(model, options);
  const std::string proof =
      (std::filesystem::temp_directory_path() / ("incipit-law-" + std::to_string(::getpid())))
          .string();
  std::filesystem::remove(proof);
  value_of(model::prove_law(*real, proof));
  std::filesystem::remove(proof);
  return real;
}

bool has_bf16() {
  const model::CpuFacts& cpu = model::cpu_facts();
  return model::OpenVinoMachine::has_bf16() && (cpu.has("avx512_bf16") || cpu.has("amx_bf16"));
}

}  // namespace incipit::test
