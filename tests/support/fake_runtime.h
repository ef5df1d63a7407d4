// SPDX-License-Identifier: Apache-2.0
//
// A runtime without a model, for tests of everything that stands on Runtime.
//
// The state of a position is a hash of its token and of every cell before it, and the logits of a
// row are a function of that state alone. So the law of runtime.h holds by construction, a cell
// that was shared, copied or restored wrongly changes every logit after it, and "cached =
// recomputed" is a test of microseconds. Cells lie in blocks with reference counts, as in a real
// runtime, so forks, truncations and exhaustion meet the same cases.
//
// A cell that moves to another position becomes a function of what it was and of the distance: the
// logits that follow tell of every move, and two moves are not one.
//
// Where it shows attention, head 0 looks for cells of the row's own token and head 1 looks at all
// cells alike. A cell knows its token, so head 0 sees whether cells are those of a prompt's tokens.
//
// What can be made to go wrong: an evaluate() that fails, logits that are not finite, cells that
// are taken away, and drift with the shape of the pass (`exact` = false).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/runtime.h"

namespace incipit::test {

struct FakeOptions {
  std::size_t vocabulary = 64;
  std::size_t context_tokens = 2048;
  std::size_t cells = 4096;
  std::size_t block_cells = 1;    // A fork wastes up to 2 * (block_cells - 1) cells.
  std::size_t sequences = 0;      // That may live at once; 0: any number.
  std::size_t padding_bytes = 0;  // Of each saved cell, so that states are as large as real ones.
  bool can_move = true;
  bool shows_attention = false;
  bool exact = true;  // False: logits drift by up to `drift` with the pass's shape.
  float drift = 1e-3F;
  float spread = 8;        // Logits lie in [-spread, spread).
  std::uint64_t seed = 1;  // Another seed is another model.
};

struct FakeCounters {
  std::size_t passes = 0;
  std::size_t rows = 0;  // Tokens evaluated.
  std::size_t logits_rows = 0;
};

// Confined to one thread.
class FakeRuntime final : public model::Runtime {
 public:
  explicit FakeRuntime(FakeOptions options = {});

  // The `nth` evaluate() from here fails with kInternal; 1 is the next one.
  void fail_evaluate(std::size_t nth) { fail_in_ = nth; }
  // One logit of the row after exactly `prefix` becomes `value`.
  void poison(TokenSpan prefix, float value);
  // After exactly `prefix`, the given tokens get the given probabilities; the rest of the
  // vocabulary shares what is left. Requires: probabilities sum to less than 1.
  void script(TokenSpan prefix, std::map<Token, double> probabilities);
  // Takes free cells away (rounded up to blocks) until the next call.
  void withhold_cells(std::size_t cells);
  [[nodiscard]] const FakeCounters& counters() const { return counters_; }
  [[nodiscard]] std::size_t sequence_count() const { return sequences_.size(); }

  Result<model::SequenceId> create() override;
  Result<model::SequenceId> fork(model::SequenceId source, std::size_t length) override;
  Result<void> truncate(model::SequenceId sequence, std::size_t length) override;
  void drop(model::SequenceId sequence) override;
  [[nodiscard]] std::size_t length(model::SequenceId sequence) const override;
  Result<model::Logits> evaluate(std::span<const model::Step> steps) override;
  [[nodiscard]] Result<std::vector<std::byte>> save(model::SequenceId sequence, std::size_t begin,
                                                    std::size_t end) const override;
  Result<void> restore(model::SequenceId sequence, std::span<const std::byte> bytes) override;
  Result<void> slide(model::SequenceId sequence, const model::Slide& slide) override;
  Result<void> restore_moved(model::SequenceId sequence, std::span<const std::byte> bytes) override;
  [[nodiscard]] Result<std::vector<float>> attention(std::size_t row,
                                                     AttentionHead head) const override;
  [[nodiscard]] std::size_t cells_free() const override;
  [[nodiscard]] std::size_t sequences_free() const override {
    return limits_.sequences - sequences_.size();
  }
  [[nodiscard]] const std::string& fingerprint() const override { return fingerprint_; }
  [[nodiscard]] std::vector<model::FingerprintPart> fingerprint_parts() const override {
    return {{"model", std::to_string(options_.seed)},
            {"block size", std::to_string(options_.block_cells)}};
  }
  [[nodiscard]] const model::Limits& limits() const override { return limits_; }

 private:
  struct Cell {
    Token token = 0;
    std::uint64_t state = 0;  // Hash of every token up to and with this one.
  };
  struct Block {
    std::size_t references = 0;
    std::vector<Cell> cells;
  };
  struct Row {
    std::vector<std::size_t> blocks;
    std::size_t length = 0;
  };

  [[nodiscard]] const Row& row(model::SequenceId sequence) const;
  [[nodiscard]] Row& row(model::SequenceId sequence);
  [[nodiscard]] std::size_t blocks_free() const;
  [[nodiscard]] std::size_t blocks_wanted(const Row& target, std::size_t added) const;
  [[nodiscard]] const Cell& cell(const Row& source, std::size_t position) const;
  [[nodiscard]] std::uint64_t attend(const Row& source) const;
  [[nodiscard]] std::uint64_t state_after(TokenSpan prefix) const;
  [[nodiscard]] Result<void> check_step(const model::Step& step) const;
  std::size_t allocate();
  void release(std::size_t block);
  void append(Row& target, Cell added);
  [[nodiscard]] Result<void> check_can_move() const;
  Result<void> restore(Row& target, std::span<const std::byte> bytes, bool moves);
  void write_logits(std::uint64_t state, std::uint64_t pass_shape, std::span<float> out) const;

  FakeOptions options_;
  model::Limits limits_;
  std::string fingerprint_;
  std::vector<Block> blocks_;
  std::vector<std::size_t> free_blocks_;
  std::size_t withheld_blocks_ = 0;
  std::map<std::uint32_t, Row> sequences_;
  std::uint32_t next_sequence_ = 0;
  std::vector<float> logits_;
  std::vector<std::pair<model::SequenceId, std::size_t>> shown_rows_;  // With their positions.
  std::map<std::uint64_t, std::map<Token, double>> scripts_;  // By the state after the prefix.
  std::map<std::uint64_t, float> poisons_;
  std::size_t fail_in_ = 0;  // 0: no failure is planned.
  FakeCounters counters_;
};

}  // namespace incipit::test
