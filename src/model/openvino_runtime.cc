// SPDX-License-Identifier: Apache-2.0
#include "model/openvino_runtime.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/counted.h"
#include "base/hash.h"
#include "model/cell_state.h"
#include "model/cpu.h"
#include "model/key_rotation.h"
#include "model/model_shape.h"
#include "model/prepared_weights.h"
#include "model/step_check.h"
#include "model/type_names.h"

namespace incipit::model {
namespace {

// More rows than this are run in several passes: activations grow with the rows, speed does not.
constexpr std::size_t kPassRowsMax = 2048;

constexpr Token kFillerToken = 0;

std::size_t blocks_for(std::size_t cells) { return (cells + kBlockCells - 1) / kBlockCells; }

// The next larger of the sizes that passes have: steps of 4, 8 and 16 rows. A step is at most half
// a block, so a filler sequence fits into one.
std::size_t few_sizes(std::size_t rows) {
  const std::size_t step = rows <= 32 ? 4 : rows <= 128 ? 8 : 16;
  return (rows + step - 1) / step * step;
}

}  // namespace

Result<std::unique_ptr<OpenVinoRuntime>> OpenVinoRuntime::open(const ModelShape& shape,
                                                               const PreparedWeights& weights,
                                                               const OpenVinoOptions& options) {
  std::unique_ptr<OpenVinoRuntime> runtime(new OpenVinoRuntime());
  INCIPIT_TRY(runtime->machine_, OpenVinoMachine::open(shape, weights,
                                                       {.precision = options.precision,
                                                        .kv_type = options.kv_type,
                                                        .int8_by_token = options.law.int8_by_token,
                                                        .cells = options.cells,
                                                        .threads = options.threads,
                                                        .shows_queries = options.shows_attention}));
  runtime->blocks_ = std::make_unique<KvBlocks>(runtime->machine_->block_count());
  runtime->filler_block_ = *runtime->blocks_->take();
  runtime->options_ = options;
  runtime->recipe_ = weights.recipe();
  runtime->law_ = options.law;
  for (std::size_t layer = 0; layer < shape.layers; ++layer)
    runtime->window_ = std::max(runtime->window_, shape.window(layer));
  runtime->frequencies_ = shape.rope_frequencies;
  // By channel, the scales of INT8 keys are those of a whole block.
  const bool by_token = options.kv_type != KvType::kInt8 || options.law.int8_by_token;
  // Layers with a window have a rotation of their own.
  const bool can_move = by_token && runtime->window_ == 0 &&
                        KeyRotation(shape.rope_frequencies, options.kv_type, 0).row_bytes() ==
                            runtime->machine_->key_row_bytes();
  runtime->limits_ = {.vocabulary = shape.vocabulary,
                      .context_tokens = std::min(shape.context_tokens, options.cells),
                      .cells = runtime->blocks_->free_count() * kBlockCells,
                      .cell_bytes = runtime->machine_->cell_bytes(),
                      .fork_cells = 2 * kBlockCells,
                      .can_move = can_move,
                      .exact = options.exact,
                      .approximate_reason = options.approximate_reason};
  // A key's scale by channel is that of a whole block, which nobody reads here.
  if (options.shows_attention && by_token) runtime->show_attention(shape);
  runtime->name_fingerprint();
  return runtime;
}

void OpenVinoRuntime::name_fingerprint() {
  fingerprint_ =
      Sha256()
          .field(options_.kv_type == KvType::kInt8 ? "incipit-cells/2" : "incipit-cells/1")
          .field(options_.identity)
          .field(recipe_)
          .field(OpenVinoMachine::library_version())
          .field(static_cast<std::uint64_t>(options_.precision))
          .field(static_cast<std::uint64_t>(options_.kv_type))
          .field(std::uint64_t{kBlockCells})
          .field(std::uint64_t{law_.rows_min})
          .field(std::uint64_t{law_.logits_rows_min})
          .field(std::uint64_t{law_.shadow_lone_token})
          .field(std::uint64_t{law_.int8_by_token})
          .hex();
}

std::vector<FingerprintPart> OpenVinoRuntime::fingerprint_parts() const {
  return {{"model", options_.model},
          {"weight recipe", recipe_},
          {"library version", OpenVinoMachine::library_version()},
          {"instruction level", cpu_facts().instructions_text()},
          {"precision", name_of(options_.precision)},
          {"KV type", name_of(options_.kv_type)},
          {"block size", std::to_string(kBlockCells)},
          {"law", std::to_string(law_.rows_min) + " rows, " + std::to_string(law_.logits_rows_min) +
                      " logits rows" + (law_.shadow_lone_token ? ", lone tokens shadowed" : "") +
                      (law_.int8_by_token ? "" : ", int8 by channel")}};
}

void OpenVinoRuntime::set_law(const LawSettings& law) {
  INCIPIT_CHECK(law.int8_by_token == law_.int8_by_token,
                "the KV layout is fixed when the model is compiled");
  law_ = law;
  name_fingerprint();
}

void OpenVinoRuntime::set_exact(bool exact, std::string reason) {
  limits_.exact = exact;
  limits_.approximate_reason = std::move(reason);
}

const OpenVinoRuntime::Row& OpenVinoRuntime::row(SequenceId id) const {
  const auto found = rows_.find(std::to_underlying(id));
  INCIPIT_CHECK(found != rows_.end(), "a sequence is used after drop()");
  return found->second;
}

SequenceId OpenVinoRuntime::add_row(Row row) {
  const std::uint32_t id = next_id_++;
  rows_.emplace(id, std::move(row));
  return SequenceId{id};
}

Result<SequenceId> OpenVinoRuntime::create() { return add_row({}); }

Result<SequenceId> OpenVinoRuntime::fork(SequenceId source, std::size_t length) {
  const Row& from = row(source);
  if (length > from.length) {
    return failure(ErrorCode::kInvalidArgument, "cannot fork " + counted(length, "cell") +
                                                    " of a sequence of " +
                                                    std::to_string(from.length));
  }
  Row copy{.blocks = {from.blocks.begin(),
                      from.blocks.begin() + static_cast<std::ptrdiff_t>(blocks_for(length))},
           .length = length};
  for (const BlockIndex block : copy.blocks) blocks_->share(block);
  return add_row(std::move(copy));
}

Result<void> OpenVinoRuntime::truncate(SequenceId sequence, std::size_t length) {
  Row& target = rows_.at(std::to_underlying(sequence));
  if (length > target.length) {
    return failure(ErrorCode::kInvalidArgument, "cannot truncate a sequence of " +
                                                    counted(target.length, "cell") + " to " +
                                                    std::to_string(length));
  }
  while (target.blocks.size() > blocks_for(length)) {
    blocks_->release(target.blocks.back());
    target.blocks.pop_back();
  }
  target.length = length;
  return {};
}

void OpenVinoRuntime::release(const Row& row) {
  for (const BlockIndex block : row.blocks) blocks_->release(block);
}

void OpenVinoRuntime::drop(SequenceId sequence) {
  release(row(sequence));
  rows_.erase(std::to_underlying(sequence));
}

std::size_t OpenVinoRuntime::length(SequenceId sequence) const { return row(sequence).length; }

std::size_t OpenVinoRuntime::cells_free() const { return blocks_->free_count() * kBlockCells; }

Result<OpenVinoRuntime::Row> OpenVinoRuntime::reserve(const Row& row, std::size_t length) {
  Row result{.blocks = row.blocks, .length = row.length};
  for (const BlockIndex block : result.blocks) blocks_->share(block);
  // Everything in `row` is shared at least with `result` by now: a block that is also somebody
  // else's has three owners. The last block is written into if it is not full.
  const bool writes_last = row.length % kBlockCells != 0;
  const auto take = [&]() -> bool {
    const auto block = blocks_->take();
    if (block) result.blocks.push_back(*block);
    return block.has_value();
  };
  if (writes_last) {
    const BlockIndex last = result.blocks.back();
    blocks_->release(last);
    if (blocks_->is_shared(last)) {
      result.blocks.pop_back();
      if (!take()) {
        release(result);
        return no_free_cells();
      }
      machine_->copy_block(last, result.blocks.back());
    } else {
      blocks_->share(last);
    }
  }
  while (result.blocks.size() < blocks_for(length)) {
    if (!take()) {
      release(result);
      return no_free_cells();
    }
  }
  return result;
}

std::vector<std::vector<OpenVinoRuntime::Piece>> OpenVinoRuntime::plan(
    std::span<const Step> steps, std::span<const Row> rows) const {
  std::vector<std::vector<Piece>> passes(1);
  std::size_t pass_rows = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::size_t begin = 0;
    while (begin < steps[i].tokens.size()) {
      if (pass_rows >= kPassRowsMax) {
        passes.emplace_back();
        pass_rows = 0;
      }
      const std::size_t count = std::min(steps[i].tokens.size() - begin, kPassRowsMax - pass_rows);
      Piece piece{.row = &rows[i],
                  .past = rows[i].length + begin,
                  .tokens = steps[i].tokens.subspan(begin, count),
                  .logits_rows = {}};
      for (const std::uint32_t wanted : steps[i].logits_rows) {
        if (wanted >= begin && wanted < begin + count)
          piece.logits_rows.push_back(wanted - static_cast<std::uint32_t>(begin));
      }
      passes.back().push_back(std::move(piece));
      pass_rows += count;
      begin += count;
    }
  }
  return passes;
}

