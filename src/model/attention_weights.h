// SPDX-License-Identifier: Apache-2.0
//
// One head's attention in one row, computed from its query and the stored keys.
//
// softmax(q . K * scale) over the cells that the row sees (arXiv 1706.03762). The model computes
// the same inside its attention and does not say it. Pure functions.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "incipit/types.h"

namespace incipit::model {

struct HeadShape {
  std::size_t size = 0;
  float scale = 1;
  std::size_t window = 0;  // Cells that a row sees, its own included; 0: all.
  KvType kv_type = KvType::kF32;
};

// `query` has shape.size values, `key_row(cell)` a key as it is stored (model/key_rows.h). Returns
// the weights of cells 0 to `cells` - 1, the row's own; those before the window are 0.
[[nodiscard]] std::vector<float> attention_weights(
    const HeadShape& shape, std::span<const float> query, std::size_t cells,
    const std::function<const std::byte*(std::size_t cell)>& key_row);

}  // namespace incipit::model
