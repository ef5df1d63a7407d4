// SPDX-License-Identifier: Apache-2.0
#include "model/key_rotation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace incipit::model {
namespace {

const std::vector<float> kFrequencies{1.0F, 0.1F, 0.01F, 0.001F};

std::vector<float> random_key(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> key(2 * kFrequencies.size());
  for (float& value : key) value = normal(random);
  return key;
}

// What the model does at a position, slowly and in f64.
std::vector<float> at_position(const std::vector<float>& key, double position) {
  std::vector<float> turned(key.size());
  const std::size_t half = key.size() / 2;
  for (std::size_t i = 0; i < half; ++i) {
    const double angle = position * static_cast<double>(kFrequencies[i]);
    const double x = key[i];
    const double y = key[i + half];
    turned[i] = static_cast<float>(x * std::cos(angle) - y * std::sin(angle));
    turned[i + half] = static_cast<float>(y * std::cos(angle) + x * std::sin(angle));
  }
  return turned;
}

std::vector<std::byte> f32_row(const std::vector<float>& values) {
  std::vector<std::byte> row(values.size() * sizeof(float));
  std::memcpy(row.data(), values.data(), row.size());
  return row;
}

std::vector<float> f32_values(const std::vector<std::byte>& row) {
  std::vector<float> values(row.size() / sizeof(float));
  std::memcpy(values.data(), row.data(), row.size());
  return values;
}

void expect_near(const std::vector<float>& got, const std::vector<float>& want, float tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance) << i;
}

TEST(KeyRotation, AKeyMovedIsTheKeyComputedThere) {
  const std::vector<float> key = random_key(1);
  for (const auto& [from, to] : {std::pair{100, 40}, {40, 100}, {7000, 3}, {5, 5}}) {
    auto row = f32_row(at_position(key, from));
    KeyRotation(kFrequencies, KvType::kF32, to - from).turn(row.data(), 1);
    expect_near(f32_values(row), at_position(key, to), 2e-5F);
  }
}

TEST(KeyRotation, ADozenMovesAddUp) {
  const std::vector<float> key = random_key(2);
  auto row = f32_row(at_position(key, 1200));
  KeyRotation rotation(kFrequencies, KvType::kF32, -100);
  for (int i = 0; i < 12; ++i) rotation.turn(row.data(), 1);
  expect_near(f32_values(row), key, 2e-5F);
}

TEST(KeyRotation, EveryRowIsTurned) {
  const std::vector<float> key = random_key(3);
  auto rows = f32_row(at_position(key, 9));
  const auto one = rows;
  rows.insert(rows.end(), one.begin(), one.end());
  KeyRotation(kFrequencies, KvType::kF32, -9).turn(rows.data(), 2);
  const auto values = f32_values(rows);
  expect_near({values.begin(), values.begin() + 8}, key, 1e-5F);
  expect_near({values.begin() + 8, values.end()}, key, 1e-5F);
}

TEST(KeyRotation, Bf16KeysAreRoundedOnce) {
  const std::vector<float> key = random_key(4);
  std::vector<std::byte> row(key.size() * 2);
  for (std::size_t i = 0; i < key.size(); ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &key[i], sizeof(bits));
    const auto upper = static_cast<std::uint16_t>(bits >> 16U);
    std::memcpy(row.data() + 2 * i, &upper, sizeof(upper));
  }
  KeyRotation rotation(kFrequencies, KvType::kBf16, 17);
  ASSERT_EQ(rotation.row_bytes(), row.size());
  const auto before = row;
  rotation.turn(row.data(), 1);
  const auto value = [](const std::vector<std::byte>& bytes, std::size_t i) {
    std::uint16_t upper = 0;
    std::memcpy(&upper, bytes.data() + 2 * i, sizeof(upper));
    const auto bits = static_cast<std::uint32_t>(upper) << 16U;
    float result = 0;
    std::memcpy(&result, &bits, sizeof(result));
    return result;
  };
  std::vector<float> stored;
  for (std::size_t i = 0; i < key.size(); ++i) stored.push_back(value(before, i));
  const auto want = at_position(stored, 17);
  for (std::size_t i = 0; i < key.size(); ++i)
    EXPECT_NEAR(value(row, i), want[i], std::abs(want[i]) / 256 + 1e-6F) << i;
}

// (stored - zero) * scale, behind scale and zero.
std::vector<float> int8_values(const std::vector<std::byte>& row) {
  float head[2] = {};
  std::memcpy(head, row.data(), sizeof(head));
  std::vector<float> values;
  for (std::size_t i = sizeof(head); i < row.size(); ++i)
    values.push_back((static_cast<float>(std::to_integer<int>(row[i])) - head[1]) * head[0]);
  return values;
}

TEST(KeyRotation, Int8KeysGetAScaleOfTheirOwn) {
  std::vector<std::byte> row(8 + 2 * kFrequencies.size());
  const float head[2] = {0.02F, 128.0F};
  std::memcpy(row.data(), head, sizeof(head));
  for (std::size_t i = 8; i < row.size(); ++i) row[i] = static_cast<std::byte>(31 * i % 256);
  const auto want = at_position(int8_values(row), -300);
  KeyRotation rotation(kFrequencies, KvType::kInt8, -300);
  ASSERT_EQ(rotation.row_bytes(), row.size());
  rotation.turn(row.data(), 1);
  float scale = 0;
  std::memcpy(&scale, row.data(), sizeof(scale));
  expect_near(int8_values(row), want, 0.51F * scale);
}

TEST(KeyRotation, AnInt8KeyOfOneValueStaysFinite) {
  std::vector<std::byte> row(8 + 2 * kFrequencies.size(), std::byte{0});
  KeyRotation(kFrequencies, KvType::kInt8, 5).turn(row.data(), 1);
  for (const float value : int8_values(row)) EXPECT_EQ(value, 0.0F);
}

}  // namespace
}  // namespace incipit::model
