// SPDX-License-Identifier: Apache-2.0
#include "model/json_schema_reader.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/json_schema_leaves.h"

namespace incipit::model {
namespace {

constexpr std::size_t kDepthMax = 32;      // Of schemas in schemas, within one definition.
constexpr std::size_t kDepthSumMax = 256;  // Over all definitions: the converter recurses so far.
constexpr std::size_t kDefinitionsMax = 64;
constexpr std::size_t kSchemasMax = 4096;
constexpr std::size_t kPropertiesMax = 100;  // The converter's time grows with their cube.
constexpr std::size_t kNameBytesMax = 100;
constexpr std::size_t kChoicesMax = 1000;
constexpr std::int64_t kItemsMax = 1000;

const SchemaKeywords kNotes{"title",     "description", "default",  "examples",   "$schema",
                            "$id",       "id",          "$comment", "deprecated", "readOnly",
                            "writeOnly", "definitions", "$defs"};
const std::map<std::string_view, SchemaKeywords> kKeywords{
    {"object", {"properties", "required", "additionalProperties"}},
    {"array", {"items", "prefixItems", "minItems", "maxItems", "uniqueItems"}},
    {"string", {"pattern", "minLength", "maxLength", "format"}},
    {"integer", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}},
    {"number", {}},
    {"boolean", {}},
    {"null", {}}};

bool has_type(const common_json& value, std::string_view type) {
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  return type == "array" ? value.is_array() : value.is_object();
}

common_json any_value() {
  common_json any = common_json::object();
  // Without a keyword the converter takes it for an object.
  any["description"] = "any";
  return any;
}

class SchemaReader {
 public:
  explicit SchemaReader(const common_json& whole) : whole_(whole) {}

  Result<common_json> read() {
    INCIPIT_TRY(common_json plain, read_body(whole_, "#"));
    if (plain.contains("$ref")) {
      // Beside a $ref the converter sees nothing, not even the definitions.
      common_json alone = common_json::object();
      alone["anyOf"] = common_json::array({plain});
      plain = std::move(alone);
    }
    common_json definitions = common_json::object();
    // Reading one may find more.
    for (std::size_t i = 0; i < references_.size(); ++i) {
      const SchemaPlace place = references_[i];
      INCIPIT_TRY(const common_json* target, resolve(place));
      INCIPIT_TRY(common_json definition, read_body(*target, place));
      definitions[std::to_string(i)] = std::move(definition);
    }
    if (!references_.empty()) plain[kDefinitions] = std::move(definitions);
    return plain;
  }

 private:
  // A key that no schema uses, so that no rule of a property gets the name of a definition's.
  static constexpr const char* kDefinitions = "incipit:definition";

  Result<common_json> read_body(const common_json& schema, const SchemaPlace& place) {
    deepest_ = 0;
    INCIPIT_TRY(common_json plain, read_schema(schema, place, 1));
    depth_sum_ += deepest_;
    if (depth_sum_ > kDepthSumMax)
      return refused(place, "definitions nest too deeply in all; make the schema flatter");
    return plain;
  }

  Result<const common_json*> resolve(const SchemaPlace& pointer) const {
    const common_json* target = &whole_;
    for (std::size_t begin = 2; begin <= pointer.size();) {
      const std::size_t end = std::min(pointer.find('/', begin), pointer.size());
      std::string step;
      for (std::size_t i = begin; i < end; ++i) {
        const bool escaped = pointer[i] == '~' && i + 1 < end;
        step += escaped ? (pointer[i + 1] == '1' ? '/' : '~') : pointer[i];
        if (escaped) ++i;
      }
      begin = end + 1;
      std::size_t index = 0;
      const auto number = std::from_chars(step.data(), step.data() + step.size(), index);
      if (target->is_object() && target->contains(step)) {
        target = &target->at(step);
      } else if (target->is_array() && number.ec == std::errc{} &&
                 number.ptr == step.data() + step.size() && index < target->size()) {
        target = &target->at(index);
      } else {
        return refused(pointer, "a $ref leads here, where nothing is; define it or mend the $ref");
      }
    }
    return target;
  }

