// SPDX-License-Identifier: Apache-2.0
#include "model/llama_machine.h"

#include <ggml-cpu.h>
#include <llama.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "base/check.h"
#include "base/memory.h"
#include "model/libllama.h"

namespace incipit::model {
namespace {

// More rows than this take no less time each, and activations grow with them.
constexpr std::uint32_t kPassRowsMax = 512;

// The bytes of a saved sequence begin with a magic number and a sequence's number; each of its
// parts begins with a count of streams, which is one, and a count of cells.
constexpr std::size_t kStateHeadBytes = 8;

std::uint32_t word(std::span<const std::byte> bytes, std::size_t at) {
  std::uint32_t value = 0;
  if (at + sizeof(value) <= bytes.size()) std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

// From one cell's position to the next one's, in the saved cells of positions 0 and 1. Each is
// followed by a count of sequences, which is one, and by what some models add.
std::size_t place_bytes(std::span<const std::byte> two_cells) {
  constexpr std::size_t kFirst = kStateHeadBytes + 8;
  for (std::size_t bytes = 12; bytes <= 64; bytes += 4) {
    if (word(two_cells, kFirst + bytes) == 1 && word(two_cells, kFirst + bytes + 4) == 1)
      return bytes;
  }
  return 0;
}

ggml_type type_of(KvType type) {
  switch (type) {
    case KvType::kAuto:
      return GGML_TYPE_F16;
    case KvType::kF32:
      return GGML_TYPE_F32;
    case KvType::kBf16:
      return GGML_TYPE_BF16;
    case KvType::kInt8:
      return GGML_TYPE_Q8_0;
  }
  return GGML_TYPE_F16;
}

llama_context_params context_params(const LlamaOptions& options, std::size_t sequences) {
  llama_context_params params = llama_context_default_params();
  params.n_ctx = static_cast<std::uint32_t>(options.cells);
  params.n_batch = kPassRowsMax;
  params.n_ubatch = kPassRowsMax;
  params.n_seq_max = static_cast<std::uint32_t>(sequences);
  params.n_outputs_max = static_cast<std::uint32_t>(sequences);
  params.n_threads = static_cast<std::int32_t>(options.threads);
  params.n_threads_batch = params.n_threads;
  params.type_k = type_of(options.kv_type);
  params.type_v = params.type_k;
  // Quantised values need it; elsewhere its kernels for one row and for many differ a hundred times
  // more than those of ordinary attention.
  params.flash_attn_type = options.kv_type == KvType::kInt8 ? LLAMA_FLASH_ATTN_TYPE_ENABLED
                                                            : LLAMA_FLASH_ATTN_TYPE_DISABLED;
  params.swa_full = true;    // A cut to any earlier position must find its window.
  params.kv_unified = true;  // Forks share cells.
  params.no_perf = true;
  return params;
}

std::string text_of(const llama_model* model, const char* key) {
  char text[128];
  return llama_model_meta_val_str(model, key, text, sizeof(text)) < 0 ? "" : text;
}

// The reasons that are known of a model before it computes anything.
std::string why_not(const llama_model* model) {
  if (llama_model_is_recurrent(model))
    return "is recurrent: its state cannot go back to an earlier token, so no prompt could share "
           "another one's opening";
  if (llama_model_is_hybrid(model))
    return "has recurrent layers: their state cannot go back to an earlier token, so no prompt "
           "could share another one's opening";
  if (llama_model_is_diffusion(model)) return "does not write from left to right";
  if (llama_model_has_encoder(model) || !llama_model_has_decoder(model))
    return "has an encoder; only models that continue a text can be used";
  return "";
}

}  // namespace

struct LlamaMachine::Parts {
  llama_model* model = nullptr;
  ggml_threadpool* threads = nullptr;
  llama_context* context = nullptr;

