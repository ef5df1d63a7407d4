// SPDX-License-Identifier: Apache-2.0
//
// Rows of a JSONL file: a bad row is a row with an error and never the end of the others.
#include "api/json_cursor.h"
#include "api/row_reader.h"
#include "base/file.h"
#include "fuzz_target.h"

namespace incipit::fuzz {

std::vector<std::string> seeds() {
  return {R"({"id":1.10,"text":"my card","label":"billing","more":[1,{"a":null}]})"
          "\n"
          R"({"custom_id":"\\u00e9","text":"a\\n\\ud83d\\ude00"})"
          "\n",
          "\xEF\xBB\xBF{\"text\":\"x\"}\r\n\r\n{\"text\":\"caf\xE9\"}"};
}

std::vector<std::string> words() {
  return {"\"text\":", "\"id\":", "{", "}", "[", "]", "\\u", "\\ud800", "\"", ",", "1e999", "null"};
}

}  // namespace incipit::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace incipit;
  const fuzz::MemoryFile file(fuzz::text_of(data, size));
  auto opened = File::open_read(file.path());
  fuzz::expect(opened.has_value(), "the file is gone");
  auto reader = api::RowReader::open(std::move(*opened), {.kind = RowFormat::Kind::kJsonl},
                                     {.keep = true, .row_bytes_max = 200});
  if (!reader) return 0;
  api::Row row;
  std::size_t rows = 0;
  while ((*reader)->next(row).value()) {
    fuzz::accepted += row.error.empty() ? 1 : 0;
    fuzz::expect(++rows <= size + 1, "more rows than bytes");
    fuzz::expect(row.error.empty() != !row.message.empty(), "an error without a message");
    fuzz::expect(api::JsonCursor(row.id).skip().has_value(), "an id that is no JSON");
    for (const api::KeptField& field : row.kept)
      fuzz::expect(api::JsonCursor(field.json).skip().has_value(), "a field that is no JSON");
  }
  return 0;
}