  // The keywords of `schema` that mean something here; refuses what nobody honours.
  Result<SchemaKeywords> keywords(const common_json& schema, const SchemaPlace& place) {
    static const SchemaKeywords known = [] {
      SchemaKeywords names{"$ref", "anyOf", "oneOf", "allOf", "enum", "const", "type"};
      for (const auto& [type, own] : kKeywords) names.insert(own.begin(), own.end());
      return names;
    }();
    SchemaKeywords used;
    for (const auto& entry : schema.items()) {
      const auto name = known.find(entry.key());
      if (name != known.end()) {
        used.insert(*name);
      } else if (!kNotes.contains(entry.key())) {
        return refused(below(place, entry.key()), "this keyword is not supported; leave it out");
      }
    }
    return used;
  }

  Result<common_json> read_schema(const common_json& schema, const SchemaPlace& place,
                                  std::size_t depth) {
    deepest_ = std::max(deepest_, depth);
    if (depth > kDepthMax) return refused(place, "schemas nest too deeply; make it flatter");
    if (++schemas_ > kSchemasMax) return refused(place, "more than 4096 schemas; leave some out");
    if (schema.is_boolean() && schema.get<bool>()) return any_value();
    if (!schema.is_object()) return refused(place, "a schema must be an object or true");
    INCIPIT_TRY(const SchemaKeywords used, keywords(schema, place));
    for (const std::string_view alone : {"$ref", "anyOf", "oneOf", "allOf"}) {
      if (!used.contains(alone)) continue;
      if (used.size() > 1)
        return refused(place, std::string(alone) + " must stand alone; move " +
                                  std::string(*used.begin() == alone ? *std::next(used.begin())
                                                                     : *used.begin()) +
                                  " into it");
      if (alone == "$ref") return read_reference(schema, place);
      return read_alternatives(schema, std::string(alone), place, depth);
    }
    if (used.contains("enum") || used.contains("const")) return read_choices(schema, used, place);
    return read_typed(schema, used, place, depth);
  }

  Result<common_json> read_reference(const common_json& schema, const SchemaPlace& place) {
    const common_json& target = schema.at("$ref");
    const std::string pointer = target.is_string() ? target.get<std::string>() : "";
    if (!pointer.starts_with("#/"))
      return refused(below(place, "$ref"),
                     "only a reference into this schema (#/...) is followed; copy its target here");
    std::size_t index = 0;
    while (index < references_.size() && references_[index] != pointer) ++index;
    if (index == kDefinitionsMax) return refused(place, "too many definitions; leave some out");
    if (index == references_.size()) references_.push_back(pointer);
    common_json plain = common_json::object();
    plain["$ref"] = std::string("#/") + kDefinitions + "/" + std::to_string(index);
    return plain;
  }

  Result<common_json> read_alternatives(const common_json& schema, const std::string& keyword,
                                        const SchemaPlace& place, std::size_t depth) {
    const common_json& list = schema.at(keyword);
    const SchemaPlace inner = below(place, keyword);
    if (!list.is_array() || list.empty() || list.size() > kChoicesMax)
      return refused(inner, "it must be a list of 1 to 1000 schemas");
    if (keyword == "allOf") {
      if (list.size() > 1) return refused(inner, "only one schema is supported; join them");
      return read_schema(list.at(std::size_t{0}), below(inner, "0"), depth + 1);
    }
    common_json plain = common_json::object();
    common_json alternatives = common_json::array();
    for (std::size_t i = 0; i < list.size(); ++i) {
      INCIPIT_TRY(const common_json one,
                  read_schema(list.at(i), below(inner, std::to_string(i)), depth + 1));
      alternatives.push_back(one);
    }
    plain["anyOf"] = alternatives;
    return plain;
  }

