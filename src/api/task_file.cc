// SPDX-License-Identifier: Apache-2.0
#include "incipit/task_file.h"

#include <map>
#include <set>
#include <utility>

#include "api/json_cursor.h"
#include "api/json_writer.h"
#include "api/task_options.h"
#include "base/file.h"
#include "base/utf8.h"
#include "policy/task_check.h"

namespace incipit {
namespace {

using api::JsonCursor;
using api::JsonKind;

constexpr std::size_t kTaskBytesMax = std::size_t{16} << 20U;

// Reads one task file from front to back. Remembers where each key path stands, so that faults
// which show only in the whole task are reported with their line too.
class TaskReader {
 public:
  TaskReader(std::string_view json, const std::string& name) : json_(json, name) {}

  Result<Task> read() {
    INCIPIT_TRY_VOID(each_member("", [&](const std::string& key) { return read_field(key); }));
    INCIPIT_TRY_VOID(json_.finish());
    if (const auto fault = policy::find_task_fault(task_)) {
      return json_.fail_at(offset_of(fault->path), fault->path + ": " + fault->what);
    }
    return std::move(task_);
  }

 private:
  // Enters an object and calls `read_member(key)` at the value of each member.
  template <typename ReadMember>
  Result<void> each_member(const std::string& path, ReadMember read_member) {
    INCIPIT_TRY_VOID(json_.enter_object());
    std::set<std::string> keys;
    std::string key;
    while (true) {
      INCIPIT_TRY(const bool more, json_.next_member(key));
      if (!more) return {};
      std::string member = path.empty() ? "" : path + ".";
      member += key;
      if (!is_valid_utf8(key)) return json_.fail("this key is not valid UTF-8");
      if (!keys.insert(key).second) return json_.fail(member + ": this key occurs twice");
      mark(member);
      INCIPIT_TRY_VOID(read_member(key));
    }
  }

  template <typename ReadItem>
  Result<void> each_item(const std::string& path, ReadItem read_item) {
    INCIPIT_TRY_VOID(json_.enter_array());
    for (std::size_t i = 0;; ++i) {
      INCIPIT_TRY(const bool more, json_.next_item());
      if (!more) return {};
      INCIPIT_TRY_VOID(json_.peek());
      const std::string item = path + "[" + std::to_string(i) + "]";
      mark(item);
      INCIPIT_TRY_VOID(read_item(item));
    }
  }

  std::unexpected<Error> unknown(const std::string& path, std::string_view known) {
    return json_.fail(path + ": unknown key; known here are " + std::string(known));
  }

  Result<void> read_text(const std::string& path, std::string& text) {
    INCIPIT_TRY(const JsonKind kind, json_.peek());
    if (kind != JsonKind::kString) return json_.fail(path + ": expected a string");
    INCIPIT_TRY(text, json_.string());
    if (!is_valid_utf8(text)) return json_.fail(path + ": this text is not valid UTF-8");
    return {};
  }

  Result<void> read_field(const std::string& key) {
    if (key == "instructions") return read_text(key, task_.instructions);
    if (key == "input") return read_text(key, task_.input);
    if (key == "labels") {
      return each_member(key, [&](const std::string& name) { return read_label(name); });
    }
    if (key == "examples") {
      return each_item(key, [&](const std::string& path) { return read_example(path); });
    }
    if (key == "options") {
      return each_member(key, [&](const std::string& name) { return read_option(name); });
    }
    return unknown(key, "instructions, input, labels, examples, options");
  }

  Result<void> read_label(const std::string& name) {
    const std::string path = "labels." + name;
    LabelDefinition label{
        .name = std::string(policy::strip_edges(name)), .description = {}, .surfaces = {}};
    INCIPIT_TRY(const JsonKind kind, json_.peek());
    if (kind == JsonKind::kString) {
      INCIPIT_TRY_VOID(read_text(path, label.description));
    } else if (kind == JsonKind::kObject) {
      INCIPIT_TRY_VOID(read_label_object(path, label));
    } else {
      return json_.fail(path + ": expected a description or an object");
    }
    places_.insert_or_assign("labels." + label.name, places_[path]);
    task_.labels.push_back(std::move(label));
    return {};
  }

  Result<void> read_label_object(const std::string& path, LabelDefinition& label) {
    bool is_described = false;
    return each_member(path, [&](const std::string& key) -> Result<void> {
      const std::string member = path + "." + key;
      if (key == "description" || key == "criteria") {
        if (std::exchange(is_described, true)) {
          return json_.fail(member + ": criteria is another name of description; keep one of them");
        }
        return read_text(member, label.description);
      }
      if (key == "surfaces") return read_surfaces(member, label);
      return unknown(member, "description, criteria, surfaces");
    });
  }

  Result<void> read_surfaces(const std::string& path, LabelDefinition& label) {
    INCIPIT_TRY_VOID(each_item(path, [&](const std::string& item) -> Result<void> {
      std::string surface;
      INCIPIT_TRY_VOID(read_text(item, surface));
      label.surfaces.emplace_back(policy::strip_edges(surface));
      return {};
    }));
    if (label.surfaces.empty()) {
      return json_.fail_at(offset_of(path), path + ": leave it out, or name a surface");
    }
    return {};
  }

