// SPDX-License-Identifier: Apache-2.0
#include "api/task_options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <tuple>

#include "api/json_writer.h"
#include "incipit/task_file.h"

namespace incipit::api {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::array kScoring = {"auto"sv, "first"sv, "sequence"sv};
constexpr std::array kNormalise = {"none"sv, "mean"sv, "char"sv, "pmi"sv};
constexpr std::array kLabelSurface = {"as-is"sv, "space"sv, "capital"sv, "auto"sv};
constexpr std::array kConfidence = {"top"sv, "peak"sv};
constexpr std::array kSpecialText = {"neutralise"sv, "reject"sv, "allow"sv};
constexpr std::array kEmptyText = {"error"sv, "review"sv, "score"sv};
constexpr std::array kTooLong = {"error"sv, "head"sv, "tail"sv, "head+tail"sv, "shard"sv};

static_assert(static_cast<std::size_t>(Scoring::kSequence) + 1 == kScoring.size());
static_assert(static_cast<std::size_t>(Normalise::kPmi) + 1 == kNormalise.size());
static_assert(static_cast<std::size_t>(LabelSurface::kAuto) + 1 == kLabelSurface.size());
static_assert(static_cast<std::size_t>(ConfidenceKind::kPeak) + 1 == kConfidence.size());
static_assert(static_cast<std::size_t>(SpecialTextPolicy::kAllow) + 1 == kSpecialText.size());
static_assert(static_cast<std::size_t>(EmptyTextPolicy::kScore) + 1 == kEmptyText.size());
static_assert(static_cast<std::size_t>(TooLongPolicy::kShard) + 1 == kTooLong.size());

template <auto Field>
Choice choice(std::span<const std::string_view> names) {
  return {.names = names,
          .index = [](const TaskOptions& o) { return static_cast<std::size_t>(o.*Field); },
          .assign =
              [](TaskOptions& o, std::size_t index) {
                o.*Field = static_cast<std::remove_reference_t<decltype(o.*Field)>>(index);
              }};
}

using O = TaskOptions;

const std::array kFields = {
    OptionField{"scoring", choice<&O::scoring>(kScoring),
                "How labels are compared: by their first token, by all of their tokens, or by the "
                "first where that tells them apart."},
    OptionField{
        "normalise", choice<&O::normalise>(kNormalise),
        "What becomes of a label's score: nothing; divided by its tokens (mean) or characters "
        "(char), to compare with other tools; or less its score after an empty text (pmi)."},
    OptionField{"label_surface", choice<&O::label_surface>(kLabelSurface),
                "How label words are written in the answer: as they are, after a space, "
                "capitalised, or whichever the model likes best."},
    OptionField{"end_token", Switch{&O::end_token},
                "Count the end of the answer as part of the label, so that one label may be the "
                "beginning of another."},
    OptionField{"temperature", Number{&O::temperature, 1e-3, 1e3},
                "Divides the scores before they become probabilities."},
    OptionField{"confidence", choice<&O::confidence>(kConfidence),
                "What is reported as confidence: the top probability, or how far it stands above "
                "an even spread."},
    OptionField{"min_confidence", Number{&O::min_confidence, 0, 1},
                "A lower confidence sends the row to review."},
    OptionField{"min_margin", Number{&O::min_margin, 0, 1},
                "A smaller lead of the best label over the second sends the row to review."},
    OptionField{"min_mass", Number{&O::min_mass, 0, 1},
                "Less probability on all labels together sends the row to review."},
    OptionField{"none_label", Text{&O::none_label},
                "The label that means none of the others; rows that get it go to review."},
    OptionField{"multi_label", Switch{&O::multi_label},
                "Ask one yes/no question per label; a row may get several labels or none."},
    OptionField{"multi_threshold", Number{&O::multi_threshold, 0, 1},
                "The probability of yes that a label needs in a multi-label task."},
    OptionField{"hierarchy_threshold", Number{&O::hierarchy_threshold, 0, 1},
                "With labels that are paths: report the deepest node that is this probable."},
    OptionField{"strip", Switch{&O::strip}, "Remove white space around each text."},
    OptionField{"drop_control", Switch{&O::drop_control},
                "Remove control characters from each text."},
    OptionField{"reject_invalid_utf8", Switch{&O::reject_invalid_utf8},
                "Make text that is not UTF-8 a row error, instead of replacing the bad bytes."},
    OptionField{"special_text", choice<&O::special_text>(kSpecialText),
                "What becomes of special-token text in a row: keep it as plain text, make it a "
                "row error, or obey it (trusted text only)."},
    OptionField{"empty_text", choice<&O::empty_text>(kEmptyText),
                "What an empty row becomes: an error, a review, or a row like any other."},
    OptionField{"too_long", choice<&O::too_long>(kTooLong),
                "What becomes of a text longer than the context: an error, its head, its tail, "
                "both ends, or the mean over its parts."},
    OptionField{"template_date", Text{&O::template_date},
                "The date, YYYY-MM-DD, that is given to chat templates which print one."},
};

// A field that is added to TaskOptions stops this from compiling until the table has it too.
[[maybe_unused]] void every_field_is_in_the_table(const TaskOptions& options) {
  const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t] = options;
  static_assert(kFields.size() == 20);
  static_cast<void>(std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t));
}

}  // namespace

