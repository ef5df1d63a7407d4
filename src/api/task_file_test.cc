// SPDX-License-Identifier: Apache-2.0
#include "incipit/task_file.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "api/task_options.h"

namespace incipit {
namespace {

std::string error_of(std::string_view json) {
  const auto task = parse_task(json, "task.json");
  if (task) return "no error";
  EXPECT_EQ(task.error().code, ErrorCode::kInvalidArgument);
  return task.error().message;
}

TEST(TaskFile, ReadsEveryForm) {
  const auto task = parse_task(R"({
    "instructions": "Sort: {labels}", "input": "Ticket: {text}",
    "labels": {"technical": {"criteria": "errors", "surfaces": ["tech ", "technical"]},
               "billing": {"description": "money"}, "account": "sign-in"},
    "examples": [{"text": "It crashed.", "label": "technical"}],
    "options": {"scoring": "sequence", "min_confidence": 0.5, "strip": true, "too_long": "head+tail",
                "none_label": "account", "template_date": "2026-01-31"}})",
                               "task.json");
  ASSERT_TRUE(task) << task.error().message;
  EXPECT_EQ(task->instructions, "Sort: {labels}");
  EXPECT_EQ(task->input, "Ticket: {text}");
  ASSERT_EQ(task->labels.size(), 3U);
  EXPECT_EQ(task->labels[0].name, "technical");  // Declaration order, not the alphabet's.
  EXPECT_EQ(task->labels[0].description, "errors");
  EXPECT_EQ(task->labels[0].surfaces, (std::vector<std::string>{"tech", "technical"}));
  EXPECT_EQ(task->labels[2].description, "sign-in");
  EXPECT_EQ(task->examples[0].label, "technical");
  EXPECT_EQ(task->options.scoring, Scoring::kSequence);
  EXPECT_EQ(task->options.too_long, TooLongPolicy::kHeadTail);
  EXPECT_EQ(task->options.min_confidence, 0.5);
  EXPECT_TRUE(task->options.strip);
}

TEST(TaskFile, LetsSurfaceAndNameDiffer) {
  const auto task =
      parse_task(R"({"labels": {"close_account": {"surfaces": ["close account"]}}})", "t");
  ASSERT_TRUE(task);
  EXPECT_EQ(task->labels[0].name, "close_account");
  EXPECT_EQ(task->labels[0].surfaces[0], "close account");
}

TEST(TaskFile, TakesOneLabelAndAByteOrderMark) {
  EXPECT_TRUE(parse_task("\xEF\xBB\xBF{\"labels\": {\"a\": \"\"}}", "t"));
}

TEST(TaskFile, RefusesLabelsThatDifferInTheirEdgesOnly) {
  EXPECT_EQ(error_of("{\"labels\": {\"billing\": \"\",\n \" billing\": \"\"}}"),
            "task.json:2:2: labels.billing: this label is declared twice; white space around it "
            "does not count");
  EXPECT_EQ(
      error_of(R"({"labels": {"a": {"surfaces": [" x"]}, "b": {"surfaces": ["y", "x "]}}})"),
      "task.json:1:64: labels.b.surfaces[1]: the surface 'x' already belongs to the label 'a'");
  EXPECT_NE(error_of(R"({"labels": {"a": {"surfaces": ["x", "x"]}}})"), "no error");
  EXPECT_NE(error_of(R"({"labels": {"a": "", "b": {"surfaces": ["a"]}}})"), "no error");
}

