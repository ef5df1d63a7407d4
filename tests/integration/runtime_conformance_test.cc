// SPDX-License-Identifier: Apache-2.0
//
// Tests src/model/openvino_runtime.cc
// Tests src/model/openvino_machine.cc
// Tests src/model/llama_runtime.cc
//
// The runtimes keep the contract on real models, OpenVINO in every precision of this CPU.
#include "conformance/runtime_conformance.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "integration/law_scenario.h"
#include "support/installed_models.h"
#include "support/must.h"
#include "support/real_runtime.h"

namespace incipit::test {
namespace {

// Opened at the first use and kept: GoogleTest asks for the subjects once for each test.
model::Runtime& opened(const std::string& name, const std::string& path, Precision precision,
                       KvType kv_type) {
  static std::map<std::string, RealRuntime> kept;
  RealRuntime& real = kept[path + name];
  if (!real.runtime) {
    real = open_proved_runtime(path, {.precision = precision, .kv_type = kv_type, .cells = 1024});
  }
  return *real;
}

RuntimeUnderTest smollm_runtime(std::string name, Precision precision, KvType kv_type) {
  const auto open = [name, precision, kv_type]() -> model::Runtime& {
    return opened(name, smollm_path(), precision, kv_type);
  };
  return {.name = std::move(name),
          .open = open,
          .open_other = {},  // The model of two layers tries that.
          .tokens = {1, 17, 300, 9000, 28000, 49000},
          .prompt_tokens = 40,
          .operations = 60,
          .tolerance = 1e-1F};
}

std::vector<RuntimeUnderTest> subjects() {
  std::vector<RuntimeUnderTest> all;
  for (const Mode& mode : all_modes())
    all.push_back(smollm_runtime(mode.name, mode.precision, mode.kv_type));
  return all;
}

// libllama passes the suite on tiny models of floats (tests/conformance). Real files are quantised:
// it rounds activations to 8 bits, and on texts of random tokens a logit of SmolLM2 differed by up
// to 1.1, where two swapped tokens make 2.0. No tolerance between the two is safe on every CPU.
INSTANTIATE_TEST_SUITE_P(SmolLM2, RuntimeConformance, testing::ValuesIn(subjects()),
                         [](const auto& subject) { return subject.param.name; });

// Tiny Gemmas walk behind their window (tests/conformance); here it is the size of the real one's
// heads and vocabulary.
RuntimeUnderTest gemma_runtime(std::string name, Precision precision, KvType kv_type) {
  RuntimeUnderTest subject = smollm_runtime(std::move(name), precision, kv_type);
  subject.open = [name = subject.name, precision, kv_type]() -> model::Runtime& {
    return opened(name, gemma_path(), precision, kv_type);
  };
  subject.tokens = {2, 17, 300, 9000, 90000, 250000};
  subject.prompt_tokens = 24;
  subject.operations = 20;
  return subject;
}

std::vector<RuntimeUnderTest> gemmas() {
  std::vector<RuntimeUnderTest> all;
  for (const Mode& mode : float_modes())
    all.push_back(gemma_runtime(mode.name, mode.precision, mode.kv_type));
  return all;
}

INSTANTIATE_TEST_SUITE_P(Gemma, RuntimeConformance, testing::ValuesIn(gemmas()),
                         [](const auto& subject) { return subject.param.name; });

}  // namespace
}  // namespace incipit::test
