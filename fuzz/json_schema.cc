// SPDX-License-Identifier: Apache-2.0
//
// A JSON schema of a client: a grammar that is usable, or an error that names the place.
#include "model/json_schema.h"

#include "fuzz_target.h"
#include "model/grammar.h"
#include "vocabulary.h"

namespace incipit::fuzz {

std::vector<std::string> seeds() {
  return {
      R"({"type":"object","required":["a"],"properties":{"a":{"enum":["x",1,null]},
"b":{"type":"array","items":{"type":"integer","minimum":1,"maximum":12},"maxItems":3}}})",
      R"({"$ref":"#/$defs/n","$defs":{"n":{"anyOf":[{"const":"a"},{"items":{"$ref":"#/$defs/n"}}]}}})",
      R"({"type":["string","null"],"maxLength":3})", R"({"pattern":"^\\d{3}-[a-c]+(x|y)?$"})",
      R"({"type":"array","prefixItems":[{"format":"date"},true]})"};
}

std::vector<std::string> words() {
  return {R"("type":"string",)",
          R"("$ref":"#/$defs/n",)",
          R"("minLength":1900,)",
          R"("allOf":[{}],)",
          R"("additionalProperties":false,)",
          R"("exclusiveMinimum":-1,)",
          "{",
          "}",
          "[",
          "]",
          "{1,1000}",
          "(",
          "|",
          "^",
          "$",
          "~1",
          "\\\\"};
}

}  // namespace incipit::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace incipit;
  const auto grammar = model::json_schema_grammar(std::string(fuzz::text_of(data, size)));
  if (!grammar) {
    fuzz::expect(grammar.error().message.starts_with("json_schema: #"), "an error without a place");
    return 0;
  }
  const auto made = model::Grammar::create(fuzz::vocabulary(), *grammar);
  if (made) {
    ++fuzz::accepted;
    for (Token token = 0; token < 300; ++token) static_cast<void>((*made)->allows(token));
  }
  return 0;
}