void OpenVinoRuntime::add_piece(TokenSpan tokens, std::size_t past,
                                std::span<const BlockIndex> table) {
  std::vector<std::int64_t>& seen = inputs_.attention_rows;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    inputs_.own_rows.push_back(static_cast<std::int64_t>(seen.size()));
    seen.push_back(static_cast<std::int64_t>(inputs_.input_ids.size()));
    inputs_.input_ids.push_back(tokens[i]);
    inputs_.position_ids.push_back(static_cast<std::int64_t>(past + i));
  }
  std::size_t context = past + tokens.size();
  if (tokens.size() == 1 && law_.shadow_lone_token) {
    // The shadow's cell lies behind the sequence's end, in its own last block, where it is written
    // over later, or in the filler block: a lone token needs no cell but its own.
    seen.push_back(seen.back());
    ++context;
  }
  inputs_.past_lens.push_back(static_cast<std::int32_t>(past));
  inputs_.subsequence_begins.push_back(static_cast<std::int32_t>(seen.size()));
  const auto used = table.first(std::min(table.size(), blocks_for(context)));
  inputs_.block_indices.insert(inputs_.block_indices.end(), used.begin(), used.end());
  if (used.size() < blocks_for(context)) inputs_.block_indices.push_back(filler_block_);
  inputs_.block_indices_begins.push_back(static_cast<std::int32_t>(inputs_.block_indices.size()));
  inputs_.max_context_len = std::max(inputs_.max_context_len, static_cast<std::int32_t>(context));
}

