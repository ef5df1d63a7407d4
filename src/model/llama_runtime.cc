// SPDX-License-Identifier: Apache-2.0
#include "model/llama_runtime.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/counted.h"
#include "base/hash.h"
#include "model/cell_state.h"
#include "model/libllama.h"
#include "model/step_check.h"
#include "model/type_names.h"

namespace incipit::model {
namespace {

// Cells are saved from it and restored through it; never a sequence's.
constexpr LlamaSlot kScratch = 0;

constexpr const char* kReason =
    "libllama's kernels round differently with the number of rows in a pass";

}  // namespace

Result<std::unique_ptr<LlamaRuntime>> LlamaRuntime::open(const std::string& path,
                                                         const LlamaOptions& options) {
  std::unique_ptr<LlamaRuntime> runtime(new LlamaRuntime());
  INCIPIT_TRY(runtime->machine_, LlamaMachine::open(path, options));
  const LlamaFacts& facts = runtime->facts();
  runtime->cells_ = std::make_unique<KvBlocks>(options.cells);
  for (auto slot = static_cast<LlamaSlot>(facts.slots) - 1; slot > kScratch; --slot)
    runtime->slots_free_.push_back(slot);
  runtime->limits_ = {.vocabulary = facts.vocabulary,
                      .context_tokens = std::min(facts.context_tokens, options.cells),
                      .cells = options.cells,
                      .cell_bytes = facts.state.cell,
                      .fork_cells = 0,
                      .sequences = runtime->slots_free_.size(),
                      .exact = false,
                      .approximate_reason = kReason};
  runtime->fingerprint_ = Sha256()
                              .field("incipit-llama-cells/1")
                              .field(options.identity)
                              .field(libllama_version())
                              .field(static_cast<std::uint64_t>(options.kv_type))
                              .field(std::uint64_t{facts.window})
                              .field(std::uint64_t{facts.state.base})
                              .field(std::uint64_t{facts.state.cell})
                              .hex();
  const bool is_f16 = options.kv_type == KvType::kAuto;
  runtime->parts_ = {{"model", options.identity},
                     {"library version", libllama_version()},
                     {"KV type", is_f16 ? "f16" : name_of(options.kv_type)}};
  return runtime;
}

const LlamaRuntime::Row& LlamaRuntime::row(SequenceId id) const {
  const auto found = rows_.find(std::to_underlying(id));
  INCIPIT_CHECK(found != rows_.end(), "a sequence is used after drop()");
  return found->second;
}

LlamaRuntime::Row& LlamaRuntime::row(SequenceId id) {
  return const_cast<Row&>(std::as_const(*this).row(id));
}

Result<LlamaRuntime::Row*> LlamaRuntime::add_row(SequenceId& id) {
  if (slots_free_.empty()) {
    return failure(
        ErrorCode::kResourceExhausted,
        "libllama keeps " + counted(limits_.sequences, "sequence") + " at once; drop one first");
  }
  id = SequenceId{next_id_++};
  Row& made = rows_[std::to_underlying(id)];
  made.slot = slots_free_.back();
  slots_free_.pop_back();
  return &made;
}

Result<SequenceId> LlamaRuntime::create() {
  SequenceId id{};
  INCIPIT_TRY_VOID(add_row(id));
  return id;
}

Result<SequenceId> LlamaRuntime::fork(SequenceId source, std::size_t length) {
  if (const std::size_t has = row(source).cells.size(); length > has) {
    return failure(ErrorCode::kInvalidArgument, "cannot fork " + counted(length, "cell") +
                                                    " of a sequence of " + std::to_string(has));
  }
  SequenceId id{};
  INCIPIT_TRY(Row* const made, add_row(id));
  const Row& from = row(source);  // Rows do not move when one is added.
  made->cells.assign(from.cells.begin(), from.cells.begin() + static_cast<std::ptrdiff_t>(length));
  for (const BlockIndex cell : made->cells) cells_->share(cell);
  machine_->share(from.slot, made->slot, 0, length);
  return id;
}

Result<void> LlamaRuntime::truncate(SequenceId sequence, std::size_t length) {
  Row& target = row(sequence);
  if (length > target.cells.size()) {
    return failure(ErrorCode::kInvalidArgument, "cannot truncate a sequence of " +
                                                    counted(target.cells.size(), "cell") + " to " +
                                                    std::to_string(length));
  }
  if (length == target.cells.size()) return {};
  machine_->cut(target.slot, length);
  while (target.cells.size() > length) {
    cells_->release(target.cells.back());
    target.cells.pop_back();
  }
  return {};
}

void LlamaRuntime::drop(SequenceId sequence) {
  const auto emptied = truncate(sequence, 0);
  INCIPIT_CHECK(emptied.has_value(), "a sequence that cannot be emptied");
  slots_free_.push_back(row(sequence).slot);
  rows_.erase(std::to_underlying(sequence));
}

std::size_t LlamaRuntime::length(SequenceId sequence) const { return row(sequence).cells.size(); }

// Requires: as many cells are free.
void LlamaRuntime::append_cells(Row& target, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) target.cells.push_back(*cells_->take());
}

std::vector<LlamaRow> LlamaRuntime::rows_of(std::span<const Step> steps) const {
  std::vector<LlamaRow> rows;
  for (const Step& step : steps) {
    const Row& target = row(step.sequence);
    const std::size_t first = rows.size();
    for (const Token token : step.tokens) {
      const std::size_t position = target.cells.size() + (rows.size() - first);
      rows.push_back(
          {.token = token, .position = static_cast<std::int32_t>(position), .slot = target.slot});
    }
    for (const std::uint32_t wanted : step.logits_rows) rows[first + wanted].wants_logits = true;
  }
  return rows;
}

