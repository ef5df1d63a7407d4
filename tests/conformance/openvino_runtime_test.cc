// SPDX-License-Identifier: Apache-2.0
//
// The OpenVINO runtime on a model of two layers keeps the contract, in every precision that this
// CPU has. (On a real model: tests/integration.)
// Tests src/model/openvino_runtime.cc
// Tests src/model/openvino_machine.cc
// Tests src/model/graph_builder.cc
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "conformance/runtime_conformance.h"
#include "support/real_runtime.h"
#include "support/temp_dir.h"
#include "support/tiny_model.h"

namespace incipit::test {
namespace {

struct Kind {
  const char* name;
  const char* architecture;
  Precision precision;
  KvType kv_type;
};

// Compiled at the first use and kept: GoogleTest asks for the subjects once for each test.
model::Runtime& opened(const Kind& kind, std::uint64_t seed) {
  static std::map<std::string, RealRuntime> kept;
  const std::string name = std::string(kind.name) + std::to_string(seed);
  RealRuntime& real = kept[name];
  if (!real.runtime) {
    TinyModelOptions options{.architecture = kind.architecture, .context = 512, .seed = seed};
    if (options.architecture == "gemma3") {  // Prompts are longer than its window.
      options.window = 24;
      options.window_period = 2;
    }
    const std::string file = tiny_model_file(name, options);
    real = open_proved_runtime(file, {.precision = kind.precision,
                                      .kv_type = kind.kv_type,
                                      .cells = 2048,
                                      .home = test::scratch("tiny-home")});
  }
  return *real;
}

RuntimeUnderTest tiny(const Kind& kind) {
  return tiny_subject(
      kind.name, [kind](std::uint64_t seed) -> model::Runtime& { return opened(kind, seed); },
      1e-2F);
}

std::vector<RuntimeUnderTest> subjects() {
  std::vector<Kind> kinds{{"llama_f32", "llama", Precision::kF32, KvType::kF32},
                          {"qwen2_int8", "qwen2", Precision::kF32, KvType::kInt8},
                          {"gemma3_f32", "gemma3", Precision::kF32, KvType::kF32},
                          {"gemma3_int8", "gemma3", Precision::kF32, KvType::kInt8}};
  if (has_bf16()) {
    kinds.push_back({"llama_bf16", "llama", Precision::kBf16, KvType::kBf16});
    kinds.push_back({"gemma3_bf16", "gemma3", Precision::kBf16, KvType::kBf16});
  }
  std::vector<RuntimeUnderTest> all;
  for (const Kind& kind : kinds) all.push_back(tiny(kind));
  return all;
}

INSTANTIATE_TEST_SUITE_P(TinyOpenVino, RuntimeConformance, testing::ValuesIn(subjects()),
                         [](const auto& subject) { return subject.param.name; });

}  // namespace
}  // namespace incipit::test
