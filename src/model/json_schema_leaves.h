// SPDX-License-Identifier: Apache-2.0
//
// The keywords of a JSON schema that hold no schemas: those of strings and integers.
//
// Pure. Errors name the place by JSON pointer (RFC 6901) and say what to do.
#pragma once

#include <json.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "incipit/result.h"

namespace incipit::model {

using SchemaKeywords = std::set<std::string_view>;

// Where in the schema something stands: "#/properties/a/pattern".
using SchemaPlace = std::string;

[[nodiscard]] SchemaPlace below(const SchemaPlace& place, std::string_view name);
[[nodiscard]] std::unexpected<Error> refused(const SchemaPlace& place, const std::string& why);

// The whole number that `name` has in the schema, if it is there. `range` has both its ends.
Result<std::optional<std::int64_t>> whole_number(const common_json& schema,
                                                 const SchemaKeywords& used, std::string_view name,
                                                 const SchemaPlace& place,
                                                 std::pair<std::int64_t, std::int64_t> range);

// The schema of a string or an integer in the words that the converter reads right.
Result<common_json> read_string(const common_json& schema, const SchemaKeywords& used,
                                const SchemaPlace& place);
Result<common_json> read_integer(const common_json& schema, const SchemaKeywords& used,
                                 const SchemaPlace& place);

}  // namespace incipit::model
