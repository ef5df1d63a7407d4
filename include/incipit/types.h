// SPDX-License-Identifier: Apache-2.0
//
// The small words that every other header uses.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace incipit {

// A token's number in the model's vocabulary, from 0.
using Token = std::int32_t;
using TokenSpan = std::span<const Token>;
using TokenVector = std::vector<Token>;

// What the model computes in. kAuto: bf16 where the CPU has it, else f32.
enum class Precision { kAuto, kBf16, kF32 };

// What a KV cell is stored in. kAuto: the precision of the pass. kInt8 keeps one scale per token,
// so a half-filled block is never quantised again and a hit stays exact.
enum class KvType { kAuto, kF32, kBf16, kInt8 };

// Which library computes. kAuto: OpenVINO, whose results are exact, and libllama for models of an
// architecture that OpenVINO's graph does not know.
enum class RuntimeKind { kAuto, kOpenVino, kLlama };

}  // namespace incipit