  Result<common_json> read_choices(const common_json& schema, const SchemaKeywords& used,
                                   const SchemaPlace& place) {
    const std::string keyword = used.contains("enum") ? "enum" : "const";
    for (const std::string_view name : used) {
      if (name != keyword && name != "type")
        return refused(below(place, name), "beside " + keyword + " only type may stand");
    }
    common_json values = common_json::array();
    if (keyword == "const") {
      values.push_back(schema.at("const"));
    } else {
      values = schema.at("enum");
    }
    if (!values.is_array() || values.empty() || values.size() > kChoicesMax)
      return refused(below(place, keyword), "it must be a list of 1 to 1000 values");
    INCIPIT_TRY(const auto types, read_types(schema, used, place));
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (used.contains("type") && std::ranges::none_of(types, [&](const std::string& type) {
            return has_type(values.at(i), type);
          }))
        return refused(below(place, keyword),
                       "value " + std::to_string(i) + " is not of its type; mend one of both");
    }
    common_json plain = common_json::object();
    plain["enum"] = values;
    return plain;
  }

  // The types that are named, or that the keywords belong to; none where anything goes.
  Result<std::vector<std::string>> read_types(const common_json& schema, const SchemaKeywords& used,
                                              const SchemaPlace& place) {
    std::vector<std::string> types;
    if (used.contains("type")) {
      const common_json& named = schema.at("type");
      const std::size_t count = named.is_array() ? named.size() : 1;
      for (std::size_t i = 0; i < count; ++i) {
        const common_json& one = named.is_array() ? named.at(i) : named;
        const std::string type = one.is_string() ? one.get<std::string>() : "";
        if (!kKeywords.contains(type) || std::ranges::count(types, type) > 0)
          return refused(below(place, "type"),
                         "it must be object, array, string, integer, number, boolean or null, or a "
                         "list of different ones");
        types.push_back(type);
      }
      if (types.empty())
        return refused(below(place, "type"),
                       "the list must not be empty; leave it out or name a type");
      return types;
    }
    for (const auto& [type, own] : kKeywords) {
      if (std::ranges::any_of(own, [&](std::string_view name) { return used.contains(name); }))
        types.emplace_back(type);
    }
    if (types.size() > 1)
      return refused(place, "its keywords belong to several types; name one with type");
    return types;
  }

  Result<common_json> read_typed(const common_json& schema, const SchemaKeywords& used,
                                 const SchemaPlace& place, std::size_t depth) {
    INCIPIT_TRY(const auto types, read_types(schema, used, place));
    if (types.empty()) return any_value();
    for (const std::string_view name : used) {
      if (name != "type" && std::ranges::none_of(types, [&](const std::string& type) {
            return kKeywords.at(type).contains(name);
          }))
        return refused(below(place, name), "it does not belong to the type; leave it out");
    }
    common_json alternatives = common_json::array();
    for (const std::string& type : types) {
      Result<common_json> one = common_json::object();
      if (type == "object") one = read_object(schema, used, place, depth);
      if (type == "array") one = read_array(schema, used, place, depth);
      if (type == "string") one = read_string(schema, used, place);
      if (type == "integer") one = read_integer(schema, used, place);
      if (!one) return one;
      (*one)["type"] = type;
      if (types.size() == 1) return one;
      alternatives.push_back(*one);
    }
    common_json plain = common_json::object();
    plain["anyOf"] = alternatives;
    return plain;
  }

