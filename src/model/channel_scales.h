// SPDX-License-Identifier: Apache-2.0
//
// Scales that make the channels of a layer's cells equally wide, for INT8 cells.
//
// INT8 by token has one step for all channels of a head, and in some models a few channels of the
// keys are a hundred times as wide as the rest (KIVI, arXiv 2402.02750): the step is theirs, and
// the others are lost in it. A key divided by a channel's scale and a query multiplied by it give
// the same product (SmoothQuant, arXiv 2211.10438), and a value divided by one is put right behind
// attention. How wide a channel is the weights tell; no text is needed. The scales are powers of
// two, so they round nothing themselves.
#pragma once

#include <cstddef>
#include <vector>

#include "model/model_shape.h"
#include "model/prepared_weights.h"

namespace incipit::model {

struct ChannelScales {
  // kv_heads x head_size numbers of at most 1. The two channels that the rope turns into each
  // other have the same: keys can be turned to other positions as before.
  std::vector<float> keys;
  std::vector<float> values;
};

ChannelScales channel_scales(const ModelShape& shape, const PreparedWeights& weights,
                             std::size_t layer);

}  // namespace incipit::model
