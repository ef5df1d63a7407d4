// SPDX-License-Identifier: Apache-2.0
//
// OpenVinoRuntime's two verbs that move cells to other positions.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "model/cell_state.h"
#include "model/key_rotation.h"
#include "model/openvino_runtime.h"

namespace incipit::model {

Result<void> OpenVinoRuntime::check_can_move() const {
  if (limits_.can_move) return {};
  return failure(ErrorCode::kUnavailable,
                 "KV cells of this type cannot be moved; use --kv-type f32, bf16 or int8 by token");
}

Result<OpenVinoRuntime::Row> OpenVinoRuntime::own_blocks(const Row& row, std::size_t first,
                                                         std::size_t length) {
  Row result{.blocks = row.blocks, .length = length};
  result.blocks.resize((length + kBlockCells - 1) / kBlockCells);
  std::vector<BlockIndex> taken;
  for (std::size_t i = first; i < result.blocks.size(); ++i) {
    if (!blocks_->is_shared(result.blocks[i])) continue;
    const auto block = blocks_->take();
    if (!block) {
      for (const BlockIndex other : taken) blocks_->release(other);
      return failure(ErrorCode::kResourceExhausted,
                     "no free KV cells to slide a sequence that shares its own; raise --ctx-size");
    }
    taken.push_back(*block);
    result.blocks[i] = *block;
  }
  return result;
}

Result<void> OpenVinoRuntime::slide(SequenceId sequence, const Slide& slide) {
  INCIPIT_TRY_VOID(check_can_move());
  Row& target = rows_.at(std::to_underlying(sequence));
  if (slide.sink > target.length || slide.dropped > target.length - slide.sink) {
    return failure(ErrorCode::kInvalidArgument, "cannot drop " + counted(slide.dropped, "cell") +
                                                    " behind " + std::to_string(slide.sink) +
                                                    " of a sequence of " +
                                                    std::to_string(target.length));
  }
  if (slide.dropped == 0) return {};
  const std::size_t length = target.length - slide.dropped;
  const std::size_t first_block = slide.sink / kBlockCells;
  INCIPIT_TRY(Row after, own_blocks(target, first_block, length));
  KeyRotation rotation(frequencies_, options_.kv_type, -static_cast<std::ptrdiff_t>(slide.dropped));
  std::vector<std::byte> packed(kBlockCells * limits_.cell_bytes);
  // A block of its own that begins inside the sink needs the sink's cells, too.
  if (first_block < after.blocks.size() && after.blocks[first_block] != target.blocks[first_block])
    machine_->copy_block(target.blocks[first_block], after.blocks[first_block]);
  // Upwards: no cell is written over before it has moved.
  for (std::size_t cell = slide.sink; cell < length;) {
    const std::size_t from = cell + slide.dropped;
    const std::size_t count = std::min(
        {kBlockCells - cell % kBlockCells, kBlockCells - from % kBlockCells, length - cell});
    machine_->read_cells(target.blocks[from / kBlockCells], from % kBlockCells, count,
                         packed.data());
    machine_->turn_keys(packed.data(), count, rotation);
    machine_->write_cells(after.blocks[cell / kBlockCells], cell % kBlockCells, count,
                          packed.data());
    cell += count;
  }
  // What stays in place keeps its owner; the rest of the old table goes.
  for (std::size_t i = 0; i < target.blocks.size(); ++i) {
    if (i >= after.blocks.size() || after.blocks[i] != target.blocks[i])
      blocks_->release(target.blocks[i]);
  }
  target = std::move(after);
  return {};
}

Result<void> OpenVinoRuntime::restore_moved(SequenceId sequence, std::span<const std::byte> bytes) {
  INCIPIT_TRY_VOID(check_can_move());
  INCIPIT_TRY(const CellState state, open_cells(bytes, fingerprint_));
  Row& target = rows_.at(std::to_underlying(sequence));
  const std::size_t end = target.length + (state.end - state.begin);
  if (state.payload.size() != (state.end - state.begin) * limits_.cell_bytes ||
      end > limits_.context_tokens) {
    return failure(ErrorCode::kInvalidArgument,
                   "saved cells do not have the size of this model's cells or exceed its context");
  }
  INCIPIT_TRY(Row after, reserve(target, end));
  KeyRotation rotation(
      frequencies_, options_.kv_type,
      static_cast<std::ptrdiff_t>(target.length) - static_cast<std::ptrdiff_t>(state.begin));
  const std::byte* payload = state.payload.data();
  std::vector<std::byte> packed(kBlockCells * limits_.cell_bytes);
  // Cells are packed in the runs that the blocks of their old place cut. The filler block, which
  // holds nothing between passes, gives each run that place again.
  for (std::size_t old = state.begin, cell = target.length; old < state.end;) {
    const std::size_t first = old % kBlockCells;
    const std::size_t run = std::min(kBlockCells - first, state.end - old);
    machine_->write_cells(filler_block_, first, run, payload);
    for (std::size_t done = 0; done < run;) {
      const std::size_t count = std::min(kBlockCells - cell % kBlockCells, run - done);
      machine_->read_cells(filler_block_, first + done, count, packed.data());
      machine_->turn_keys(packed.data(), count, rotation);
      machine_->write_cells(after.blocks[cell / kBlockCells], cell % kBlockCells, count,
                            packed.data());
      done += count;
      cell += count;
    }
    payload += run * limits_.cell_bytes;
    old += run;
  }
  after.length = end;
  release(target);
  target = std::move(after);
  return {};
}

}  // namespace incipit::model
