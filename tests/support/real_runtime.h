// SPDX-License-Identifier: Apache-2.0
//
// An OpenVINO runtime on a model file, with everything that must live as long as it does.
// Failures throw, which ends the test with the message.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "model/bit_law.h"
#include "model/model_shape.h"
#include "model/openvino_runtime.h"
#include "model/prepared_weights.h"

namespace incipit::test {

struct RealRuntimeOptions {
  Precision precision = Precision::kF32;
  KvType kv_type = KvType::kF32;
  std::size_t cells = 4096;
  std::size_t threads = 2;
  model::LawSettings law;
  // Changes what the graph is built from, so that a test can see what a part of it does.
  std::function<void(model::ModelShape&)> edit;
  bool shows_attention = false;
  std::string home;  // Where prepared weights are kept; empty: the cache directory of the tests.
};

struct RealRuntime {
  model::ModelShape shape;
  std::unique_ptr<model::PreparedWeights> weights;
  std::unique_ptr<model::OpenVinoRuntime> runtime;  // Destroyed before the weights.

  [[nodiscard]] model::OpenVinoRuntime& operator*() const { return *runtime; }
  [[nodiscard]] model::OpenVinoRuntime* operator->() const { return runtime.get(); }
};

// Compiles the model; the law is neither proved nor claimed.
RealRuntime open_runtime(const std::string& model, const RealRuntimeOptions& options);

// The same, with the law proved the way that the engine does it.
RealRuntime open_proved_runtime(const std::string& model, RealRuntimeOptions options);

// This CPU can compute in bf16.
[[nodiscard]] bool has_bf16();

}  // namespace incipit::test
