// SPDX-License-Identifier: Apache-2.0
//
// One KV state on disk: the cells of positions [begin, end) of a path of tokens, as a safetensors
// file that knows whose it is.
//
//     8 bytes: length of the header, little-endian
//     header:  JSON; __metadata__ (all strings): format, id, fingerprint, tenant, begin,
//              cells_xxh3; two tensors: tokens I32 [end], cells U8 [bytes]
//     data:    tokens of the whole path [0, end), then the cells as Runtime::save() gave them
//
// The id is a SHA-256 over tagged, length-prefixed fields: everything but the cells. It names the
// file, so a file under another's name, with other tokens or of another model is not believed.
// The cells have XXH3-128 (13 GB/s here, where SHA-256 takes 1.5): damage is what it has to find;
// who may write into the folder can replace a state whole, with any hash. The layout of
// safetensors is at huggingface's documentation of the format; every bound is checked here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "incipit/result.h"
#include "incipit/types.h"

namespace incipit::store {

struct StateFacts {
  std::string id{};  // 64 hexadecimal digits.
  std::string fingerprint{};
  std::string tenant{};
  TokenVector tokens{};            // The whole path; its size is the end of the cells.
  std::size_t begin = 0;           // The cells before it lie in another file.
  std::uint64_t cells_offset = 0;  // In the file.
  std::uint64_t cells_bytes = 0;
  std::string cells_xxh3{};  // 32 hexadecimal digits.

  [[nodiscard]] std::uint64_t file_bytes() const { return cells_offset + cells_bytes; }
};

[[nodiscard]] std::string state_id(const StateFacts& facts);

// Writes a new file and syncs it. Fills id, offset, bytes and hash of `facts`.
// Errors: kInvalidArgument for a tenant beyond 1 KiB; kResourceExhausted for a full disk.
Result<void> write_state(const std::string& path, StateFacts& facts,
                         std::span<const std::byte> cells);

// Header and tokens, all checked; the cells are not read.
// Errors: kCorruption with file and place; kUnavailable for another format's version, or for a
// file that is not there.
Result<StateFacts> read_state_facts(const std::string& path);

// The cells, checked. Errors: as above.
Result<std::vector<std::byte>> read_state_cells(const std::string& path, const StateFacts& facts);

}  // namespace incipit::store
