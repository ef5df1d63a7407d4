// SPDX-License-Identifier: Apache-2.0
//
// KV states on disk, all at once: what the cache does piece by piece, between other things.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "incipit/result.h"
#include "store/state_folder.h"

namespace incipit::test {

// The cells of all tokens as one piece.
inline store::CellPiece piece_of(std::size_t end, std::vector<std::byte> cells) {
  return {.end = end, .cells = std::make_shared<const std::vector<std::byte>>(std::move(cells))};
}

inline Result<store::StateFacts> write_state_file(const std::string& path, store::StateFacts facts,
                                                  std::vector<std::byte> cells) {
  const store::CellPiece piece = piece_of(facts.tokens.size(), std::move(cells));
  INCIPIT_TRY(auto draft, store::StateDraft::create(path, std::move(facts)));
  INCIPIT_TRY_VOID(draft.append(piece));
  return draft.finish();
}

// Returns its id once it is on the disk.
inline Result<std::string> write_state(store::StateFolder& folder, store::StateFacts facts,
                                       std::vector<std::byte> cells) {
  const store::CellPiece piece = piece_of(facts.tokens.size(), std::move(cells));
  INCIPIT_TRY_VOID(folder.begin(std::move(facts), piece.cells->size()));
  INCIPIT_TRY_VOID(folder.append(piece));
  folder.finish();
  folder.wait();
  const auto written = folder.collect();
  if (!written) return failure(ErrorCode::kInternal, "the disk said nothing");
  if (!*written) return std::unexpected(written->error());
  return (*written)->id;
}

// All pieces, one behind the other.
inline Result<std::vector<std::byte>> read_state(store::StateFolder& folder,
                                                 const std::string& id) {
  std::vector<std::byte> cells;
  std::size_t piece = 0;
  do {
    INCIPIT_TRY(const auto read, folder.read(id, piece));
    cells.insert(cells.end(), read.begin(), read.end());
    ++piece;
  } while (folder.find(id) != nullptr && piece < folder.find(id)->pieces.size());
  return cells;
}

}  // namespace incipit::test
