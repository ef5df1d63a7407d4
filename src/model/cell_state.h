// SPDX-License-Identifier: Apache-2.0
//
// The frame around saved KV cells: who made them, which positions they are, and a checksum.
//
//     magic | fingerprint (64 hex digits) | begin | end | payload bytes | SHA-256 | payload
//
// Read back with suspicion: bytes may come from a damaged disk or from a stranger.
// Pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "incipit/result.h"

namespace incipit::model {

struct CellState {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::span<const std::byte> payload;  // Borrowed from the framed bytes.
};

// Room for the frame; the payload is written behind it, then seal_cells() fills the frame in.
[[nodiscard]] std::vector<std::byte> cells_frame(std::size_t payload_bytes);
[[nodiscard]] std::span<std::byte> cells_payload(std::vector<std::byte>& framed);
void seal_cells(std::vector<std::byte>& framed, std::string_view fingerprint, std::size_t begin,
                std::size_t end);

// Errors: kCorruption for bytes that are damaged, cut short or no frame at all;
// kInvalidArgument for another fingerprint.
Result<CellState> open_cells(std::span<const std::byte> framed, std::string_view fingerprint);

}  // namespace incipit::model
