// SPDX-License-Identifier: Apache-2.0
//
// How OpenVINO's CPU plugin stores one head's key of one cell, read back into numbers.
//
// f32 and bf16 as they are; INT8 by token as scale, zero point and values, of which a value is
// (stored - zero) * scale. The tests compare it with keys that the plugin wrote
// (tests/conformance/openvino_slide_test.cc). Pure functions.
#pragma once

#include <cstddef>
#include <span>

#include "incipit/types.h"

namespace incipit::model {

// What stands before the values of an INT8 row.
struct Int8Head {
  float scale = 0;
  float zero = 0;
};

// Bytes of a key of `size` values. `type` is not kAuto, here and below.
[[nodiscard]] std::size_t key_row_bytes(KvType type, std::size_t size);

// `row` has key_row_bytes(type, values.size()).
void read_key_row(const std::byte* row, KvType type, std::span<float> values);

}  // namespace incipit::model
