// SPDX-License-Identifier: Apache-2.0
//
// The one table of TaskOptions: name, field, range, help. Task files, command-line flags and
// state fingerprints all go through it, so a new field cannot be forgotten in one of them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "incipit/result.h"
#include "incipit/task.h"

namespace incipit::api {

struct Switch {
  bool TaskOptions::* field;
};
struct Number {
  double TaskOptions::* field;
  double least;
  double most;
};
struct Text {
  std::string TaskOptions::* field;
};
// An enumeration, by its names in the order of its values.
struct Choice {
  std::span<const std::string_view> names;
  std::size_t (*index)(const TaskOptions&);
  void (*assign)(TaskOptions&, std::size_t);
};

struct OptionField {
  std::string_view name;
  std::variant<Switch, Number, Text, Choice> field;
  std::string_view help;
};

[[nodiscard]] std::span<const OptionField> option_fields();
[[nodiscard]] const OptionField* find_option(std::string_view name);

// What `field` accepts, for messages.
[[nodiscard]] std::string option_values(const OptionField& field);

// Each sets a field of the fitting kind; false if the value is not possible.
bool assign_switch(const OptionField& field, TaskOptions& options, bool value);
bool assign_number(const OptionField& field, TaskOptions& options, double value);
// Text and Choice.
bool assign_text(const OptionField& field, TaskOptions& options, std::string_view value);

}  // namespace incipit::api