  Parts() = default;
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  ~Parts() {
    close();
    llama_model_free(model);
  }
  void close() {
    if (context != nullptr) llama_free(std::exchange(context, nullptr));
    if (threads != nullptr) ggml_threadpool_free(std::exchange(threads, nullptr));
  }
  [[nodiscard]] llama_memory_t memory() const { return llama_get_memory(context); }
};

LlamaMachine::LlamaMachine() : parts_(std::make_unique<Parts>()) {}
LlamaMachine::~LlamaMachine() = default;

Result<std::unique_ptr<LlamaMachine>> LlamaMachine::open(const std::string& path,
                                                         const LlamaOptions& options) {
  std::unique_ptr<LlamaMachine> machine(new LlamaMachine());
  try {
    INCIPIT_TRY_VOID(machine->load(path, true));
    INCIPIT_TRY_VOID(machine->try_verbs(options));
    INCIPIT_TRY_VOID(machine->make_context(options));
  } catch (const std::exception& problem) {
    return failure(ErrorCode::kUnavailable,
                   path + ": libllama cannot run this model: " + problem.what());
  }
  return machine;
}

Result<LlamaFacts> LlamaMachine::look_at(const std::string& path) {
  std::unique_ptr<LlamaMachine> machine(new LlamaMachine());
  try {
    INCIPIT_TRY_VOID(machine->load(path, false));
  } catch (const std::exception& problem) {
    return failure(ErrorCode::kUnavailable,
                   path + ": libllama cannot read this model: " + problem.what());
  }
  return machine->facts();
}

Result<void> LlamaMachine::load(const std::string& path, bool weights) {
  prepare_libllama();
  llama_model_params params = llama_model_default_params();
  params.n_gpu_layers = 0;
  params.no_alloc = !weights;
  if (!weights) params.load_mode = LLAMA_LOAD_MODE_NONE;
  parts_->model = llama_model_load_from_file(path.c_str(), params);
  if (parts_->model == nullptr) {
    return failure(ErrorCode::kUnavailable,
                   path +
                       ": libllama cannot load this model; either it does not know the "
                       "architecture, or keys or tensors are missing");
  }
  const llama_model* model = parts_->model;
  facts_.architecture = text_of(model, "general.architecture");
  if (const std::string reason = why_not(model); !reason.empty()) {
    return failure(ErrorCode::kUnavailable,
                   path + ": the architecture \"" + facts_.architecture + "\" " + reason);
  }
  facts_.vocabulary = static_cast<std::size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model)));
  facts_.context_tokens = static_cast<std::size_t>(llama_model_n_ctx_train(model));
  facts_.layers = static_cast<std::size_t>(llama_model_n_layer(model));
  facts_.width = static_cast<std::size_t>(llama_model_n_embd(model));
  facts_.window = static_cast<std::size_t>(std::max(0, llama_model_n_swa(model)));
  const std::size_t sequences = llama_max_parallel_sequences();
  facts_.slots = sequences / static_cast<std::size_t>(sequences_per_slot());
  return {};
}

