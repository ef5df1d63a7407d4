// SPDX-License-Identifier: Apache-2.0
//
// A file of KV cells: it may come from another machine. What is read must be what was written.
#include "store/state_file.h"

#include <string>
#include <vector>

#include "base/file.h"
#include "fuzz_target.h"
#include "support/must.h"
#include "support/states.h"
#include "support/temp_dir.h"

namespace incipit::fuzz {
namespace {

store::CellPiece piece(std::size_t end) {
  return test::piece_of(end, std::vector<std::byte>(100, std::byte{7}));
}

}  // namespace

std::vector<std::string> seeds() {
  const test::TempDir dir;
  std::vector<std::string> files;
  for (const std::size_t begin : {0, 2}) {
    auto draft = test::must(store::StateDraft::create(
        dir.path("s"),
        {.fingerprint = "f1", .tenant = "t", .tokens = {5, -1, 7, 9}, .begin = begin}));
    test::must(draft.append(piece(3)));
    test::must(draft.append(piece(4)));
    test::must(draft.finish());
    files.push_back(dir.read("s"));
  }
  return files;
}

std::vector<std::string> words() {
  return {
      R"("dtype":"U8")", R"("shape":[4])", R"("data_offsets":[0,16])", "__metadata__", "{", "}"};
}

}  // namespace incipit::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace incipit;
  const fuzz::MemoryFile file(fuzz::text_of(data, size));
  const auto facts = store::read_state_facts(file.path());
  if (!facts) return 0;
  fuzz::expect(facts->file_bytes == size, "a file of another length was taken");
  fuzz::expect(facts->begin <= facts->tokens.size(), "cells begin behind their end");
  fuzz::expect(facts->id == store::state_id(*facts), "the id is not that of the facts");
  for (std::size_t i = 0; i < facts->pieces.size(); ++i) {
    const auto cells = store::read_state_piece(file.path(), *facts, i);
    if (!cells) return 0;
    fuzz::expect(cells->size() == facts->pieces[i].bytes, "another number of bytes");
  }
  ++fuzz::accepted;
  return 0;
}
