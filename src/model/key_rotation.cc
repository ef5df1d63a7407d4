// SPDX-License-Identifier: Apache-2.0
#include "model/key_rotation.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "model/key_rows.h"

namespace incipit::model {
namespace {

// To the nearest, ties to even.
std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U);
}

}  // namespace

KeyRotation::KeyRotation(std::span<const float> frequencies, KvType type, std::ptrdiff_t shift)
    : type_(type), moves_(shift != 0), half_(frequencies.size()), values_(2 * frequencies.size()) {
  INCIPIT_CHECK(type != KvType::kAuto, "a row is stored in one of the types");
  for (const float frequency : frequencies) {
    // In f64: an f32 product of thousands of positions is wrong in the fourth digit of the angle.
    const double angle = static_cast<double>(shift) * static_cast<double>(frequency);
    cosines_.push_back(static_cast<float>(std::cos(angle)));
    sines_.push_back(static_cast<float>(std::sin(angle)));
  }
}

std::size_t KeyRotation::row_bytes() const { return key_row_bytes(type_, values_.size()); }

void KeyRotation::turn_values() {
  float* first = values_.data();
  float* second = first + half_;
  for (std::size_t i = 0; i < half_; ++i) {
    const float x = first[i];
    const float y = second[i];
    first[i] = x * cosines_[i] - y * sines_[i];
    second[i] = y * cosines_[i] + x * sines_[i];
  }
}

void KeyRotation::store_int8(std::byte* row) const {
  constexpr float kSteps = 255;
  constexpr float kLeastScale = 1e-4F;  // Of a row whose values are all equal.
  const auto [least, most] = std::ranges::minmax(values_);
  Int8Head head{.scale = (most - least) / kSteps};
  if (head.scale == 0) head.scale = kLeastScale;
  head.zero = -least / head.scale;
  std::memcpy(row, &head, sizeof(head));
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const float stored = std::nearbyint(values_[i] / head.scale + head.zero);
    row[sizeof(head) + i] =
        static_cast<std::byte>(static_cast<std::uint8_t>(std::clamp(stored, 0.0F, kSteps)));
  }
}

void KeyRotation::store(std::byte* row) const {
  if (type_ == KvType::kF32) {
    std::memcpy(row, values_.data(), row_bytes());
  } else if (type_ == KvType::kBf16) {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const std::uint16_t bits = to_bf16(values_[i]);
      std::memcpy(row + i * sizeof(bits), &bits, sizeof(bits));
    }
  } else {
    store_int8(row);
  }
}

void KeyRotation::turn(std::byte* rows, std::size_t count) {
  if (!moves_) return;
  for (std::size_t i = 0; i < count; ++i) {
    std::byte* row = rows + i * row_bytes();
    read_key_row(row, type_, values_);
    turn_values();
    store(row);
  }
}

}  // namespace incipit::model