void OpenVinoRuntime::fill_inputs(std::span<const Piece> pieces) {
  inputs_.clear();
  for (const Piece& piece : pieces) {
    const auto first_row = static_cast<std::int64_t>(inputs_.input_ids.size());
    add_piece(piece.tokens, piece.past, piece.row->blocks);
    for (const std::uint32_t wanted : piece.logits_rows)
      inputs_.logits_rows.push_back(first_row + wanted);
  }
  const std::size_t rows = inputs_.input_ids.size();
  std::size_t filled = std::max(rows, law_.rows_min);
  if (law_.few_sizes) filled = few_sizes(filled);
  if (filled > rows) {
    const TokenVector filler(filled - rows, kFillerToken);
    add_piece(filler, 0, std::span(&filler_block_, 1));
  }
  const bool wanted = !inputs_.logits_rows.empty();
  std::size_t least = wanted ? std::max(inputs_.logits_rows.size(), law_.logits_rows_min) : 1;
  if (law_.few_sizes) least = few_sizes(least);
  inputs_.logits_rows.resize(least, wanted ? inputs_.logits_rows.back() : 0);
}

Result<std::span<const float>> OpenVinoRuntime::run(std::span<const Piece> pieces) {
  fill_inputs(pieces);
  std::size_t wanted = 0;
  for (const Piece& piece : pieces) wanted += piece.logits_rows.size();
  INCIPIT_TRY(const auto logits, machine_->infer(inputs_));
  INCIPIT_TRY_VOID(keep_queries(wanted));
  return logits.first(wanted * limits_.vocabulary);
}

