// SPDX-License-Identifier: Apache-2.0
#include "incipit/engine_flags.h"

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "incipit/flag_value.h"

namespace incipit::app {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string default_model() {
  std::string home = variable("INCIPIT_HOME");
  if (home.empty()) {
    const std::string cache = variable("XDG_CACHE_HOME");
    home = (cache.empty() ? variable("HOME") + "/.cache" : cache) + "/incipit";
  }
  return home + "/models/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf";
}

void add_engine_flags(CLI::App& app, EngineFlags& flags) {
  flags.model = default_model();
  app.add_option("-m,--model", flags.model, "The model, a GGUF file.")
      ->type_name("FILE")
      ->group("Model")
      ->capture_default_str();
  app.add_option("--runtime", flags.runtime,
                 "What computes: openvino is exact to the bit and knows few architectures, llama "
                 "(libllama) knows many and is approximate; auto takes llama where it must.")
      ->type_name("auto|openvino|llama")
      ->group("Model")
      ->capture_default_str();
  app.add_option(
         "--precision", flags.precision,
         "What the model computes in: bf16 is fastest for many rows, f32 for one; auto takes "
         "bf16 where the processor has it, else f32.")
      ->type_name("auto|bf16|f32")
      ->group("Model")
      ->capture_default_str();
  app.add_option("--kv-type", flags.kv_type,
                 "What KV cells are stored in; int8 needs the least memory.")
      ->type_name("auto|f32|bf16|int8")
      ->group("Model")
      ->capture_default_str();
  app.add_option(
         "-c,--ctx-size", flags.ctx_size,
         "How many tokens have KV cells at a time: the shared prompt and all rows of a pass.")
      ->type_name("N")
      ->group("Model")
      ->capture_default_str();
  app.add_option("-t,--threads", flags.threads, "Threads; by default one for each usable core.")
      ->type_name("N")
      ->check(CLI::Range(0, 1024))
      ->group("Model");
}

Result<EngineOptions> engine_options(const EngineFlags& flags) {
  EngineOptions options;
  options.model = flags.model;
  options.ctx_size = flags.ctx_size;
  options.threads = flags.threads;
  INCIPIT_TRY(options.runtime, choose<RuntimeKind>("--runtime", flags.runtime,
                                                   {{"auto", RuntimeKind::kAuto},
                                                    {"openvino", RuntimeKind::kOpenVino},
                                                    {"llama", RuntimeKind::kLlama}}));
  INCIPIT_TRY(options.precision, choose<Precision>("--precision", flags.precision,
                                                   {{"auto", Precision::kAuto},
                                                    {"bf16", Precision::kBf16},
                                                    {"f32", Precision::kF32}}));
  INCIPIT_TRY(options.kv_type, choose<KvType>("--kv-type", flags.kv_type,
                                              {{"auto", KvType::kAuto},
                                               {"f32", KvType::kF32},
                                               {"bf16", KvType::kBf16},
                                               {"int8", KvType::kInt8}}));
  return options;
}

}  // namespace incipit::app
