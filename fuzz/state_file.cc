// SPDX-License-Identifier: Apache-2.0
//
// A file of KV cells: it may come from another machine. What is read must be what was written.
#include "store/state_file.h"

#include <algorithm>

#include "base/file.h"
#include "fuzz_target.h"
#include "support/must.h"
#include "support/temp_dir.h"

namespace incipit::fuzz {
namespace {

std::vector<std::byte> cells() { return std::vector<std::byte>(200, std::byte{7}); }

}  // namespace

std::vector<std::string> seeds() {
  const test::TempDir dir;
  std::vector<std::string> files;
  for (const std::size_t begin : {0, 2}) {
    store::StateFacts facts{
        .fingerprint = "f1", .tenant = "t", .tokens = {5, -1, 7, 9}, .begin = begin};
    test::must(store::write_state(dir.path("s"), facts, cells()));
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
  fuzz::expect(facts->file_bytes() == size, "a file of another length was taken");
  fuzz::expect(facts->begin <= facts->tokens.size(), "cells begin behind their end");
  fuzz::expect(facts->id == store::state_id(*facts), "the id is not that of the facts");
  const auto cells = store::read_state_cells(file.path(), *facts);
  if (!cells) return 0;
  ++fuzz::accepted;
  fuzz::expect(cells->size() == facts->cells_bytes, "another number of bytes");
  return 0;
}