std::span<const OptionField> option_fields() { return kFields; }

const OptionField* find_option(std::string_view name) {
  const auto found = std::ranges::find(kFields, name, &OptionField::name);
  return found == kFields.end() ? nullptr : &*found;
}

std::string option_values(const OptionField& option) {
  if (std::holds_alternative<Switch>(option.field)) return "true|false";
  if (std::holds_alternative<Text>(option.field)) return "a text";
  if (const auto* number = std::get_if<Number>(&option.field)) {
    return "a number from " + six_digits(number->least) + " to " + six_digits(number->most);
  }
  std::string names;
  for (const std::string_view name : std::get<Choice>(option.field).names) {
    if (!names.empty()) names += '|';
    names += name;
  }
  return names;
}

bool assign_switch(const OptionField& option, TaskOptions& options, bool value) {
  const auto* field = std::get_if<Switch>(&option.field);
  if (field != nullptr) options.*(field->field) = value;
  return field != nullptr;
}

bool assign_number(const OptionField& option, TaskOptions& options, double value) {
  const auto* field = std::get_if<Number>(&option.field);
  if (field == nullptr || !(value >= field->least && value <= field->most)) return false;
  options.*(field->field) = value;
  return true;
}

bool assign_text(const OptionField& option, TaskOptions& options, std::string_view value) {
  if (const auto* field = std::get_if<Text>(&option.field)) {
    options.*(field->field) = value;
    return true;
  }
  const auto* field = std::get_if<Choice>(&option.field);
  if (field == nullptr) return false;
  const auto found = std::ranges::find(field->names, value);
  if (found == field->names.end()) return false;
  field->assign(options, static_cast<std::size_t>(found - field->names.begin()));
  return true;
}

}  // namespace incipit::api

namespace incipit {

std::vector<TaskOptionInfo> task_option_infos() {
  std::vector<TaskOptionInfo> infos;
  for (const api::OptionField& option : api::option_fields()) {
    infos.push_back({.name = std::string(option.name),
                     .help = std::string(option.help),
                     .values = api::option_values(option),
                     .is_switch = std::holds_alternative<api::Switch>(option.field)});
  }
  return infos;
}

Result<void> set_task_option(TaskOptions& options, std::string_view name, std::string_view value) {
  const api::OptionField* option = api::find_option(name);
  if (option == nullptr) {
    return failure(ErrorCode::kInvalidArgument, "there is no task option " + std::string(name));
  }
  bool is_set = false;
  if (value == "true" || value == "false") {
    is_set = api::assign_switch(*option, options, value == "true");
  }
  double number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (!is_set && error == std::errc() && end == value.data() + value.size()) {
    is_set = api::assign_number(*option, options, number);
  }
  if (is_set || api::assign_text(*option, options, value)) return {};
  return failure(ErrorCode::kInvalidArgument, std::string(name) + ": expected " +
                                                  api::option_values(*option) + ", not '" +
                                                  std::string(value) + "'");
}

}  // namespace incipit
