// SPDX-License-Identifier: Apache-2.0
//
// How a row of the last pass attended: its queries come out of the graph (model/graph_builder.h),
// the keys are the cells that we own.
#include <cmath>
#include <string>
#include <utility>

#include "model/key_rows.h"
#include "model/model_shape.h"
#include "model/openvino_runtime.h"

namespace incipit::model {

void OpenVinoRuntime::show_attention(const ModelShape& shape) {
  if (key_row_bytes(options_.kv_type, shape.head_size) != machine_->key_row_bytes()) return;
  const double scale = shape.attention_scale != 0
                           ? shape.attention_scale
                           : 1 / std::sqrt(static_cast<double>(shape.head_size));
  for (std::size_t layer = 0; layer < shape.layers; ++layer) {
    head_shapes_.push_back({.size = shape.head_size,
                            .scale = static_cast<float>(scale),
                            .window = shape.window(layer),
                            .kv_type = options_.kv_type});
  }
  heads_of_a_key_ = shape.heads / shape.kv_heads;
  queries_.resize(shape.layers);
  limits_.attention_layers = shape.layers;
  limits_.attention_heads = shape.heads;
}

void OpenVinoRuntime::forget_shown_rows() {
  shown_rows_.clear();
  for (auto& layer : queries_) layer.clear();
}

// Adds the first `rows` queries of a pass to those of the passes before it.
Result<void> OpenVinoRuntime::keep_queries(std::size_t rows) {
  for (std::size_t layer = 0; layer < queries_.size(); ++layer) {
    INCIPIT_TRY(const auto queries, machine_->queries(layer));
    const auto wanted = queries.first(rows * limits_.attention_heads * head_shapes_[layer].size);
    queries_[layer].insert(queries_[layer].end(), wanted.begin(), wanted.end());
  }
  return {};
}

// After the pass: the steps' sequences hold their new cells.
void OpenVinoRuntime::note_shown_rows(std::span<const Step> steps) {
  if (queries_.empty()) return;
  for (const Step& step : steps) {
    const std::size_t before = row(step.sequence).length - step.tokens.size();
    for (const std::uint32_t wanted : step.logits_rows)
      shown_rows_.push_back({.sequence = step.sequence, .position = before + wanted});
  }
}

Result<std::vector<float>> OpenVinoRuntime::attention(std::size_t row, AttentionHead head) const {
  if (queries_.empty()) return Runtime::attention(row, head);
  if (head.layer >= limits_.attention_layers || head.head >= limits_.attention_heads ||
      row >= shown_rows_.size()) {
    return failure(ErrorCode::kInvalidArgument,
                   "there is no attention of row " + std::to_string(row) + ", layer " +
                       std::to_string(head.layer) + ", head " + std::to_string(head.head) +
                       ": the last pass had " + std::to_string(shown_rows_.size()) +
                       " rows, the model has " + std::to_string(limits_.attention_layers) +
                       " layers of " + std::to_string(limits_.attention_heads) + " heads");
  }
  const ShownRow& shown = shown_rows_[row];
  const auto sequence = rows_.find(std::to_underlying(shown.sequence));
  if (sequence == rows_.end() || sequence->second.length <= shown.position)
    return failure(ErrorCode::kInvalidArgument,
                   "the cells that this row attended to are gone; ask before they are dropped");
  const HeadShape& shape = head_shapes_[head.layer];
  const auto query =
      std::span(queries_[head.layer])
          .subspan((row * limits_.attention_heads + head.head) * shape.size, shape.size);
  return attention_weights(shape, query, shown.position + 1, [&](std::size_t cell) {
    return machine_->key_row(head.layer, sequence->second.blocks[cell / kBlockCells],
                             head.head / heads_of_a_key_, cell % kBlockCells);
  });
}

}  // namespace incipit::model