// Runs a pass. Where it is not the only one its logits are copied: the next takes their place.
Result<void> LlamaRuntime::run(std::span<const LlamaRow> rows, bool is_only) {
  INCIPIT_TRY(values_, machine_->decode(rows));
  if (is_only) return {};
  logits_.insert(logits_.end(), values_.begin(), values_.end());
  values_ = logits_;
  return {};
}

Result<Logits> LlamaRuntime::evaluate(std::span<const Step> steps) {
  values_ = {};
  logits_.clear();
  if (steps.empty()) return Logits{.values = {}, .vocabulary = limits_.vocabulary};
  INCIPIT_TRY_VOID(
      check_steps(steps, limits_, [this](SequenceId id) { return row(id).cells.size(); }));
  const std::vector<LlamaRow> rows = rows_of(steps);
  if (rows.size() > cells_->free_count()) return no_free_cells();
  Result<void> done;
  for (std::size_t begin = 0; done && begin < rows.size();) {
    std::size_t end = begin;
    std::size_t wanted = 0;
    while (end < rows.size() && end - begin < machine_->rows_max()) {
      wanted += rows[end].wants_logits ? 1 : 0;
      if (wanted > machine_->logits_max()) break;
      ++end;
    }
    done = run(std::span(rows).subspan(begin, end - begin), begin == 0 && end == rows.size());
    begin = end;
  }
  if (!done) {
    for (const Step& step : steps) {
      const Row& target = row(step.sequence);
      machine_->cut(target.slot, target.cells.size());
    }
    return std::unexpected(done.error());
  }
  for (const Step& step : steps) append_cells(row(step.sequence), step.tokens.size());
  return Logits{.values = values_, .vocabulary = limits_.vocabulary};
}

// libllama leaves out what lies behind the window of a saved sequence's last token. No piece that
// ends where a window may end is longer than one, so nothing of it is left out.
std::vector<LlamaRuntime::Chunk> LlamaRuntime::chunks_of(std::size_t begin, std::size_t end) const {
  std::vector<Chunk> chunks;
  const std::size_t window = facts().window;
  while (begin < end) {
    const std::size_t next = window == 0 ? end : std::min(end, (begin / window + 1) * window);
    chunks.push_back({.begin = begin, .end = next});
    begin = next;
  }
  return chunks;
}

std::size_t LlamaRuntime::state_bytes(std::span<const Chunk> chunks) const {
  std::size_t bytes = 0;
  for (const Chunk& chunk : chunks) bytes += facts().state.of(chunk.end - chunk.begin);
  return bytes;
}

Result<std::vector<std::byte>> LlamaRuntime::save(SequenceId sequence, std::size_t begin,
                                                  std::size_t end) const {
  const Row& from = row(sequence);
  if (begin > end || end > from.cells.size()) {
    return failure(ErrorCode::kInvalidArgument,
                   "cannot save cells " + std::to_string(begin) + " to " + std::to_string(end) +
                       " of a sequence of " + std::to_string(from.cells.size()));
  }
  const std::vector<Chunk> chunks = chunks_of(begin, end);
  auto framed = cells_frame(state_bytes(chunks));
  std::span<std::byte> rest = cells_payload(framed);
  for (const Chunk& chunk : chunks) {
    const std::size_t size = facts().state.of(chunk.end - chunk.begin);
    machine_->share(from.slot, kScratch, chunk.begin, chunk.end);
    const auto saved = machine_->save(kScratch, rest.first(size));
    machine_->cut(kScratch, 0);
    if (!saved) return std::unexpected(saved.error());
    rest = rest.subspan(size);
  }
  seal_cells(framed, fingerprint_, begin, end);
  return framed;
}

Result<void> LlamaRuntime::restore(SequenceId sequence, std::span<const std::byte> bytes) {
  INCIPIT_TRY(const CellState state, open_cells(bytes, fingerprint_));
  Row& target = row(sequence);
  const std::size_t before = target.cells.size();
  if (state.begin != before) {
    return failure(ErrorCode::kInvalidArgument, "cells saved from position " +
                                                    std::to_string(state.begin) +
                                                    " cannot follow " + counted(before, "cell"));
  }
  if (state.end > limits_.context_tokens) {
    return failure(ErrorCode::kInvalidArgument, "saved cells exceed the context of this model");
  }
  const std::vector<Chunk> chunks = chunks_of(state.begin, state.end);
  if (state.payload.size() != state_bytes(chunks)) {
    return failure(ErrorCode::kInvalidArgument,
                   "saved cells do not have the size of this model's cells");
  }
  if (state.end - state.begin > cells_->free_count()) return no_free_cells();
  std::span<const std::byte> rest = state.payload;
  for (const Chunk& chunk : chunks) {
    const std::size_t size = facts().state.of(chunk.end - chunk.begin);
    if (!machine_->restore(kScratch, rest.first(size), chunk.begin, chunk.end)) {
      machine_->cut(target.slot, before);
      return failure(ErrorCode::kCorruption, "libllama does not take the saved cells");
    }
    machine_->share(kScratch, target.slot, chunk.begin, chunk.end);
    machine_->cut(kScratch, 0);
    rest = rest.subspan(size);
  }
  append_cells(target, state.end - state.begin);
  return {};
}

}  // namespace incipit::model