  Result<void> read_example(const std::string& path) {
    Example example;
    bool has_text = false;
    bool has_label = false;
    INCIPIT_TRY_VOID(each_member(path, [&](const std::string& key) -> Result<void> {
      const std::string member = path + "." + key;
      if (key == "text") {
        has_text = true;
        return read_text(member, example.text);
      }
      if (key != "label") return unknown(member, "text, label");
      has_label = true;
      INCIPIT_TRY_VOID(read_text(member, example.label));
      example.label = policy::strip_edges(example.label);
      return {};
    }));
    if (!has_text || !has_label) {
      return json_.fail_at(offset_of(path), path + ": an example needs text and label");
    }
    task_.examples.push_back(std::move(example));
    return {};
  }

  Result<void> read_option(const std::string& name) {
    const std::string path = "options." + name;
    const api::OptionField* option = api::find_option(name);
    if (option == nullptr) {
      std::string known;
      for (const auto& field : api::option_fields()) {
        known += (known.empty() ? "" : ", ") + std::string(field.name);
      }
      return unknown(path, known);
    }
    bool is_set = false;
    INCIPIT_TRY(const JsonKind kind, json_.peek());
    if (kind == JsonKind::kBoolean) {
      INCIPIT_TRY(const bool value, json_.boolean());
      is_set = api::assign_switch(*option, task_.options, value);
    } else if (kind == JsonKind::kNumber) {
      INCIPIT_TRY(const double value, json_.number());
      is_set = api::assign_number(*option, task_.options, value);
    } else if (kind == JsonKind::kString) {
      std::string value;
      INCIPIT_TRY_VOID(read_text(path, value));
      is_set = api::assign_text(*option, task_.options, value);
    }
    if (!is_set) return json_.fail(path + ": expected " + api::option_values(*option));
    return {};
  }

  void mark(const std::string& path) { places_.emplace(path, json_.value_start()); }

  // The place of `path`, or of the nearest key around it.
  std::size_t offset_of(std::string path) const {
    while (!path.empty()) {
      if (const auto found = places_.find(path); found != places_.end()) return found->second;
      const std::size_t cut = path.find_last_of(".[");
      path.resize(cut == std::string::npos ? 0 : cut);
    }
    return 0;
  }

  JsonCursor json_;
  Task task_;
  std::map<std::string, std::size_t> places_;
};

void write_labels(api::JsonWriter& json, const Task& task) {
  json.key("labels").begin_object();
  for (const LabelDefinition& label : task.labels) {
    json.key(label.name).begin_object().key("description").string(label.description);
    if (!label.surfaces.empty()) {
      json.key("surfaces").begin_array();
      for (const std::string& surface : label.surfaces) json.string(surface);
      json.end_array();
    }
    json.end_object();
  }
  json.end_object();
}

void write_options(api::JsonWriter& json, const TaskOptions& options) {
  json.key("options").begin_object();
  for (const api::OptionField& option : api::option_fields()) {
    json.key(option.name);
    if (const auto* flag = std::get_if<api::Switch>(&option.field)) {
      json.boolean(options.*(flag->field));
    } else if (const auto* number = std::get_if<api::Number>(&option.field)) {
      json.exact_number(options.*(number->field));
    } else if (const auto* text = std::get_if<api::Text>(&option.field)) {
      json.string(options.*(text->field));
    } else {
      const auto& choice = std::get<api::Choice>(option.field);
      json.string(choice.names[choice.index(options)]);
    }
  }
  json.end_object();
}

}  // namespace

Result<Task> read_task_file(const std::string& path) {
  INCIPIT_TRY(const std::string json, read_file(path, kTaskBytesMax));
  return parse_task(json, path);
}

Result<Task> parse_task(std::string_view json, const std::string& name) {
  if (json.starts_with("\xEF\xBB\xBF")) json.remove_prefix(3);
  return TaskReader(json, name).read();
}

std::string task_json(const Task& task) {
  api::JsonWriter json(2);
  json.begin_object();
  json.key("instructions").string(task.instructions);
  json.key("input").string(task.input);
  write_labels(json, task);
  json.key("examples").begin_array();
  for (const Example& example : task.examples) {
    json.begin_object().key("text").string(example.text);
    json.key("label").string(example.label).end_object();
  }
  json.end_array();
  write_options(json, task.options);
  return json.end_object().take() + "\n";
}

Result<void> check_task(const Task& task) {
  if (const auto fault = policy::find_task_fault(task)) {
    return failure(ErrorCode::kInvalidArgument, fault->path + ": " + fault->what);
  }
  for (const api::OptionField& option : api::option_fields()) {
    const auto* number = std::get_if<api::Number>(&option.field);
    TaskOptions probe;
    if (number != nullptr && !api::assign_number(option, probe, task.options.*(number->field))) {
      return failure(ErrorCode::kInvalidArgument, "options." + std::string(option.name) +
                                                      ": expected " + api::option_values(option));
    }
  }
  return {};
}

}  // namespace incipit
