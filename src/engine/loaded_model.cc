// SPDX-License-Identifier: Apache-2.0
#include "engine/loaded_model.h"

#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <utility>

#include "base/elapsed.h"
#include "base/hash.h"
#include "model/cpu.h"
#include "model/gguf_file.h"
#include "model/graph_builder.h"
#include "model/libllama.h"
#include "model/llama_runtime.h"
#include "model/model_cache.h"
#include "model/type_names.h"

namespace incipit::engine {
namespace {

struct Numbers {
  Precision precision = Precision::kF32;
  KvType kv_type = KvType::kF32;
};

Result<Numbers> choose_precision(const EngineOptions& options) {
  const bool bf16 = can_compute_bf16();
  if (options.precision == Precision::kBf16 && !bf16) {
    return failure(ErrorCode::kInvalidArgument,
                   "this CPU cannot compute in bf16 (it has neither avx512_bf16 nor amx_bf16); use "
                   "--precision f32");
  }
  Numbers numbers;
  numbers.precision = options.precision != Precision::kAuto ? options.precision
                      : bf16                                ? Precision::kBf16
                                                            : Precision::kF32;
  const bool pass_is_bf16 = numbers.precision == Precision::kBf16;
  if (options.kv_type == KvType::kAuto) {
    numbers.kv_type = pass_is_bf16 ? KvType::kBf16 : KvType::kF32;
    return numbers;
  }
  numbers.kv_type = options.kv_type;
  // Cells of another precision than the pass are rounded on one way and not on the other.
  if (numbers.kv_type != KvType::kInt8 && (numbers.kv_type == KvType::kBf16) != pass_is_bf16) {
    return failure(ErrorCode::kInvalidArgument,
                   "KV cells of type " + model::name_of(numbers.kv_type) +
                       " do not keep results exact in " + model::name_of(numbers.precision) +
                       " passes; use --kv-type auto or int8");
  }
  return numbers;
}

Result<void> open_openvino(const EngineOptions& options, const model::GgufFile& gguf,
                           const model::ModelShape& shape, const std::string& home,
                           LoadedModel& loaded) {
  INCIPIT_TRY(const Numbers numbers, choose_precision(options));
  INCIPIT_TRY(const std::string folder, model::prepared_folder(home, loaded.sha256));
  INCIPIT_TRY(loaded.weights, model::PreparedWeights::open(gguf, shape, folder + "/weights",
                                                           loaded.threads, options.on_event));
  // In f32 the kernels change with the second row, in bf16 later; prove_law() goes up from here.
  const std::size_t rows = numbers.precision == Precision::kBf16 ? 8 : 2;
  const std::string identity =
      Sha256().field(loaded.sha256).field(model::cpu_facts().instructions_text()).hex();
  INCIPIT_TRY(auto runtime,
              model::OpenVinoRuntime::open(shape, *loaded.weights,
                                           {.precision = numbers.precision,
                                            .kv_type = numbers.kv_type,
                                            .cells = options.ctx_size,
                                            .threads = loaded.threads,
                                            .law = {.rows_min = rows, .logits_rows_min = rows},
                                            .exact = false,
                                            .approximate_reason = "not proved yet",
                                            .shows_attention = options.shows_attention,
                                            .identity = identity,
                                            .model = loaded.sha256}));
  loaded.weights->release_pages();
  Sha256 named;
  named.field(runtime->fingerprint())
      .field(model::kGraphRevision)
      .field(std::uint64_t{loaded.threads});
  if (options.shows_attention) named.field("attention");  // A graph of its own has its own proof.
  const std::string key = named.hex().substr(0, 16);
  INCIPIT_TRY(loaded.law, model::prove_law(*runtime, folder + "/law-" + key));
  if (options.on_event && !loaded.law.is_kept) {
    options.on_event(loaded.law.exact
                         ? "proved on this CPU that cached and whole prompts agree to the bit"
                         : "results are approximate: " + loaded.law.reason);
  }
  loaded.runtime_name = model::OpenVinoMachine::library_version();
  loaded.precision_name = model::name_of(numbers.precision);
  loaded.kv_type_name = model::name_of(numbers.kv_type);
  loaded.openvino = runtime.get();
  loaded.runtime = std::move(runtime);
  return {};
}

Result<void> open_llama(const EngineOptions& options, LoadedModel& loaded) {
  if (options.precision != Precision::kAuto) {
    return failure(ErrorCode::kInvalidArgument,
                   "--precision " + model::name_of(options.precision) +
                       ": libllama computes with the numbers that the file has; leave it out");
  }
  if (options.shows_attention)
    return failure(ErrorCode::kInvalidArgument,
                   "shows_attention: libllama does not show its attention; leave it out");
  INCIPIT_TRY(auto runtime, model::LlamaRuntime::open(options.model, {.kv_type = options.kv_type,
                                                                      .cells = options.ctx_size,
                                                                      .threads = loaded.threads,
                                                                      .identity = loaded.sha256}));
  loaded.runtime_name = model::libllama_version();
  loaded.precision_name = "as in the file";
  loaded.kv_type_name = options.kv_type == KvType::kAuto ? "f16" : model::name_of(options.kv_type);
  loaded.runtime = std::move(runtime);
  return {};
}

struct Choice {
  std::optional<model::ModelShape> shape;  // Empty: libllama runs the model.
  std::string refusal;  // Why OpenVINO does not, where nobody asked for libllama.
};

// OpenVINO where it can, unless libllama was asked for.
Result<Choice> choose_runtime(const EngineOptions& options, const model::GgufFile& gguf) {
  if (options.runtime == RuntimeKind::kLlama) return Choice{};
  auto shape = model::read_model_shape(gguf);
  if (shape) return Choice{.shape = std::move(*shape), .refusal = ""};
  if (options.runtime == RuntimeKind::kOpenVino || !model::is_of_another_kind(gguf))
    return std::unexpected(shape.error());
  return Choice{.shape = std::nullopt, .refusal = shape.error().message + " by OpenVINO; "};
}

Result<void> open_runtime(const EngineOptions& options, const model::GgufFile& gguf,
                          const Choice& choice, LoadedModel& loaded) {
  const std::string home = model::cache_home(options.home);
  INCIPIT_TRY(loaded.sha256, model::remembered_sha256(options.model, home));
  if (choice.shape) return open_openvino(options, gguf, *choice.shape, home, loaded);
  const auto opened = open_llama(options, loaded);
  if (!opened) return failure(opened.error().code, choice.refusal + opened.error().message);
  if (options.on_event && !choice.refusal.empty())
    options.on_event(choice.refusal + "libllama runs it, and results are approximate");
  return {};
}

}  // namespace

Result<std::unique_ptr<LoadedModel>> load_model(const EngineOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  auto loaded = std::make_unique<LoadedModel>();
  loaded->file = options.model;
  loaded->threads = options.threads == 0 ? model::usable_cores() : options.threads;
  if (options.ctx_size < 64 || options.ctx_size > (std::size_t{1} << 30U)) {
    return failure(ErrorCode::kInvalidArgument,
                   "--ctx-size " + std::to_string(options.ctx_size) +
                       " is out of range; use 64 to 1073741824 tokens");
  }
  if (!model::cpu_facts().has("avx2")) {
    return failure(ErrorCode::kUnavailable,
                   "this CPU (" + model::cpu_facts().name +
                       ") lacks avx2, which OpenVINO and this build of libllama need");
  }
  INCIPIT_TRY(const auto gguf, model::GgufFile::open(options.model));
  loaded->bytes = gguf->bytes();
  loaded->architecture = gguf->text("general.architecture").value_or("");
  INCIPIT_TRY(const Choice choice, choose_runtime(options, *gguf));
  // The vocabulary takes as long as a third of the compilation and needs nothing of it.
  auto vocabulary =
      std::async(std::launch::async, [&] { return model::Tokenizer::open(options.model); });
  const auto opened = open_runtime(options, *gguf, choice, *loaded);
  auto tokenizer = vocabulary.get();  // Always waited for: the thread reads our locals.
  if (!opened) return std::unexpected(opened.error());
  // What is wrong with vocabulary or template is wrong with the file, not with the request.
  if (!tokenizer) return failure(ErrorCode::kCorruption, tokenizer.error().message);
  loaded->tokenizer = std::move(*tokenizer);
  auto chat_template = model::ChatTemplate::of(*loaded->tokenizer);
  if (!chat_template) return failure(ErrorCode::kCorruption, chat_template.error().message);
  loaded->chat_template = std::move(*chat_template);
  loaded->ms_load = ms_since(begin);
  return loaded;
}

bool can_compute_bf16() {
  const model::CpuFacts& cpu = model::cpu_facts();
  return (cpu.has("avx512_bf16") || cpu.has("amx_bf16")) && model::OpenVinoMachine::has_bf16();
}

}  // namespace incipit::engine
