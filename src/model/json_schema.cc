// SPDX-License-Identifier: Apache-2.0
#include "model/json_schema.h"

#include <json-schema-to-grammar.h>

#include <algorithm>
#include <exception>

#include "base/utf8.h"
#include "model/json_schema_reader.h"

namespace incipit::model {
namespace {

constexpr std::size_t kNestingMax = 128;  // Of any brackets; the library copies trees recursively.
constexpr std::size_t kGrammarBytesMax = std::size_t{1} << 20U;

std::unexpected<Error> refused(const std::string& why) {
  return failure(ErrorCode::kInvalidArgument, "json_schema: #: " + why);
}

std::size_t nesting(const std::string& text) {
  std::size_t depth = 0;
  std::size_t deepest = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

Result<std::string> json_schema_grammar(const std::string& schema) {
  if (!is_valid_utf8(schema)) return refused("it is no UTF-8; write it in UTF-8");
  if (nesting(schema) > kNestingMax)
    return refused("its brackets nest deeper than " + std::to_string(kNestingMax) +
                   "; make it flatter");
  try {
    const common_json whole = common_json::parse(schema);
    INCIPIT_TRY(const common_json plain, read_json_schema(whole));
    std::string grammar = json_schema_to_grammar(plain, /*force_gbnf=*/true);
    if (grammar.size() > kGrammarBytesMax) return refused("it is too large; leave something out");
    return grammar;
  } catch (const std::exception& error) {
    return refused(std::string("it is no usable JSON schema: ") + error.what());
  }
}

}  // namespace incipit::model
