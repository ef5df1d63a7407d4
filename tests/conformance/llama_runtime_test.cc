// SPDX-License-Identifier: Apache-2.0
//
// The libllama runtime on a model of two layers keeps the contract, within a tolerance, in every
// KV type. (On real models: tests/integration.)
// Tests src/model/llama_runtime.cc
// Tests src/model/llama_machine.cc
// Tests src/model/libllama.cc
#include "model/llama_runtime.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/hash.h"
#include "conformance/runtime_conformance.h"
#include "model/libllama.h"
#include "support/must.h"
#include "support/tiny_model.h"

namespace incipit::test {
namespace {

using model::LlamaRuntime;
using model::Sequence;
using model::Step;

struct Kind {
  const char* name;
  const char* architecture;
  KvType kv_type;
  float tolerance;
  std::uint32_t window = 0;
};

std::unique_ptr<LlamaRuntime> open_tiny(const Kind& kind, std::uint64_t seed, std::size_t cells) {
  const std::string name = std::string("llama-") + kind.name + std::to_string(seed);
  TinyModelOptions tiny{.architecture = kind.architecture, .context = 512, .seed = seed};
  if (kind.window > 0) {
    tiny.window = kind.window;
    tiny.window_period = 2;
  }
  const std::string file = tiny_model_file(name, tiny);
  return must(LlamaRuntime::open(
      file, {.kv_type = kind.kv_type, .cells = cells, .threads = 2, .identity = name}));
}

// Opened at the first use and kept: GoogleTest asks for the subjects once for each test.
model::Runtime& opened(const Kind& kind, std::uint64_t seed) {
  static std::map<std::string, std::unique_ptr<LlamaRuntime>> kept;
  auto& runtime = kept[std::string(kind.name) + std::to_string(seed)];
  if (!runtime) runtime = open_tiny(kind, seed, 2048);
  return *runtime;
}

RuntimeUnderTest tiny(const Kind& kind) {
  const auto open = [kind](std::uint64_t seed) {
    return [kind, seed]() -> model::Runtime& { return opened(kind, seed); };
  };
  return {.name = kind.name,
          .open = open(1),
          .open_other = open(2),
          .tokens = {3, 40, 70, 100, 200, 280},
          .prompt_tokens = 70,
          .operations = 300,
          .tolerance = kind.tolerance};
}

const Kind kPlain{"llama_f32", "llama", KvType::kF32, 3e-3F};
const Kind kWindowed{"gemma3_window", "gemma3", KvType::kF32, 3e-3F, 16};

INSTANTIATE_TEST_SUITE_P(TinyLlama, RuntimeConformance,
                         testing::Values(tiny(kPlain),
                                         tiny({"llama_f16", "llama", KvType::kAuto, 3e-3F}),
                                         tiny({"qwen2_int8", "qwen2", KvType::kInt8, 1.2e-2F}),
                                         tiny({"qwen2_bf16", "qwen2", KvType::kBf16, 3e-3F}),
                                         tiny(kWindowed)),
                         [](const auto& subject) { return subject.param.name; });

}  // namespace
}  // namespace incipit::test