Result<Logits> OpenVinoRuntime::evaluate(std::span<const Step> steps) {
  if (steps.empty()) return Logits{.values = {}, .vocabulary = limits_.vocabulary};
  INCIPIT_TRY_VOID(check_steps(steps, limits_, [this](SequenceId id) { return row(id).length; }));
  std::vector<Row> reserved;
  reserved.reserve(steps.size());
  const auto give_back = [&] {
    for (const Row& taken : reserved) release(taken);
  };
  for (const Step& step : steps) {
    const Row& before = row(step.sequence);
    auto room = reserve(before, before.length + step.tokens.size());
    if (!room) {
      give_back();
      return std::unexpected(std::move(room).error());
    }
    reserved.push_back(std::move(*room));
  }
  const auto passes = plan(steps, reserved);
  logits_.clear();
  forget_shown_rows();
  std::span<const float> values;
  for (const auto& pieces : passes) {
    auto result = run(pieces);
    if (!result) {
      give_back();
      return std::unexpected(std::move(result).error());
    }
    values = *result;
    if (passes.size() > 1) logits_.insert(logits_.end(), values.begin(), values.end());
  }
  if (passes.size() > 1) values = logits_;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    Row& target = rows_.at(std::to_underlying(steps[i].sequence));
    release(target);
    target = std::move(reserved[i]);
    target.length += steps[i].tokens.size();
  }
  note_shown_rows(steps);
  return Logits{.values = values, .vocabulary = limits_.vocabulary};
}

Result<std::vector<std::byte>> OpenVinoRuntime::save(SequenceId sequence, std::size_t begin,
                                                     std::size_t end) const {
  const Row& from = row(sequence);
  if (begin > end || end > from.length) {
    return failure(ErrorCode::kInvalidArgument,
                   "cannot save cells " + std::to_string(begin) + " to " + std::to_string(end) +
                       " of a sequence of " + std::to_string(from.length));
  }
  auto framed = cells_frame((end - begin) * limits_.cell_bytes);
  std::byte* to = cells_payload(framed).data();
  for (std::size_t cell = begin; cell < end;) {
    const std::size_t first = cell % kBlockCells;
    const std::size_t count = std::min(kBlockCells - first, end - cell);
    machine_->read_cells(from.blocks[cell / kBlockCells], first, count, to);
    to += count * limits_.cell_bytes;
    cell += count;
  }
  seal_cells(framed, fingerprint_, begin, end);
  return framed;
}

Result<void> OpenVinoRuntime::restore(SequenceId sequence, std::span<const std::byte> bytes) {
  INCIPIT_TRY(const CellState state, open_cells(bytes, fingerprint_));
  const Row& before = row(sequence);
  if (state.begin != before.length) {
    return failure(ErrorCode::kInvalidArgument,
                   "cells saved from position " + std::to_string(state.begin) + " cannot follow " +
                       counted(before.length, "cell"));
  }
  if (state.payload.size() != (state.end - state.begin) * limits_.cell_bytes ||
      state.end > limits_.context_tokens) {
    return failure(ErrorCode::kInvalidArgument,
                   "saved cells do not have the size of this model's cells or exceed its context");
  }
  INCIPIT_TRY(Row after, reserve(before, state.end));
  const std::byte* from = state.payload.data();
  for (std::size_t cell = state.begin; cell < state.end;) {
    const std::size_t first = cell % kBlockCells;
    const std::size_t count = std::min(kBlockCells - first, state.end - cell);
    machine_->write_cells(after.blocks[cell / kBlockCells], first, count, from);
    from += count * limits_.cell_bytes;
    cell += count;
  }
  after.length = state.end;
  Row& target = rows_.at(std::to_underlying(sequence));
  release(target);
  target = std::move(after);
  return {};
}

}  // namespace incipit::model
