// SPDX-License-Identifier: Apache-2.0
#include "model/attention_weights.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "model/key_rows.h"

namespace incipit::model {

std::vector<float> attention_weights(
    const HeadShape& shape, std::span<const float> query, std::size_t cells,
    const std::function<const std::byte*(std::size_t cell)>& key_row) {
  INCIPIT_CHECK(cells > 0 && query.size() == shape.size, "a row sees its own cell, with one query");
  const std::size_t first = shape.window > 0 && cells > shape.window ? cells - shape.window : 0;
  std::vector<float> weights(cells);
  std::vector<float> key(shape.size);
  for (std::size_t cell = first; cell < cells; ++cell) {
    read_key_row(key_row(cell), shape.kv_type, key);
    weights[cell] = shape.scale * std::inner_product(query.begin(), query.end(), key.begin(), 0.0F);
  }
  const auto seen = std::span(weights).subspan(first);
  const float most = std::ranges::max(seen);
  float sum = 0;
  for (float& weight : seen) sum += weight = std::exp(weight - most);
  for (float& weight : seen) weight /= sum;
  return weights;
}

}  // namespace incipit::model
