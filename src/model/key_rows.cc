// SPDX-License-Identifier: Apache-2.0
#include "model/key_rows.h"

#include <bit>
#include <cstdint>
#include <cstring>

namespace incipit::model {

std::size_t key_row_bytes(KvType type, std::size_t size) {
  switch (type) {
    case KvType::kInt8:
      return sizeof(Int8Head) + size;
    case KvType::kBf16:
      return size * sizeof(std::uint16_t);
    default:
      return size * sizeof(float);
  }
}

void read_key_row(const std::byte* row, KvType type, std::span<float> values) {
  if (type == KvType::kF32) {
    std::memcpy(values.data(), row, values.size_bytes());
  } else if (type == KvType::kBf16) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, row + i * sizeof(bits), sizeof(bits));
      values[i] = std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
    }
  } else {
    Int8Head head;
    std::memcpy(&head, row, sizeof(head));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto stored = std::to_integer<std::uint8_t>(row[sizeof(head) + i]);
      values[i] = (static_cast<float>(stored) - head.zero) * head.scale;
    }
  }
}

}  // namespace incipit::model
