// SPDX-License-Identifier: Apache-2.0
#include "api/jsonl_reader.h"

#include <algorithm>
#include <unordered_map>

#include "base/counted.h"
#include "base/utf8.h"

namespace incipit::api {
namespace {

// The text fields of a row, joined.
std::string join(const std::vector<std::optional<std::string>>& parts, std::string_view joint) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += joint;
    text += *parts[i];
  }
  return text;
}

// Source text that is not UTF-8 has its bad bytes inside strings, so repairing keeps it JSON.
std::string valid_source(std::string_view source) { return repair_utf8(source, nullptr); }

}  // namespace

// What read_member() has seen of one row.
struct JsonlReader::Found {
  std::vector<std::optional<std::string>> texts;
  std::string id_field;  // Empty: no id yet.
  bool has_label = false;
  std::unordered_map<std::string, std::size_t> kept;
};

bool JsonlReader::is_id_field(std::string_view key) const {
  if (!fields_.id.empty()) return key == fields_.id;
  return key == "id" || key == "custom_id";
}

Result<bool> JsonlReader::next(Row& row) {
  bool is_too_long = false;
  bool is_blank = true;
  do {
    row = {.line = bytes_.line()};
    if (!bytes_.read_line(line_, fields_.row_bytes_max, is_too_long)) {
      INCIPIT_TRY_VOID(bytes_.check());
      return false;
    }
    is_blank = line_.find_first_not_of(" \t\r") == std::string::npos;
  } while (is_blank && !is_too_long);
  INCIPIT_TRY_VOID(bytes_.check());
  row.id = std::to_string(row.line);
  if (is_too_long) {
    row.error = "row_too_long";
    row.message = "line " + std::to_string(row.line) + ": this line is longer than " +
                  counted(fields_.row_bytes_max, "byte");
    return true;
  }
  if (auto read = read_row(row); !read) {
    if (row.error.empty()) row.error = "invalid_json";
    row.message = std::move(read).error().message;
  }
  return true;
}

Result<void> JsonlReader::read_row(Row& row) {
  JsonCursor json(line_, {}, row.line);
  Found found;
  found.texts.resize(fields_.text.size());
  INCIPIT_TRY_VOID(json.enter_object());
  std::string key;
  while (true) {
    INCIPIT_TRY(const bool more, json.next_member(key));
    if (!more) break;
    INCIPIT_TRY_VOID(read_member(json, key, row, found));
  }
  INCIPIT_TRY_VOID(json.finish());
  for (std::size_t i = 0; i < found.texts.size(); ++i) {
    if (found.texts[i]) continue;
    row.error = "missing_text";
    return failure(
        ErrorCode::kInvalidArgument,
        "line " + std::to_string(row.line) + ": the row has no field '" + fields_.text[i] + "'");
  }
  row.text = join(found.texts, fields_.join);
  return {};
}

Result<void> JsonlReader::read_member(JsonCursor& json, const std::string& key, Row& row,
                                      Found& found) {
  const auto text = std::ranges::find(fields_.text, key);
  const bool is_text = text != fields_.text.end();
  const bool is_id = is_id_field(key);
  const bool is_label = key == (fields_.label.empty() ? "label" : fields_.label);
  if (!is_text && !is_id && !is_label && !fields_.keep) {
    INCIPIT_TRY_VOID(json.skip());
    return {};
  }
  INCIPIT_TRY(const JsonKind kind, json.peek());
  const std::size_t start = json.value_start();
  INCIPIT_TRY(const std::string_view source, json.skip());
  if (is_text) {
    auto& slot = found.texts[static_cast<std::size_t>(text - fields_.text.begin())];
    if (slot) return json.fail_at(start, "the field '" + key + "' occurs twice");
    if (kind != JsonKind::kString) {
      row.error = "missing_text";
      return json.fail_at(start, "the field '" + key + "' is not a string");
    }
    INCIPIT_TRY(slot, JsonCursor(source).string());
  }
  if (is_id && kind != JsonKind::kNull) {
    if (kind == JsonKind::kObject || kind == JsonKind::kArray) {
      row.error = "invalid_id";
      return json.fail_at(start, "an id is a string or a number");
    }
    if (found.id_field == key) return json.fail_at(start, "the field '" + key + "' occurs twice");
    // A row with both names keeps "id".
    if (found.id_field.empty() || key == "id") row.id = valid_source(source);
    found.id_field = key;
  }
  if (is_label && kind != JsonKind::kNull) {
    if (std::exchange(found.has_label, true)) {
      return json.fail_at(start, "the field '" + key + "' occurs twice");
    }
    row.gold = std::string(source);
    if (kind == JsonKind::kString) {
      INCIPIT_TRY(row.gold, JsonCursor(source).string());
    }
  }
  if (is_text || is_id || is_label) return {};
  const auto [place, is_new] = found.kept.emplace(key, row.kept.size());
  if (is_new) row.kept.push_back({.name = key, .json = {}});
  row.kept[place->second].json = valid_source(source);
  return {};
}

}  // namespace incipit::api
