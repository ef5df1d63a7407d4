// SPDX-License-Identifier: Apache-2.0
#include "model/channel_scales.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <openvino/core/type/float16.hpp>
#include <string>

namespace incipit::model {
namespace {

// How far the part that depends on the text goes, in standard deviations.
constexpr double kReach = 2;
// A channel that is narrower still loses nothing that counts.
constexpr int kExponentMin = -8;

// Each output's standard deviation for inputs of variance 1 that a norm of weight `gain` scales.
std::vector<double> deviations(const Int8Matrix& matrix, std::span<const float> gain) {
  const std::size_t groups = matrix.columns / matrix.group;
  std::vector<double> result(matrix.rows);
  for (std::size_t row = 0; row < matrix.rows; ++row) {
    double sum = 0;
    for (std::size_t group = 0; group < groups; ++group) {
      ov::float16 scale;
      std::memcpy(&scale, matrix.scales.data() + (row * groups + group) * sizeof scale,
                  sizeof scale);
      double squares = 0;
      for (std::size_t i = 0; i < matrix.group; ++i) {
        const std::size_t column = group * matrix.group + i;
        const auto value = static_cast<std::int8_t>(matrix.values[row * matrix.columns + column]);
        const double weight = value * static_cast<double>(gain[column]);
        squares += weight * weight;
      }
      const double factor = static_cast<float>(scale);
      sum += squares * factor * factor;
    }
    result[row] = std::sqrt(sum);
  }
  return result;
}

// How wide each channel of `part` gets.
std::vector<double> widths(const ModelShape& shape, const PreparedWeights& weights,
                           const std::string& layer, const std::string& part) {
  const std::span<const float> norm = weights.vector(layer + part + "_norm.weight");
  if (shape.head_norms && !norm.empty()) {  // Whatever comes in, the norm makes it so wide.
    std::vector<double> result(shape.kv_heads * shape.head_size);
    for (std::size_t i = 0; i < result.size(); ++i)
      result[i] = kReach * std::abs(static_cast<double>(norm[i % norm.size()]));
    return result;
  }
  std::vector<double> result = deviations(weights.matrix(layer + part + ".weight"),
                                          weights.vector(layer + "attn_norm.weight"));
  const std::span<const float> bias = weights.vector(layer + part + ".bias");
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] *= kReach;
    if (!bias.empty()) result[i] += std::abs(static_cast<double>(bias[i]));
  }
  return result;
}

// Against the widest of each head.
std::vector<float> scales_of(const std::vector<double>& wide, std::size_t head_size) {
  std::vector<float> scales(wide.size());
  for (std::size_t head = 0; head < wide.size(); head += head_size) {
    const auto first = wide.begin() + static_cast<std::ptrdiff_t>(head);
    const double widest = *std::max_element(first, first + static_cast<std::ptrdiff_t>(head_size));
    for (std::size_t i = head; i < head + head_size; ++i) {
      const double exponent = wide[i] > 0 ? std::round(std::log2(wide[i] / widest)) : 0;
      scales[i] = std::ldexp(1.0F, std::max(kExponentMin, static_cast<int>(exponent)));
    }
  }
  return scales;
}

}  // namespace

ChannelScales channel_scales(const ModelShape& shape, const PreparedWeights& weights,
                             std::size_t layer) {
  const std::string prefix = "blk." + std::to_string(layer) + ".";
  std::vector<double> keys = widths(shape, weights, prefix, "attn_k");
  const std::size_t half = shape.head_size / 2;
  for (std::size_t head = 0; head < keys.size(); head += shape.head_size) {
    for (std::size_t i = head; i < head + half; ++i)
      keys[i] = keys[i + half] = std::hypot(keys[i], keys[i + half]);
  }
  return {.keys = scales_of(keys, shape.head_size),
          .values = scales_of(widths(shape, weights, prefix, "attn_v"), shape.head_size)};
}

}  // namespace incipit::model
