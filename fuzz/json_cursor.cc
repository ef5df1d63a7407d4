// SPDX-License-Identifier: Apache-2.0
//
// The JSON reader: what it passes over, and what it hands out, whatever the bytes.
#include "api/json_cursor.h"

#include "fuzz_target.h"

namespace incipit::fuzz {

std::vector<std::string> seeds() {
  return {R"({"a":[1,-2.5e3,true,null,"x\u00e9\ud83d\ude00\n"],"b":{"c":{}}})", R"([[],"",0])",
          R"("text")", "12.5"};
}

std::vector<std::string> words() {
  return {"{", "}", "[", "]", "\"", "\\", "\\u", "\\ud800", ",", ":", "1e999", "-0", "tru", "null"};
}

}  // namespace incipit::fuzz

namespace {

using incipit::Result;
using incipit::api::JsonCursor;
using incipit::api::JsonKind;

// Reads a value by its kind, down to its leaves.
Result<void> read(JsonCursor& json) {
  INCIPIT_TRY(const JsonKind kind, json.peek());
  if (kind == JsonKind::kObject) {
    INCIPIT_TRY_VOID(json.enter_object());
    std::string key;
    while (true) {
      INCIPIT_TRY(const bool more, json.next_member(key));
      if (!more) return {};
      INCIPIT_TRY_VOID(read(json));
    }
  }
  if (kind == JsonKind::kArray) {
    INCIPIT_TRY_VOID(json.enter_array());
    while (true) {
      INCIPIT_TRY(const bool more, json.next_item());
      if (!more) return {};
      INCIPIT_TRY_VOID(read(json));
    }
  }
  if (kind == JsonKind::kString) {
    INCIPIT_TRY_VOID(json.string());
  } else {
    INCIPIT_TRY_VOID(json.skip());
  }
  return {};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using incipit::fuzz::expect;
  const std::string_view text = incipit::fuzz::text_of(data, size);
  JsonCursor skipping(text);
  const bool skipped = skipping.skip() && skipping.finish();
  JsonCursor reading(text);
  const bool was_read = read(reading) && reading.finish();
  expect(skipped == was_read, "skip() and reading do not agree");
  incipit::fuzz::accepted += skipped ? 1 : 0;
  return 0;
}