  Result<common_json> read_object(const common_json& schema, const SchemaKeywords& used,
                                  const SchemaPlace& place, std::size_t depth) {
    common_json plain = common_json::object();
    common_json properties = common_json::object();
    if (used.contains("properties")) {
      const common_json& listed = schema.at("properties");
      const SchemaPlace inner = below(place, "properties");
      if (!listed.is_object() || listed.size() > kPropertiesMax)
        return refused(inner, "it must be an object of at most 100 properties");
      for (const auto& entry : listed.items()) {
        if (entry.key().size() > kNameBytesMax)
          return refused(inner, "a name has more than 100 bytes; shorten it");
        INCIPIT_TRY(common_json one,
                    read_schema(entry.value(), below(inner, entry.key()), depth + 1));
        properties[entry.key()] = std::move(one);
      }
      plain["properties"] = properties;
    }
    if (used.contains("required")) {
      const common_json& required = schema.at("required");
      const SchemaPlace inner = below(place, "required");
      if (!required.is_array()) return refused(inner, "it must be a list of names");
      for (std::size_t i = 0; i < required.size(); ++i) {
        const common_json& name = required.at(i);
        if (!name.is_string() || !properties.contains(name.get<std::string>()))
          return refused(below(inner, std::to_string(i)),
                         "it names none of the properties; describe it there");
      }
      plain["required"] = required;
    }
    if (!used.contains("additionalProperties")) return plain;
    const common_json& more = schema.at("additionalProperties");
    if (more.is_boolean() && (!more.get<bool>() || !properties.empty())) {
      // Named ones only, which is what "true" allows as well.
      plain["additionalProperties"] = false;
      return plain;
    }
    const SchemaPlace inner = below(place, "additionalProperties");
    if (!properties.empty()) return refused(inner, "beside properties it must be true or false");
    INCIPIT_TRY(common_json one, read_schema(more, inner, depth + 1));
    plain["additionalProperties"] = std::move(one);
    return plain;
  }

  Result<common_json> read_array(const common_json& schema, const SchemaKeywords& used,
                                 const SchemaPlace& place, std::size_t depth) {
    if (used.contains("uniqueItems") &&
        !(schema.at("uniqueItems").is_boolean() && !schema.at("uniqueItems").get<bool>()))
      return refused(below(place, "uniqueItems"), "it is not supported; leave it out");
    INCIPIT_TRY(const auto least, whole_number(schema, used, "minItems", place, {0, kItemsMax}));
    INCIPIT_TRY(const auto most, whole_number(schema, used, "maxItems", place, {0, kItemsMax}));
    if (least && most && *least > *most)
      return refused(below(place, "minItems"), "it is above maxItems; lower it");
    common_json plain = common_json::object();
    const bool fixed =
        used.contains("prefixItems") || (used.contains("items") && schema.at("items").is_array());
    if (!fixed) {
      common_json item = any_value();
      if (used.contains("items")) {
        INCIPIT_TRY(item, read_schema(schema.at("items"), below(place, "items"), depth + 1));
      }
      plain["items"] = std::move(item);
      if (least) plain["minItems"] = *least;
      if (most) plain["maxItems"] = *most;
      return plain;
    }
    const std::string keyword = used.contains("prefixItems") ? "prefixItems" : "items";
    const common_json& listed = schema.at(keyword);
    const SchemaPlace inner = below(place, keyword);
    const auto count = static_cast<std::int64_t>(listed.size());
    if (!listed.is_array() || count > kItemsMax) return refused(inner, "it must be a list");
    if (keyword == "prefixItems" && used.contains("items") && !schema.at("items").is_boolean())
      return refused(below(place, "items"), "beside prefixItems it must be true or false");
    // Exactly these, which satisfies whatever may follow.
    if (least.value_or(count) > count || most.value_or(count) < count)
      return refused(inner, "minItems and maxItems must allow exactly these");
    common_json items = common_json::array();
    for (std::size_t i = 0; i < listed.size(); ++i) {
      INCIPIT_TRY(const common_json one,
                  read_schema(listed.at(i), below(inner, std::to_string(i)), depth + 1));
      items.push_back(one);
    }
    plain["prefixItems"] = items;
    return plain;
  }

  const common_json& whole_;  // The caller's, for the length of read().
  std::vector<SchemaPlace> references_;
  std::size_t schemas_ = 0;
  std::size_t deepest_ = 0;
  std::size_t depth_sum_ = 0;
};

}  // namespace

Result<common_json> read_json_schema(const common_json& schema) {
  return SchemaReader(schema).read();
}

}  // namespace incipit::model
