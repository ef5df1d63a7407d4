// SPDX-License-Identifier: Apache-2.0
//
// Reads a JSON schema into the part of the language that llama.cpp's converter honours.
//
// What comes out admits no more than what went in: every answer that matches it matches the
// schema. It may admit less: properties that are not named never occur, and numbers keep to 16
// digits. A keyword that could not be honoured is refused by its place; notes (title, default and
// the like) are left out.
// May throw what the JSON library throws; json_schema.cc catches it.
#pragma once

#include <json.h>

#include "incipit/result.h"

namespace incipit::model {

[[nodiscard]] Result<common_json> read_json_schema(const common_json& schema);

}  // namespace incipit::model
