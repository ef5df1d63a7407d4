// SPDX-License-Identifier: Apache-2.0
//
// Which block of KV cells belongs to whom.
//
// A block holds the cells of 32 consecutive positions over all layers. Sequences share whole
// blocks by count; one that wants to write into a shared block takes a copy first. Only
// the bookkeeping is here, the bytes are the runtime's.
//
// Invariants (kv_blocks_test.cc): a block is free exactly when nobody counts it; take() never
// gives a block that is counted; the free count is the sum over all blocks.
// Confined to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace incipit::model {

using BlockIndex = std::int32_t;  // What OpenVINO's block tables hold.

class KvBlocks {
 public:
  explicit KvBlocks(std::size_t count);

  // Gives a free block, counted once; empty where none is left.
  std::optional<BlockIndex> take();
  void share(BlockIndex block);    // Counts it once more.
  void release(BlockIndex block);  // Counts it once less; free at zero.
  [[nodiscard]] bool is_shared(BlockIndex block) const;
  [[nodiscard]] std::size_t free_count() const { return free_.size(); }
  [[nodiscard]] std::size_t count() const { return owners_.size(); }

 private:
  std::vector<std::uint32_t> owners_;
  std::vector<BlockIndex> free_;  // Used as a stack: what was freed last is still in the CPU cache.
};

}  // namespace incipit::model
