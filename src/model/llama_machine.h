// SPDX-License-Identifier: Apache-2.0
//
// libllama as a machine with slots: the one file that makes its contexts and calls its memory.
//
// A slot is a row of positions; slots share cells, since the KV cache is one for all of them. In
// models with sliding windows libllama takes cells behind a window for free as long as one
// sequence alone holds them, also in a cache of full size. A cut to an earlier position would then
// find holes. So there each slot is two sequences of libllama, which hold every cell together.
//
// Models whose state cannot be cut at any position (recurrent and hybrid ones) are declined when
// they are opened; so is every other that fails a try of the verbs on a small context.
// Confined to one thread at a time; libllama uses its own threads inside decode().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "incipit/result.h"
#include "incipit/types.h"

namespace incipit::model {

struct LlamaOptions {
  KvType kv_type = KvType::kAuto;  // kAuto: 16-bit floats.
  std::size_t cells = 4096;
  std::size_t threads = 1;
  std::string identity;  // Hash of the model.
};

using LlamaSlot = std::int32_t;

// Bytes of a saved slot: they grow by the same amount with every cell.
struct LlamaStateSize {
  std::size_t base = 0;
  std::size_t cell = 0;

  [[nodiscard]] std::size_t of(std::size_t cells) const { return base + cells * cell; }
};

struct LlamaFacts {
  std::string architecture;
  std::size_t vocabulary = 0;
  std::size_t context_tokens = 0;  // What the model was trained for.
  std::size_t layers = 0;
  std::size_t width = 0;
  std::size_t window = 0;  // Of sliding layers; 0: there are none.
  std::size_t slots = 0;
  LlamaStateSize state;         // Of a slot of at most `window` cells.
  std::size_t place_bytes = 0;  // Of these, what says where a cell belongs: first its position.
  LlamaStateSize window_state;  // Of these bytes, the last ones, of the sliding layers.
};

// Tokens of one pass.
struct LlamaRow {
  Token token = 0;
  std::int32_t position = 0;
  LlamaSlot slot = 0;
  bool wants_logits = false;
};

class LlamaMachine {
 public:
  // Errors: kUnavailable names the architecture that libllama does not know or that cannot be
  // used here; kResourceExhausted if the cells do not fit into memory (says how many would).
  static Result<std::unique_ptr<LlamaMachine>> open(const std::string& path,
                                                    const LlamaOptions& options);
  // What open() would say of the model, without reading its weights.
  static Result<LlamaFacts> look_at(const std::string& path);

  LlamaMachine(const LlamaMachine&) = delete;
  LlamaMachine& operator=(const LlamaMachine&) = delete;
  ~LlamaMachine();

  [[nodiscard]] const LlamaFacts& facts() const { return facts_; }
  [[nodiscard]] std::size_t rows_max() const;    // Of a pass.
  [[nodiscard]] std::size_t logits_max() const;  // Rows of a pass that may want logits.

  // Runs the rows; the logits are valid until the next call. After an error some cells of them may
  // be there: cut() the slots back.
  // Requires: rows of a slot ascend and follow its end; no more than rows_max() and logits_max().
  Result<std::span<const float>> decode(std::span<const LlamaRow> rows);

  // Gives the cells of positions [begin, end) of `from` to `to` as well.
  void share(LlamaSlot from, LlamaSlot to, std::size_t begin, std::size_t end);
  // Forgets the cells from `length` on.
  void cut(LlamaSlot slot, std::size_t length);

  // The cells of a slot that holds at most `window` of them, where there is a window.
  Result<void> save(LlamaSlot slot, std::span<std::byte> bytes);
  // Replaces the slot's cells. False, with an empty slot, if the bytes are not those of cells
  // [begin, end). Requires: as many cells are free.
  [[nodiscard]] bool restore(LlamaSlot slot, std::span<const std::byte> bytes, std::size_t begin,
                             std::size_t end);

 private:
  struct Parts;
  LlamaMachine();
  Result<void> load(const std::string& path, bool weights);
  Result<void> try_verbs(const LlamaOptions& options);
  Result<void> make_context(const LlamaOptions& options);
  [[nodiscard]] std::int32_t sequence(LlamaSlot slot, int which) const;
  [[nodiscard]] int sequences_per_slot() const { return facts_.window > 0 ? 2 : 1; }
  [[nodiscard]] bool is_sound(std::span<const std::byte> bytes, std::size_t begin,
                              std::size_t end) const;

  std::unique_ptr<Parts> parts_;
  LlamaFacts facts_;
};

}  // namespace incipit::model