TEST(TaskFile, NamesFileLineAndKey) {
  const struct {
    const char* json;
    const char* message;
  } cases[] = {
      {"{\"labels\": {\"a\": \"\"},\n\"label\": 1}",
       "task.json:2:1: label: unknown key; known here are instructions, input, labels, examples, "
       "options"},
      {R"({"labels": {"a": {"descr": "x"}}})",
       "task.json:1:19: labels.a.descr: unknown key; known here are description, criteria, "
       "surfaces"},
      {R"({"labels": {"a": "", "a": ""}})", "task.json:1:22: labels.a: this key occurs twice"},
      {R"({"labels": {}})", "task.json:1:2: labels: a task needs at least one label"},
      {R"({"labels": {" ": ""}})", "task.json:1:13: labels.: a label needs a name"},
      {R"({"labels": {"a": 3}})", "task.json:1:18: labels.a: expected a description or an object"},
      {R"({"labels": {"a": ""}, "examples": [{"text": "x", "label": "b"}]})",
       "task.json:1:50: examples[0].label: 'b' is not one of the labels"},
      {R"({"labels": {"a": ""}, "examples": [{"text": "x"}]})",
       "task.json:1:36: examples[0]: an example needs text and label"},
      {R"({"labels": {"a": ""}, "input": "Ticket"})",
       "task.json:1:23: input: must contain {text}, the place of the text to classify"},
      {R"({"labels": {"a": ""}, "options": {"scoring": "fast"}})",
       "task.json:1:46: options.scoring: expected auto|first|sequence"},
      {R"({"labels": {"a": ""}, "options": {"min_mass": 1.5}})",
       "task.json:1:47: options.min_mass: expected a number from 0 to 1"},
      {R"({"labels": {"a": ""}, "options": {"none_label": "b"}})",
       "task.json:1:35: options.none_label: 'b' is not one of the labels"},
      {R"({"labels": {"a": {"surfaces": []}}})",
       "task.json:1:19: labels.a.surfaces: leave it out, or name a surface"},
      {R"({"labels": {"a": {"description": "x", "criteria": "y"}}})",
       "task.json:1:39: labels.a.criteria: criteria is another name of description; keep one of "
       "them"},
      {"[]", "task.json:1:1: expected an object"},
      {R"({"labels": {"a": ""}} x)", "task.json:1:23: nothing may follow the JSON value"},
      {"{\"labels\": {\"a\": \"\xE9\"}}", "task.json:1:18: labels.a: this text is not valid UTF-8"},
  };
  for (const auto& item : cases) {
    EXPECT_EQ(error_of(item.json), item.message);
  }
}

TEST(TaskFile, SurvivesHostileNesting) {
  EXPECT_NE(error_of(std::string(1 << 20, '{')), "no error");
  EXPECT_NE(error_of("{\"labels\":" + std::string(1 << 20, '[')), "no error");
}

TEST(TaskFile, NamesAMissingFile) {
  const auto task = read_task_file("/nonexistent/task.json");
  ASSERT_FALSE(task);
  EXPECT_EQ(task.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(task.error().message.find("/nonexistent/task.json"), std::string::npos);
}

TEST(TaskOptionTable, SetsEveryFieldFromText) {
  for (const TaskOptionInfo& info : task_option_infos()) {
    TaskOptions options;
    const std::string value = info.is_switch                        ? "true"
                              : info.values.starts_with("a number") ? "0.25"
                              : info.values == "a text"
                                  ? "2026-01-31"
                                  : info.values.substr(info.values.rfind('|') + 1);
    EXPECT_TRUE(set_task_option(options, info.name, value)) << info.name;
  }
  TaskOptions options;
  EXPECT_EQ(set_task_option(options, "scoring", "x").error().message,
            "scoring: expected auto|first|sequence, not 'x'");
  EXPECT_FALSE(set_task_option(options, "min_mass", "nan"));
  EXPECT_FALSE(set_task_option(options, "min_mass", "0.5x"));
  EXPECT_FALSE(set_task_option(options, "nothing", "1"));
}

RC_GTEST_PROP(TaskFile, ComesBackFromItsOwnText, ()) {
  Task task;
  const auto word = rc::gen::nonEmpty(rc::gen::container<std::string>(rc::gen::inRange('a', 'z')));
  const auto names = *rc::gen::nonEmpty(rc::gen::unique<std::vector<std::string>>(word));
  for (const std::string& name : names) {
    task.labels.push_back({.name = name, .description = *word, .surfaces = {}});
    if (*rc::gen::arbitrary<bool>()) task.labels.back().surfaces = {name, "a " + name + " b"};
  }
  task.instructions = *word + "\"\n\\";
  task.examples = {{.text = *word, .label = names.back()}};
  task.options.min_margin = *rc::gen::inRange(0, 1000) / 1000.0;
  task.options.strip = *rc::gen::arbitrary<bool>();
  task.options.empty_text = EmptyTextPolicy::kReview;
  const std::string json = task_json(task);
  const auto again = parse_task(json, "t");
  RC_ASSERT(again.has_value());
  RC_ASSERT(task_json(*again) == json);
  RC_ASSERT(again->options.min_margin == task.options.min_margin);
  RC_ASSERT(again->labels.size() == names.size());
  for (std::size_t i = 0; i < names.size(); ++i) RC_ASSERT(again->labels[i].name == names[i]);
}

}  // namespace
}  // namespace incipit
