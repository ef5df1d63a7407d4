// SPDX-License-Identifier: Apache-2.0
//
// A model file made ready: checked, prepared, compiled, its law proved, its vocabulary read.
//
// OpenVINO runs what its graph builder knows; libllama the rest, or where it was asked for.
// Everything that a start needs stands here in one function, with its time. The second start of
// a model finds its weights, hash and proof in the cache directory.
// The runtime is confined to one thread at a time; the rest may be read by any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <semaphore>
#include <string>

#include "incipit/options.h"
#include "incipit/result.h"
#include "model/bit_law.h"
#include "model/chat_template.h"
#include "model/model_shape.h"
#include "model/openvino_runtime.h"
#include "model/prepared_weights.h"
#include "model/tokenizer.h"

namespace incipit::engine {

struct LoadedModel {
  // Destroyed from the last to the first: the runtime uses the weights.
  std::string file;
  std::string sha256;
  std::uint64_t bytes = 0;
  std::string architecture;
  std::string runtime_name;    // Library and version.
  std::string precision_name;  // As reports spell it.
  std::string kv_type_name;
  std::size_t threads = 1;
  double ms_load = 0;
  model::LawProof law;  // Of OpenVINO.
  std::unique_ptr<model::Tokenizer> tokenizer;
  std::unique_ptr<model::ChatTemplate> chat_template;
  std::unique_ptr<model::PreparedWeights> weights;  // Null with libllama.
  std::unique_ptr<model::Runtime> runtime;
  model::OpenVinoRuntime* openvino = nullptr;  // `runtime`, where it is that one.
  std::binary_semaphore is_unserved{1};        // Taken by the ServedModel that runs it.
};

// Errors: as Engine::open().
Result<std::unique_ptr<LoadedModel>> load_model(const EngineOptions& options);

// Whether OpenVINO and the CPU both say so.
[[nodiscard]] bool can_compute_bf16();

}  // namespace incipit::engine
