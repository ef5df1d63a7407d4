// SPDX-License-Identifier: Apache-2.0
//
// Rows of a CSV file.
#include "rows.h"

namespace incipit::fuzz {

std::vector<std::string> seeds() {
  return {"id,text,label\n1,my card,billing\n2,\"a, \"\"b\"\"\nc\",account\n",
          "\xEF\xBB\xBFtext\r\nx\r\n\r\ny\r\n", "text,extra\n,\n\"\",\"\"\n"};
}

std::vector<std::string> words() { return {"\"", "\"\"", ",", "\r\n", "\n", "text", "\"a\nb\""}; }

}  // namespace incipit::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  incipit::fuzz::read_rows(incipit::RowFormat::Kind::kCsv, incipit::fuzz::text_of(data, size));
  return 0;
}
