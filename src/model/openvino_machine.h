// SPDX-License-Identifier: Apache-2.0
//
// OpenVINO's side of the runtime: the compiled model, the memory of the KV blocks and one pass.
//
// Everything that OpenVINO throws is caught here. What a pass means (sequences, sharing, the law)
// is decided in openvino_runtime.cc.
// Confined to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "incipit/result.h"
#include "incipit/types.h"
#include "model/kv_blocks.h"

namespace incipit::model {

struct ModelShape;
class KeyRotation;
class PreparedWeights;

inline constexpr std::size_t kBlockCells = 32;  // Fixed by OpenVINO's CPU plugin.

// The inputs of one pass, in the names of the paged attention operator. Attention sees the rows
// that attention_rows lists; of these sequence s has [subsequence_begins[s],
// subsequence_begins[s + 1]) after past_lens[s] older ones, and its blocks are
// block_indices[block_indices_begins[s] ...). Row i of the pass goes on with the result of
// attention's row own_rows[i].
struct PassInputs {
  std::vector<std::int64_t> input_ids;
  std::vector<std::int64_t> position_ids;
  std::vector<std::int64_t> attention_rows;
  std::vector<std::int64_t> own_rows;
  std::vector<std::int32_t> past_lens;
  std::vector<std::int32_t> subsequence_begins;
  std::vector<std::int32_t> block_indices;
  std::vector<std::int32_t> block_indices_begins;
  std::vector<std::int64_t> logits_rows;
  std::int32_t max_context_len = 0;

  void clear();
};

struct MachineOptions {
  Precision precision = Precision::kF32;
  KvType kv_type = KvType::kF32;
  bool int8_by_token = true;
  std::size_t cells = 0;
  std::size_t threads = 1;
  bool shows_queries = false;
};

class OpenVinoMachine {
 public:
  static Result<std::unique_ptr<OpenVinoMachine>> open(const ModelShape& shape,
                                                       const PreparedWeights& weights,
                                                       const MachineOptions& options);
  ~OpenVinoMachine();

  // Runs a pass; the logits [rows, vocabulary] are valid until the next one.
  Result<std::span<const float>> infer(PassInputs& inputs);
  // Of the last pass: what each logits row looked for in a layer, [rows, heads x head_size].
  // Requires MachineOptions::shows_queries.
  Result<std::span<const float>> queries(std::size_t layer) const;

  [[nodiscard]] std::size_t block_count() const { return block_count_; }
  [[nodiscard]] std::size_t cell_bytes() const { return cell_bytes_; }

  void copy_block(BlockIndex from, BlockIndex to);
  // Cells [first, first + count) of a block, to or from count x cell_bytes() bytes: for each
  // layer, key then value, for each head, `count` rows.
  void read_cells(BlockIndex block, std::size_t first, std::size_t count, std::byte* to) const;
  void write_cells(BlockIndex block, std::size_t first, std::size_t count, const std::byte* from);

  // Turns the keys of `count` packed cells.
  void turn_keys(std::byte* packed, std::size_t count, KeyRotation& rotation) const;
  [[nodiscard]] std::size_t key_row_bytes() const;
  // The key that a layer's head has of a cell of a block.
  [[nodiscard]] const std::byte* key_row(std::size_t layer, BlockIndex block, std::size_t head,
                                         std::size_t cell) const;

  static std::string library_version();
  static bool has_bf16();

 private:
  struct Parts;
  // One layer's keys or values: blocks x heads x kBlockCells x row bytes.
  struct Plane {
    std::byte* memory = nullptr;
    std::size_t block_bytes = 0;
    std::size_t heads = 0;
    std::size_t row_bytes = 0;
    bool holds_keys = false;
  };
  OpenVinoMachine();
  Result<void> allocate(const MachineOptions& options);
  // Calls visit(plane's bytes, packed offset, byte count) for each run of cells.
  template <typename Visit>
  void visit_cells(BlockIndex block, std::size_t first, std::size_t count, Visit visit) const;

  std::unique_ptr<Parts> parts_;
  std::vector<Plane> planes_;
  std::vector<std::size_t> key_planes_;  // Of planes_, those of keys, by layer.
  std::byte* memory_ = nullptr;          // One mapping for all planes, owned.
  std::size_t memory_bytes_ = 0;
  std::size_t block_count_ = 0;
  std::size_t cell_bytes_ = 0;
};

}  // namespace incipit::model
