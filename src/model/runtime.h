// SPDX-License-Identifier: Apache-2.0
//
// The model as a machine with KV cells: the verbs that everything above it is built on.
//
// A sequence is a row of positions 0..length-1, each with one KV cell per layer. evaluate() runs
// new tokens through the model, appends their cells and returns the logits that were asked for.
// fork() shares a sequence's cells, so a prefix is computed once and used by many. A runtime
// whose limits().exact is true obeys the law (docs/adr/0002): cells and logits of a token depend
// on the tokens before it and on nothing else, to the last bit, however the tokens were cut
// into pieces and whatever else ran in the pass.
//
// Every implementation passes tests/conformance/runtime_conformance.h.
// Confined to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "incipit/attention_check.h"
#include "incipit/result.h"
#include "incipit/types.h"

namespace incipit::model {

enum class SequenceId : std::uint32_t {};

// A piece of one sequence in a pass: `tokens` are appended to `sequence`.
struct Step {
  SequenceId sequence{};
  TokenSpan tokens;
  std::span<const std::uint32_t> logits_rows;  // Ascending indices into `tokens`; may be empty.
};

// Logits of one pass: a row for every requested index, in the order of the steps. Borrowed from
// the runtime; valid until its next evaluate().
struct Logits {
  std::span<const float> values;  // rows x vocabulary
  std::size_t vocabulary = 0;

  [[nodiscard]] std::size_t rows() const {
    return vocabulary == 0 ? 0 : values.size() / vocabulary;
  }
  [[nodiscard]] std::span<const float> row(std::size_t index) const {
    return values.subspan(index * vocabulary, vocabulary);
  }
};

struct Limits {
  std::size_t vocabulary = 0;
  std::size_t context_tokens = 0;  // The longest sequence.
  std::size_t cells = 0;           // KV cells in all.
  std::size_t cell_bytes = 0;      // Memory of one cell over all layers.
  std::size_t fork_cells = 0;      // Cells that a fork may waste beyond its own tokens.
  bool can_move = false;           // Cells can go to other positions: slide(), restore_moved().
  // Layers, and heads in each, whose attention() may be asked for; 0: it is not shown.
  std::size_t attention_layers = 0;
  std::size_t attention_heads = 0;
  // Sequences that may live at once, where the runtime bounds them.
  std::size_t sequences = std::numeric_limits<std::size_t>::max();
  bool exact = false;              // The law holds; otherwise results are approximate.
  std::string approximate_reason;  // Why not, for a person; empty where exact.
};

// Cells [sink, sink + dropped) of a sequence go, those behind them move down.
struct Slide {
  std::size_t sink = 0;
  std::size_t dropped = 0;
};

// One of the things that a fingerprint hashes, for a person.
struct FingerprintPart {
  std::string name;
  std::string value;
};

class Runtime {
 public:
  Runtime() = default;
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  virtual ~Runtime() = default;

  // Makes an empty sequence. Errors: kResourceExhausted without free sequences.
  virtual Result<SequenceId> create() = 0;

  // Makes a sequence that shares the first `length` cells of `source`.
  // Errors: kInvalidArgument if `source` is shorter; kResourceExhausted without free cells or
  //         sequences.
  virtual Result<SequenceId> fork(SequenceId source, std::size_t length) = 0;

  // Forgets the cells from `length` on; a longer `length` than the sequence is kInvalidArgument.
  virtual Result<void> truncate(SequenceId sequence, std::size_t length) = 0;

  // Forgets the sequence; cells that nobody shares become free.
  virtual void drop(SequenceId sequence) = 0;

  [[nodiscard]] virtual std::size_t length(SequenceId sequence) const = 0;

  // Runs all steps in one pass. A sequence occurs at most once. All or nothing: after an error
  // every length is as before.
  // Errors: kInvalidArgument for an empty step, a token outside the vocabulary, a sequence beyond
  //         context_tokens; kResourceExhausted without free cells; kInternal if the model failed.
  virtual Result<Logits> evaluate(std::span<const Step> steps) = 0;

  // The cells of positions [begin, end) as bytes that restore() takes.
  [[nodiscard]] virtual Result<std::vector<std::byte>> save(SequenceId sequence, std::size_t begin,
                                                            std::size_t end) const = 0;

  // Appends saved cells to `sequence`, whose length must be the `begin` they were saved from.
  // All or nothing. Errors: kCorruption for damaged bytes; kInvalidArgument for bytes of another
  // fingerprint or position; kResourceExhausted without free cells.
  virtual Result<void> restore(SequenceId sequence, std::span<const std::byte> bytes) = 0;

