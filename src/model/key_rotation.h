// SPDX-License-Identifier: Apache-2.0
//
// Moves a stored key to another position.
//
// A key carries its position as a rotation: each pair (i, i + half) of its values is turned by
// position x frequency[i] (RoPE, arXiv 2104.09864). So a key goes from position p to p + shift by
// one more turn of shift x frequency[i]. f32 keys come out as if computed there, up to rounding;
// bf16 and INT8 keys are rounded once more each time that they move.
// Confined to one thread.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "incipit/types.h"

namespace incipit::model {

class KeyRotation {
 public:
  // `type` is how a row is stored: f32, bf16, or INT8 with one scale for the row. Not kAuto.
  KeyRotation(std::span<const float> frequencies, KvType type, std::ptrdiff_t shift);

  // Bytes of one head's key in this format.
  [[nodiscard]] std::size_t row_bytes() const;
  // Turns `count` rows that lie one behind the other. A shift of 0 leaves every bit.
  void turn(std::byte* rows, std::size_t count);

 private:
  void turn_values();
  void store(std::byte* row) const;
  void store_int8(std::byte* row) const;

  KvType type_;
  bool moves_;
  std::size_t half_;
  std::vector<float> cosines_;
  std::vector<float> sines_;
  std::vector<float> values_;  // Of the row at hand.
};

}  // namespace incipit::model
