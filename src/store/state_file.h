// SPDX-License-Identifier: Apache-2.0
//
// One KV state on disk: the cells of positions [begin, end) of a path of tokens, as a safetensors
// file that knows whose it is.
//
//     8 bytes: length of the header, little-endian
//     header:  JSON; __metadata__ (all strings): format, id, fingerprint, parts, tenant, begin,
//              use, pieces_xxh3; three tensors: tokens I32 [end], cells U8 [bytes],
//              pieces U64 [4 * count]
//     data:    tokens of the whole path [0, end); the cells, piece by piece, as Runtime::save()
//              gave them; for each piece its end, its bytes and both halves of its XXH3-128
//
// The id is a SHA-256 over tagged, length-prefixed fields: everything but the cells. It names the
// file, so a file under another's name, with other tokens or of another model is not believed.
// The pieces have XXH3-128 (13 GB/s here, where SHA-256 takes 1.5), and so has their list: damage
// is what it has to find; who may write into the folder can replace a state whole, with any hash.
// What is only for a person or for an order (parts, use) is not checked, and never trusted.
// A file of the format before this one, whose cells are one piece, is read too. The layout of
// safetensors is at huggingface's documentation of the format; every bound is checked here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "incipit/result.h"
#include "incipit/types.h"

namespace incipit::store {

// Cells of consecutive positions as Runtime::save() gave them. They begin where the piece before
// ends. Immutable, and shared between the memory level and the thread that writes files.
struct CellPiece {
  std::size_t end = 0;  // Position behind its last cell.
  std::shared_ptr<const std::vector<std::byte>> cells;
};

// Where a piece lies in a file.
struct PieceFacts {
  std::size_t end = 0;
  std::uint64_t offset = 0;  // In the file.
  std::uint64_t bytes = 0;
  std::array<std::uint64_t, 2> xxh3{};  // High half first.
};

struct StateFacts {
  std::string id{};  // 64 hexadecimal digits.
  std::string fingerprint{};
  std::string parts{};  // What the fingerprint hashes (store/fingerprint_parts.h), or nothing.
  std::string tenant{};
  TokenVector tokens{};              // The whole path; its size is the end of the cells.
  std::size_t begin = 0;             // The cells before it lie in another file.
  std::uint64_t use = 0;             // Of the folder's count of uses when it was written.
  std::vector<PieceFacts> pieces{};  // Not empty in a file.
  std::uint64_t file_bytes = 0;
};

[[nodiscard]] std::string state_id(const StateFacts& facts);

// Bytes of a file beside its pieces, and beside the cells of each piece.
[[nodiscard]] std::uint64_t bytes_beside_pieces(const StateFacts& facts);
inline constexpr std::uint64_t kBytesBesideCells = 4 * sizeof(std::uint64_t);

// A new file, written piece by piece under another name: finish() syncs it and gives it its own,
// so it is there whole or not at all. Without finish() nothing is left. Move-only; confined to one
// thread.
class StateDraft {
 public:
  // Errors: kInvalidArgument for a tenant beyond 1 KiB or a path that is no plain file; of the
  // disk, as below: kResourceExhausted where it is full.
  static Result<StateDraft> create(const std::string& path, StateFacts facts);
  StateDraft(StateDraft&& other) noexcept;
  StateDraft& operator=(StateDraft&&) = delete;
  ~StateDraft();

  Result<void> append(const CellPiece& piece);
  // Fills id, pieces and bytes of what create() was given.
  Result<StateFacts> finish();

 private:
  StateDraft(File file, std::string path, StateFacts facts);

  File file_;
  std::string path_;  // Where the file will be; empty after a move.
  StateFacts facts_;
  std::uint64_t header_bytes_;
};

// Where a draft lies until it is finished.
inline constexpr std::string_view kDraftEnding = ".draft";

// Header, tokens and pieces, all checked; the cells are not read.
// Errors: kCorruption with file and place; kUnavailable for another format's version, or for a
// file that is not there.
Result<StateFacts> read_state_facts(const std::string& path);

// The cells of one piece, checked. Errors: as above.
Result<std::vector<std::byte>> read_state_piece(const std::string& path, const StateFacts& facts,
                                                std::size_t piece);

}  // namespace incipit::store
