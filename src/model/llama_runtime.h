// SPDX-License-Identifier: Apache-2.0
//
// The Runtime on libllama: for the architectures that our own graph does not know.
//
// Its kernels choose their order of additions by the number of rows, so cached and whole prompts
// agree to a tolerance and not to the bit: limits().exact is false. All else of the contract holds.
// Who owns which cell is counted here, since libllama does not tell: a cell is free when no
// sequence has it, and libllama finds any free cell for any row. Saved cells are libllama's bytes
// behind our own frame (model/cell_state.h), whose checksum is proved before libllama reads one.
//
// Confined to one thread at a time; libllama uses its own threads inside evaluate().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "incipit/result.h"
#include "incipit/types.h"
#include "model/kv_blocks.h"
#include "model/llama_machine.h"
#include "model/runtime.h"

namespace incipit::model {

class LlamaRuntime final : public Runtime {
 public:
  // Errors: as LlamaMachine::open().
  static Result<std::unique_ptr<LlamaRuntime>> open(const std::string& path,
                                                    const LlamaOptions& options);

  Result<SequenceId> create() override;
  Result<SequenceId> fork(SequenceId source, std::size_t length) override;
  Result<void> truncate(SequenceId sequence, std::size_t length) override;
  void drop(SequenceId sequence) override;
  [[nodiscard]] std::size_t length(SequenceId sequence) const override;
  Result<Logits> evaluate(std::span<const Step> steps) override;
  [[nodiscard]] Result<std::vector<std::byte>> save(SequenceId sequence, std::size_t begin,
                                                    std::size_t end) const override;
  Result<void> restore(SequenceId sequence, std::span<const std::byte> bytes) override;
  [[nodiscard]] std::size_t cells_free() const override { return cells_->free_count(); }
  [[nodiscard]] std::size_t sequences_free() const override { return slots_free_.size(); }
  [[nodiscard]] const std::string& fingerprint() const override { return fingerprint_; }
  [[nodiscard]] std::vector<FingerprintPart> fingerprint_parts() const override { return parts_; }
  [[nodiscard]] const Limits& limits() const override { return limits_; }

  [[nodiscard]] const LlamaFacts& facts() const { return machine_->facts(); }

 private:
  struct Row {  // A sequence.
    LlamaSlot slot = 0;
    std::vector<BlockIndex> cells;  // One for each position: whose they are, not where they lie.
  };
  struct Chunk {  // Cells of a slot that libllama saves in one piece.
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  LlamaRuntime() = default;
  [[nodiscard]] const Row& row(SequenceId id) const;
  [[nodiscard]] Row& row(SequenceId id);
  Result<Row*> add_row(SequenceId& id);
  void append_cells(Row& target, std::size_t count);
  Result<void> run(std::span<const LlamaRow> rows, bool is_only);
  [[nodiscard]] std::vector<LlamaRow> rows_of(std::span<const Step> steps) const;
  [[nodiscard]] std::vector<Chunk> chunks_of(std::size_t begin, std::size_t end) const;
  [[nodiscard]] std::size_t state_bytes(std::span<const Chunk> chunks) const;

  std::unique_ptr<LlamaMachine> machine_;
  std::unique_ptr<KvBlocks> cells_;  // Blocks of one cell.
  std::vector<LlamaSlot> slots_free_;
  std::unordered_map<std::uint32_t, Row> rows_;
  std::uint32_t next_id_ = 1;
  std::span<const float> values_;  // Of the last evaluate(), libllama's or ours.
  std::vector<float> logits_;      // Of an evaluate() that took several passes.
  Limits limits_;
  std::string fingerprint_;
  std::vector<FingerprintPart> parts_;
};

}  // namespace incipit::model