// Every verb once on a few tokens. What libllama cannot do with this model shows here, and not in
// the middle of somebody's answer. Also measures what a cell takes.
Result<void> LlamaMachine::try_verbs(const LlamaOptions& options) {
  const auto declined = [this](const std::string& what) {
    return failure(ErrorCode::kUnavailable, "the architecture \"" + facts_.architecture +
                                                "\" cannot be used with libllama: " + what);
  };
  LlamaOptions small = options;
  small.cells = 256;
  parts_->context = llama_init_from_model(parts_->model, context_params(small, 8));
  if (parts_->context == nullptr) return declined("it makes no context with these KV cells");
  const llama_memory_t memory = parts_->memory();
  if (memory == nullptr) return declined("it has no KV cache");
  const LlamaRow rows[] = {
      {.token = 0, .position = 0}, {.token = 0, .position = 1}, {.token = 0, .position = 2}};
  INCIPIT_TRY_VOID(decode(rows));
  if (!llama_memory_seq_rm(memory, 0, 2, -1) || llama_memory_seq_pos_max(memory, 0) != 1 ||
      llama_memory_seq_pos_min(memory, 0) != 0)
    return declined("its state cannot go back to an earlier token");
  share(0, 1, 0, 1);
  if (llama_memory_seq_pos_max(memory, sequence(1, 0)) != 0)
    return declined("its cells cannot be shared");
  const auto measure = [&](llama_state_seq_flags flags) {
    const std::size_t one = llama_state_seq_get_size_ext(parts_->context, sequence(1, 0), flags);
    const std::size_t two = llama_state_seq_get_size_ext(parts_->context, sequence(0, 0), flags);
    return LlamaStateSize{.base = 2 * one - two, .cell = two - one};
  };
  facts_.state = measure(LLAMA_STATE_SEQ_FLAGS_NONE);
  if (facts_.window > 0) facts_.window_state = measure(LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY);
  std::vector<std::byte> bytes(facts_.state.of(2));
  const bool is_saved = save(0, bytes).has_value();
  facts_.place_bytes = place_bytes(bytes);
  if (!is_saved || facts_.place_bytes == 0 || !restore(2, bytes, 0, 2))
    return declined("its cells cannot be saved");
  parts_->close();
  return {};
}

Result<void> LlamaMachine::make_context(const LlamaOptions& options) {
  const std::size_t available = available_memory_bytes();
  if (options.cells > available / facts_.state.cell) {
    return failure(ErrorCode::kResourceExhausted,
                   "--ctx-size " + std::to_string(options.cells) + ": the KV cells need " +
                       std::to_string(facts_.state.cell) + " bytes each and do not fit; at most " +
                       std::to_string(available / facts_.state.cell) + " would fit");
  }
  parts_->context =
      llama_init_from_model(parts_->model, context_params(options, llama_max_parallel_sequences()));
  if (parts_->context == nullptr)
    return failure(ErrorCode::kResourceExhausted,
                   "libllama cannot allocate the KV cells; use a "
                   "smaller --ctx-size");
  ggml_threadpool_params params = ggml_threadpool_params_default(static_cast<int>(options.threads));
  params.poll = 0;  // Idle threads would take cores from tokenising and sampling.
  parts_->threads = ggml_threadpool_new(&params);
  if (parts_->threads != nullptr)
    llama_attach_threadpool(parts_->context, parts_->threads, parts_->threads);
  return {};
}

std::size_t LlamaMachine::rows_max() const { return llama_n_ubatch(parts_->context); }
std::size_t LlamaMachine::logits_max() const { return llama_n_seq_max(parts_->context); }

std::int32_t LlamaMachine::sequence(LlamaSlot slot, int which) const {
  return slot * sequences_per_slot() + which;
}

Result<std::span<const float>> LlamaMachine::decode(std::span<const LlamaRow> rows) {
  std::vector<llama_token> tokens;
  std::vector<llama_pos> positions;
  std::vector<llama_seq_id> sequences;
  std::vector<std::int8_t> wanted;
  for (const LlamaRow& row : rows) {
    tokens.push_back(row.token);
    positions.push_back(row.position);
    sequences.push_back(sequence(row.slot, 0));
    wanted.push_back(row.wants_logits ? 1 : 0);
  }
  std::vector<std::int32_t> ones(rows.size(), 1);
  std::vector<llama_seq_id*> pointers;
  for (llama_seq_id& id : sequences) pointers.push_back(&id);
  const llama_batch batch{.n_tokens = static_cast<std::int32_t>(rows.size()),
                          .token = tokens.data(),
                          .embd = nullptr,
                          .pos = positions.data(),
                          .n_seq_id = ones.data(),
                          .seq_id = pointers.data(),
                          .logits = wanted.data()};
  try {
    const std::int32_t code = llama_decode(parts_->context, batch);
    if (code == 1) return failure(ErrorCode::kResourceExhausted, "libllama found no free KV cells");
    if (code != 0) {
      return failure(ErrorCode::kInternal,
                     "libllama failed on a pass (code " + std::to_string(code) + ")");
    }
    for (std::size_t i = 0; sequences_per_slot() > 1 && i < rows.size();) {
      std::size_t end = i + 1;
      while (end < rows.size() && rows[end].slot == rows[i].slot) ++end;
      llama_memory_seq_cp(parts_->memory(), sequence(rows[i].slot, 0), sequence(rows[i].slot, 1),
                          rows[i].position, rows[end - 1].position + 1);
      i = end;
    }
    const auto count = static_cast<std::size_t>(std::ranges::count(wanted, 1));
    if (count == 0) return std::span<const float>();
    return std::span<const float>(llama_get_logits(parts_->context), count * facts_.vocabulary);
  } catch (const std::exception& problem) {
    return failure(ErrorCode::kInternal, std::string("libllama failed: ") + problem.what());
  }
}

