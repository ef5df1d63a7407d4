// SPDX-License-Identifier: Apache-2.0
#include "support/real_runtime.h"

#include <unistd.h>

#include <filesystem>

#include "engine/loaded_model.h"
#include "model/gguf_file.h"
#include "model/model_cache.h"
#include "support/installed_models.h"
#include "support/must.h"
#include "support/temp_dir.h"

namespace incipit::test {
RealRuntime open_runtime(const std::string& model, const RealRuntimeOptions& options) {
  const auto gguf = must(model::GgufFile::open(model));
  RealRuntime real{.shape = must(model::read_model_shape(*gguf)), .weights = {}, .runtime = {}};
  if (options.edit) options.edit(real.shape);
  const std::string cache = options.home.empty() ? home() : options.home;
  const std::string sha256 = must(model::remembered_sha256(model, cache));
  const std::string folder = must(model::prepared_folder(cache, sha256));
  real.weights = must(
      model::PreparedWeights::open(*gguf, real.shape, folder + "/weights", options.threads, {}));
  real.runtime = must(model::OpenVinoRuntime::open(real.shape, *real.weights,
                                                   {.precision = options.precision,
                                                    .kv_type = options.kv_type,
                                                    .cells = options.cells,
                                                    .threads = options.threads,
                                                    .law = options.law,
                                                    .exact = false,
                                                    .approximate_reason = "not proved in this test",
                                                    .shows_attention = options.shows_attention,
                                                    .identity = sha256,
                                                    .model = sha256}));
  return real;
}

RealRuntime open_proved_runtime(const std::string& model, RealRuntimeOptions options) {
  const std::size_t rows = options.precision == Precision::kBf16 ? 8 : 2;
  options.law.rows_min = rows;
  options.law.logits_rows_min = rows;
  RealRuntime real = open_runtime(model, options);
  const std::string proof = scratch("law");
  std::filesystem::remove(proof);
  must(model::prove_law(*real, proof));
  std::filesystem::remove(proof);
  return real;
}

bool has_bf16() { return engine::can_compute_bf16(); }

}  // namespace incipit::test
