// SPDX-License-Identifier: Apache-2.0
//
// The Runtime on OpenVINO's CPU plugin, with KV blocks that we own.
//
// OpenVINO computes; which block a token's cell lies in, who shares it and when it is copied is
// decided here, through the block tables that paged attention takes as inputs. The law of
// docs/adr/0002 is kept by construction (LawSettings): attention sees a lone token twice, a small
// pass is filled up with a filler sequence, a small set of logits rows with repeated rows. None of
// the three changes a result.
//
// Confined to one thread at a time; OpenVINO uses its own threads inside evaluate().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "incipit/result.h"
#include "incipit/types.h"
#include "model/attention_weights.h"
#include "model/kv_blocks.h"
#include "model/openvino_machine.h"
#include "model/runtime.h"

namespace incipit::model {

// What keeps results independent of their neighbours. The values are measured per model,
// precision and CPU (model/bit_law.h); tests switch each off and must see drift.
struct LawSettings {
  std::size_t rows_min = 8;         // Least rows of a pass: below it other kernels run.
  std::size_t logits_rows_min = 8;  // The same for the last matrix product.
  bool shadow_lone_token = true;    // A piece of one token takes another attention kernel.
  bool int8_by_token = true;        // By channel, a half-full block is quantised again.
  // No part of the law: passes are filled up to one of some 140 sizes, since OpenVINO compiles
  // kernels for every new number of rows and keeps them (megabytes and milliseconds for each).
  bool few_sizes = true;
};

struct OpenVinoOptions {
  Precision precision = Precision::kF32;  // Not kAuto.
  KvType kv_type = KvType::kF32;          // Not kAuto.
  std::size_t cells = 4096;
  std::size_t threads = 1;
  LawSettings law;
  bool exact = false;              // The law was proved with these settings.
  std::string approximate_reason;  // Why not.
  bool shows_attention = false;    // Lets attention() be asked for; changes no bit.
  std::string identity;            // Model hash, CPU and library: what shapes the bits besides.
  std::string model;               // The model's part of it, for a person.
};

class OpenVinoRuntime final : public Runtime {
 public:
  // Compiles the model. `weights` must outlive the runtime. Errors: kResourceExhausted if the
  // cells do not fit into memory (says how many would); kInternal with OpenVINO's reason.
  static Result<std::unique_ptr<OpenVinoRuntime>> open(const ModelShape& shape,
                                                       const PreparedWeights& weights,
                                                       const OpenVinoOptions& options);

  Result<SequenceId> create() override;
  Result<SequenceId> fork(SequenceId source, std::size_t length) override;
  Result<void> truncate(SequenceId sequence, std::size_t length) override;
  void drop(SequenceId sequence) override;
  [[nodiscard]] std::size_t length(SequenceId sequence) const override;
  Result<Logits> evaluate(std::span<const Step> steps) override;
  [[nodiscard]] Result<std::vector<std::byte>> save(SequenceId sequence, std::size_t begin,
                                                    std::size_t end) const override;
  Result<void> restore(SequenceId sequence, std::span<const std::byte> bytes) override;
  Result<void> slide(SequenceId sequence, const Slide& slide) override;
  Result<void> restore_moved(SequenceId sequence, std::span<const std::byte> bytes) override;
  [[nodiscard]] Result<std::vector<float>> attention(std::size_t row,
                                                     AttentionHead head) const override;
  [[nodiscard]] std::size_t cells_free() const override;
  [[nodiscard]] const std::string& fingerprint() const override { return fingerprint_; }
  [[nodiscard]] std::vector<FingerprintPart> fingerprint_parts() const override;
  [[nodiscard]] const Limits& limits() const override { return limits_; }

  // Other settings of the law, for the self-test and for tests; names the fingerprint again.
  void set_law(const LawSettings& law);
  [[nodiscard]] const LawSettings& law() const { return law_; }
  // Tokens that the layers with a sliding window see; 0: every layer sees all. Their cells are kept
  // all the same: a cell that no row will see again costs memory, and lets every prefix be forked.
  [[nodiscard]] std::size_t window() const { return window_; }
  // What the self-test found.
  void set_exact(bool exact, std::string reason);

 private:
  struct Row {  // A sequence.
    std::vector<BlockIndex> blocks;
    std::size_t length = 0;
  };
  struct Piece {  // A step, or a part of one, in one pass.
    const Row* row = nullptr;
    std::size_t past = 0;
    TokenSpan tokens;
    std::vector<std::uint32_t> logits_rows;  // Indices into `tokens`.
  };

  OpenVinoRuntime() = default;
  [[nodiscard]] const Row& row(SequenceId id) const;
  SequenceId add_row(Row row);
  // `row` with room for `length` cells: shares what stays, copies what will be written.
  Result<Row> reserve(const Row& row, std::size_t length);
  void release(const Row& row);
  Result<void> check_can_move() const;
  // `row` with a block of its own, still empty, in the place of each shared one from `first` on.
  Result<Row> own_blocks(const Row& row, std::size_t first, std::size_t length);
  [[nodiscard]] std::vector<std::vector<Piece>> plan(std::span<const Step> steps,
                                                     std::span<const Row> rows) const;
  void add_piece(TokenSpan tokens, std::size_t past, std::span<const BlockIndex> table);
  void fill_inputs(std::span<const Piece> pieces);
  Result<std::span<const float>> run(std::span<const Piece> pieces);
  void name_fingerprint();
  void show_attention(const ModelShape& shape);
  void forget_shown_rows();
  Result<void> keep_queries(std::size_t rows);
  void note_shown_rows(std::span<const Step> steps);

  std::unique_ptr<OpenVinoMachine> machine_;
  std::unique_ptr<KvBlocks> blocks_;
  BlockIndex filler_block_ = 0;  // Where filler sequences write.
  PassInputs inputs_;            // Kept for its memory.
  std::vector<float> logits_;    // Logits of an evaluate() that took several passes.
  std::unordered_map<std::uint32_t, Row> rows_;
  std::uint32_t next_id_ = 1;
  LawSettings law_;
  std::size_t window_ = 0;
  Limits limits_;
  std::string recipe_;  // Of the weights.
  std::string fingerprint_;
  OpenVinoOptions options_;
  std::vector<float> frequencies_;  // Of the keys' rotation; ModelShape::rope_frequencies.

  // For attention(), where it is shown.
  struct ShownRow {  // A logits row of the last evaluate().
    SequenceId sequence{};
    std::size_t position = 0;
  };
  std::vector<HeadShape> head_shapes_;       // By layer.
  std::vector<std::vector<float>> queries_;  // By layer: rows x heads x head_size.
  std::size_t heads_of_a_key_ = 1;           // Query heads that share one.
  std::vector<ShownRow> shown_rows_;
};

}  // namespace incipit::model