void LlamaMachine::share(LlamaSlot from, LlamaSlot to, std::size_t begin, std::size_t end) {
  if (begin == end) return;
  for (int which = 0; which < sequences_per_slot(); ++which) {
    llama_memory_seq_cp(parts_->memory(), sequence(from, 0), sequence(to, which),
                        static_cast<llama_pos>(begin), static_cast<llama_pos>(end));
  }
}

void LlamaMachine::cut(LlamaSlot slot, std::size_t length) {
  for (int which = 0; which < sequences_per_slot(); ++which) {
    const bool done = llama_memory_seq_rm(parts_->memory(), sequence(slot, which),
                                          static_cast<llama_pos>(length), -1);
    INCIPIT_CHECK(done, "libllama could not forget the end of a sequence");
  }
}

Result<void> LlamaMachine::save(LlamaSlot slot, std::span<std::byte> bytes) {
  try {
    const std::size_t written =
        llama_state_seq_get_data(parts_->context, reinterpret_cast<std::uint8_t*>(bytes.data()),
                                 bytes.size(), sequence(slot, 0));
    if (written == bytes.size()) return {};
  } catch (const std::exception& problem) {
    return failure(ErrorCode::kInternal, std::string("libllama saved no cells: ") + problem.what());
  }
  return failure(ErrorCode::kInternal, "libllama saved cells of another size than it announced");
}

// libllama believes counts and positions: it allocates by the first and keeps its books by the
// others.
bool LlamaMachine::is_sound(std::span<const std::byte> bytes, std::size_t begin,
                            std::size_t end) const {
  const std::size_t cells = end - begin;
  if (bytes.size() != facts_.state.of(cells)) return false;
  const auto agrees = [&](std::size_t at) {
    if (word(bytes, at) != 1 || word(bytes, at + 4) != cells) return false;
    for (std::size_t cell = 0; cell < cells; ++cell) {
      const std::size_t place = at + 8 + cell * facts_.place_bytes;
      const std::uint32_t position = word(bytes, place);
      if (position < begin || position >= end || word(bytes, place + 4) != 1) return false;
    }
    return true;
  };
  if (!agrees(kStateHeadBytes)) return false;
  if (facts_.window == 0) return true;
  return agrees(bytes.size() - (facts_.window_state.of(cells) - kStateHeadBytes));
}

bool LlamaMachine::restore(LlamaSlot slot, std::span<const std::byte> bytes, std::size_t begin,
                           std::size_t end) {
  if (!is_sound(bytes, begin, end)) return false;
  const llama_seq_id id = sequence(slot, 0);
  std::size_t read = 0;
  try {
    read = llama_state_seq_set_data(
        parts_->context, reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size(), id);
  } catch (const std::exception&) {
    read = 0;
  }
  const bool right =
      read == bytes.size() &&
      llama_memory_seq_pos_min(parts_->memory(), id) == static_cast<llama_pos>(begin) &&
      llama_memory_seq_pos_max(parts_->memory(), id) == static_cast<llama_pos>(end) - 1;
  if (!right) {
    cut(slot, 0);
    return false;
  }
  share(slot, slot, begin, end);
  return true;
}

}  // namespace incipit::model
