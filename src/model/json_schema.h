// SPDX-License-Identifier: Apache-2.0
//
// A JSON schema as a GBNF grammar, by llama.cpp's converter.
//
// The converter ignores what it does not know, and a schema may make it recurse or copy without
// end. So it gets a schema of our own writing (json_schema_reader.h), with only keywords that it
// honours, and references that lead inside.
// Pure.
#pragma once

#include <string>

#include "incipit/result.h"

namespace incipit::model {

// Errors: kInvalidArgument, "json_schema: PLACE: what is wrong; what to do", where PLACE is a JSON
// pointer into the schema, "#" for the whole.
[[nodiscard]] Result<std::string> json_schema_grammar(const std::string& schema);

}  // namespace incipit::model
