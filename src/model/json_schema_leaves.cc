// SPDX-License-Identifier: Apache-2.0
#include "model/json_schema_leaves.h"

#include <json-schema-to-grammar.h>

#include <algorithm>
#include <exception>

#include "model/json_schema_pattern.h"

namespace incipit::model {
namespace {

constexpr std::int64_t kLengthMax = 1900;  // libllama repeats at most 2,000 times.
constexpr std::int64_t kIntegerMax = 999'999'999'999'999;

// Whether the converter takes it: what it says of the whole schema would name no place.
Result<void> convertible(const common_json& schema) {
  try {
    static_cast<void>(json_schema_to_grammar(schema, /*force_gbnf=*/true));
  } catch (const std::exception& error) {
    return failure(ErrorCode::kInvalidArgument, error.what());
  }
  return {};
}

}  // namespace

SchemaPlace below(const SchemaPlace& place, std::string_view name) {
  std::string step;
  for (const char c : name) step += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return place + "/" + step;
}

std::unexpected<Error> refused(const SchemaPlace& place, const std::string& why) {
  return failure(ErrorCode::kInvalidArgument, "json_schema: " + place + ": " + why);
}

// The whole number `name` of the schema, if it is there.
Result<std::optional<std::int64_t>> whole_number(const common_json& schema,
                                                 const SchemaKeywords& used, std::string_view name,
                                                 const SchemaPlace& place,
                                                 std::pair<std::int64_t, std::int64_t> range) {
  if (!used.contains(name)) return std::nullopt;
  const common_json& value = schema.at(std::string(name));
  if (value.is_number_integer()) {
    const double rough = value.get<double>();
    if (rough >= -1e18 && rough <= 1e18) {
      const auto exact = value.get<std::int64_t>();
      if (exact >= range.first && exact <= range.second) return exact;
    }
  }
  return refused(below(place, name), "it must be a whole number from " +
                                         std::to_string(range.first) + " to " +
                                         std::to_string(range.second));
}

Result<common_json> read_string(const common_json& schema, const SchemaKeywords& used,
                                const SchemaPlace& place) {
  common_json plain = common_json::object();
  const bool has_length = used.contains("minLength") || used.contains("maxLength");
  if ((used.contains("pattern") ? 1 : 0) + (used.contains("format") ? 1 : 0) +
          (has_length ? 1 : 0) >
      1)
    return refused(place, "pattern, format and lengths exclude each other; keep one");
  if (used.contains("format")) {
    static const SchemaKeywords known{"uuid", "date", "time", "date-time"};
    const common_json& format = schema.at("format");
    if (!format.is_string() || !known.contains(format.get<std::string>()))
      return refused(below(place, "format"), "known are uuid, date, time and date-time");
    plain["format"] = format;
  }
  if (used.contains("pattern")) {
    const common_json& pattern = schema.at("pattern");
    const auto safe = json_safe_pattern(pattern.is_string() ? pattern.get<std::string>() : "");
    if (!safe) return refused(below(place, "pattern"), safe.error().message);
    plain["pattern"] = *safe;
    plain["type"] = "string";
    if (const auto made = convertible(plain); !made)
      return refused(below(place, "pattern"), made.error().message + "; mend the pattern");
  }
  INCIPIT_TRY(const auto least, whole_number(schema, used, "minLength", place, {0, kLengthMax}));
  INCIPIT_TRY(const auto most, whole_number(schema, used, "maxLength", place, {0, kLengthMax}));
  if (least && most && *least > *most)
    return refused(below(place, "minLength"), "it is above maxLength; lower it");
  if (least) plain["minLength"] = *least;
  if (most) plain["maxLength"] = *most;
  return plain;
}

Result<common_json> read_integer(const common_json& schema, const SchemaKeywords& used,
                                 const SchemaPlace& place) {
  common_json plain = common_json::object();
  const std::pair range{-kIntegerMax, kIntegerMax};
  INCIPIT_TRY(const auto least, whole_number(schema, used, "minimum", place, range));
  INCIPIT_TRY(const auto above, whole_number(schema, used, "exclusiveMinimum", place, range));
  INCIPIT_TRY(const auto most, whole_number(schema, used, "maximum", place, range));
  INCIPIT_TRY(const auto under, whole_number(schema, used, "exclusiveMaximum", place, range));
  if (!least && !above && !most && !under) return plain;
  // Always both: with one the converter's digits are wrong (1005 as a minimum admits 15).
  const std::int64_t from =
      std::max(least.value_or(-kIntegerMax), above ? *above + 1 : -kIntegerMax);
  const std::int64_t to = std::min(most.value_or(kIntegerMax), under ? *under - 1 : kIntegerMax);
  if (from > to) return refused(place, "no integer lies between its bounds; widen them");
  plain["minimum"] = from;
  plain["maximum"] = to;
  return plain;
}

}  // namespace incipit::model
