// SPDX-License-Identifier: Apache-2.0
//
// Reads a file of rows as every file of them must be read: a bad row is a row with an error, and
// never the end of the others.
#pragma once

#include "api/json_cursor.h"
#include "api/row_reader.h"
#include "base/file.h"
#include "fuzz_target.h"

namespace incipit::fuzz {

inline void read_rows(RowFormat::Kind kind, std::string_view text) {
  const MemoryFile file(text);
  auto opened = File::open_read(file.path());
  expect(opened.has_value(), "the file is gone");
  auto reader = api::RowReader::open(std::move(*opened), {.kind = kind},
                                     {.keep = true, .row_bytes_max = 200});
  if (!reader) return;
  api::Row row;
  std::size_t rows = 0;
  while ((*reader)->next(row).value()) {
    accepted += row.error.empty() ? 1 : 0;
    expect(++rows <= text.size() + 1, "more rows than bytes");
    expect(row.error.empty() != !row.message.empty(), "an error without a message");
    expect(api::JsonCursor(row.id).skip().has_value(), "an id that is no JSON");
    for (const api::KeptField& field : row.kept)
      expect(api::JsonCursor(field.json).skip().has_value(), "a field that is no JSON");
  }
}

}  // namespace incipit::fuzz
