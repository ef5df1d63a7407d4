// SPDX-License-Identifier: Apache-2.0
//
// Rows of a JSONL file.
#include "rows.h"

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
  incipit::fuzz::read_rows(incipit::RowFormat::Kind::kJsonl, incipit::fuzz::text_of(data, size));
  return 0;
}