  // Lossy. Forgets the cells behind the first `sink` ones and moves the rest down, its keys turned
  // to their new positions (StreamingLLM, arXiv 2309.17453). From then on the sequence is not that
  // of any prompt: its cells saw tokens that are gone. All or nothing; forks keep their cells.
  // Errors: kUnavailable where limits().can_move is false; kInvalidArgument beyond the end;
  // kResourceExhausted without free cells in the place of those that forks share.
  virtual Result<void> slide(SequenceId sequence, const Slide& slide);

  // Lossy. Appends saved cells at the end of `sequence`, wherever they were saved, their keys
  // turned to the new positions. All or nothing. Errors: as restore() and slide().
  virtual Result<void> restore_moved(SequenceId sequence, std::span<const std::byte> bytes);

  // How a head attended in a logits row of the last evaluate(), rows counted as in Logits: the
  // weights of its sequence's cells up to its own. They sum to 1. Cell 0 is the sink: many heads
  // put most of their weight there, whatever the prompt says (arXiv 2309.17453). Errors:
  // kUnavailable where limits().attention_layers is 0; kInvalidArgument for a head or a row that is
  // not there, or a row whose sequence has lost cells since.
  [[nodiscard]] virtual Result<std::vector<float>> attention(std::size_t row,
                                                             AttentionHead head) const;

  [[nodiscard]] virtual std::size_t cells_free() const = 0;
  // How many more sequences create() and fork() may make.
  [[nodiscard]] virtual std::size_t sequences_free() const { return limits().sequences; }

  // Names everything that shapes a cell's bits: model, weight recipe, precision, KV type, library
  // version, instruction level, and the settings of the law. Hexadecimal SHA-256.
  [[nodiscard]] virtual const std::string& fingerprint() const = 0;
  // What it hashes, so that a refusal can say which part differs.
  [[nodiscard]] virtual std::vector<FingerprintPart> fingerprint_parts() const = 0;
  [[nodiscard]] virtual const Limits& limits() const = 0;
};

inline Result<void> Runtime::slide(SequenceId /*sequence*/, const Slide& /*slide*/) {
  return failure(ErrorCode::kUnavailable,
                 "this runtime cannot move KV cells: no window can slide over a longer text");
}

inline Result<void> Runtime::restore_moved(SequenceId /*sequence*/,
                                           std::span<const std::byte> /*bytes*/) {
  return failure(ErrorCode::kUnavailable,
                 "this runtime cannot move KV cells: fragments need their own position");
}

inline Result<std::vector<float>> Runtime::attention(std::size_t /*row*/,
                                                     AttentionHead /*head*/) const {
  return failure(ErrorCode::kUnavailable, "this runtime does not show its attention");
}

// Owns one sequence of a runtime and drops it. The runtime must outlive it. Move-only.
class Sequence {
 public:
  Sequence() = default;
  Sequence(Runtime& runtime, SequenceId id) : runtime_(&runtime), id_(id) {}
  Sequence(Sequence&& other) noexcept
      : runtime_(std::exchange(other.runtime_, nullptr)), id_(other.id_) {}
  Sequence& operator=(Sequence&& other) noexcept {
    std::swap(runtime_, other.runtime_);
    std::swap(id_, other.id_);
    return *this;
  }
  ~Sequence() {
    if (runtime_ != nullptr) runtime_->drop(id_);
  }

  static Result<Sequence> create(Runtime& runtime) {
    INCIPIT_TRY(const SequenceId id, runtime.create());
    return Sequence(runtime, id);
  }
  static Result<Sequence> fork(Runtime& runtime, SequenceId source, std::size_t length) {
    INCIPIT_TRY(const SequenceId id, runtime.fork(source, length));
    return Sequence(runtime, id);
  }

  [[nodiscard]] SequenceId id() const { return id_; }
  [[nodiscard]] std::size_t length() const { return runtime_->length(id_); }
  [[nodiscard]] bool is_open() const { return runtime_ != nullptr; }
  // Forgets the cells from `length` on; requires that there are as many.
  void truncate(std::size_t length) {
    const auto done = runtime_->truncate(id_, length);
    INCIPIT_CHECK(done.has_value(), "a sequence cut behind its end");
  }

 private:
  Runtime* runtime_ = nullptr;  // Borrowed; null after a move.
  SequenceId id_{};
};

}  // namespace incipit::model
