// SPDX-License-Identifier: Apache-2.0
#include "model/attention_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>

#include "model/key_rows.h"
#include "model/type_names.h"

namespace incipit::model {
namespace {

struct Case {
  const char* name;
  HeadShape shape;
  std::size_t cells;
};

const Case kCases[] = {{"all", {.size = 8, .scale = 0.35F}, 33},
                       {"window", {.size = 4, .scale = 0.5F, .window = 7}, 19},
                       {"window_of_all", {.size = 4, .scale = 0.5F, .window = 19}, 19},
                       {"one_cell", {.size = 4, .scale = 1, .window = 1}, 1}};

class AttentionWeights : public testing::TestWithParam<std::tuple<Case, KvType>> {};

std::vector<float> random_values(std::mt19937_64& random, std::size_t count) {
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// A key as the plugin stores it, and `values` as what is then in it.
std::vector<std::byte> stored(std::vector<float>& values, KvType type) {
  std::vector<std::byte> row(key_row_bytes(type, values.size()));
  if (type == KvType::kF32) {
    std::memcpy(row.data(), values.data(), row.size());
  } else if (type == KvType::kBf16) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::memcpy(row.data() + 2 * i, reinterpret_cast<const std::byte*>(&values[i]) + 2, 2);
      std::memset(&values[i], 0, 2);  // The low half of a little-endian float.
    }
  } else {
    const Int8Head head{.scale = 0.05F, .zero = 120};
    std::memcpy(row.data(), &head, sizeof(head));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float level = std::clamp(std::round(values[i] / head.scale + head.zero), 0.0F, 255.0F);
      row[sizeof(head) + i] = static_cast<std::byte>(static_cast<std::uint8_t>(level));
      values[i] = (level - head.zero) * head.scale;
    }
  }
  return row;
}

// Slowly, in f64.
TEST_P(AttentionWeights, AreThoseOfTheFormula) {
  const auto& [named, type] = GetParam();
  HeadShape shape = named.shape;
  shape.kv_type = type;
  std::mt19937_64 random(3);
  const auto query = random_values(random, shape.size);
  std::vector<std::vector<float>> keys;
  std::vector<std::vector<std::byte>> rows;
  for (std::size_t cell = 0; cell < named.cells; ++cell) {
    keys.push_back(random_values(random, shape.size));
    rows.push_back(stored(keys.back(), type));
  }
  const auto weights = attention_weights(shape, query, named.cells,
                                         [&](std::size_t cell) { return rows[cell].data(); });
  ASSERT_EQ(weights.size(), named.cells);
  std::vector<double> powers(named.cells);
  double sum = 0;
  for (std::size_t cell = 0; cell < named.cells; ++cell) {
    if (shape.window > 0 && cell + shape.window < named.cells) continue;
    double product = 0;
    for (std::size_t i = 0; i < shape.size; ++i)
      product += static_cast<double>(query[i]) * static_cast<double>(keys[cell][i]);
    sum += powers[cell] = std::exp(product * static_cast<double>(shape.scale));
  }
  for (std::size_t cell = 0; cell < named.cells; ++cell)
    EXPECT_NEAR(weights[cell], powers[cell] / sum, 1e-5) << cell;
}

INSTANTIATE_TEST_SUITE_P(Cases, AttentionWeights,
                         testing::Combine(testing::ValuesIn(kCases),
                                          testing::Values(KvType::kF32, KvType::kBf16,
                                                          KvType::kInt8)),
                         [](const auto& each) {
                           return std::string(std::get<0>(each.param).name) + "_" +
                                  model::name_of(std::get<1>(each.param));
                         });

}  // namespace
}  // namespace incipit::model
