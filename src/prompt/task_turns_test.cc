// SPDX-License-Identifier: Apache-2.0
#include "prompt/task_turns.h"

#include <gtest/gtest.h>

#include <string>

#include "support/prompt_model.h"
#include "support/ticket_task.h"

namespace incipit::prompt {
namespace {

using model::Role;
using test::must;
using test::ticket_task;

std::vector<model::ChatMessage> turns(const Task& task, const TurnOptions& options) {
  return task_turns(task, must(answer_surfaces(task, task.options.label_surface)), options);
}

TEST(TaskTurns, ExamplesAreTurnsOfTheirOwn) {
  Task task = ticket_task();
  task.examples.resize(1);
  const auto list = turns(task, {.ticket = "T"});
  ASSERT_EQ(list.size(), 4U);
  EXPECT_EQ(list[0].role, Role::kSystem);
  EXPECT_EQ(list[1].content, "Ticket: My card was billed two times this month.");
  EXPECT_EQ(list[2].role, Role::kAssistant);
  EXPECT_EQ(list[2].content, "billing");
  EXPECT_EQ(list[3].content, "Ticket: T");
}

TEST(TaskTurns, WithoutASystemRoleTheInstructionsComeFirst) {
  Task task = ticket_task();
  task.instructions = "Sort.";
  task.examples.clear();
  const auto list = turns(task, {.ticket = "T", .system_role = false});
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(list[0].content, "Sort.\n\nTicket: T");
}

TEST(TaskTurns, ExamplesAreTreatedLikeTickets) {
  Task task = ticket_task();
  task.options.strip = true;
  task.examples = {{" padded ", "account"}};
  EXPECT_EQ(turns(task, {.ticket = "T"})[1].content, "Ticket: padded");
}

TEST(TaskTurns, FieldsAreFilledOnceAndNotInsideTexts) {
  Task task = ticket_task();
  task.labels[0].description = "{labels}";
  task.instructions = "{labels} {text}";
  task.examples = {{"{text} {labels}", "account"}};
  const auto list = turns(task, {.ticket = "T"});
  EXPECT_EQ(list[0].content, "- billing: {labels}\n- technical\n- account {text}");
  EXPECT_EQ(list[1].content, "Ticket: {text} {labels}");
}

TEST(TaskTurns, AMultiLabelExampleIsOneYesAndOneNo) {
  Task task = ticket_task();
  task.options.multi_label = true;
  task.examples = {{"Late again.", "account"}};
  const auto list = turns(task, {.ticket = "T", .question = 1});
  ASSERT_EQ(list.size(), 6U);
  EXPECT_TRUE(list[1].content.starts_with("Ticket: Late again.\n\nDoes this label fit"));
  EXPECT_TRUE(list[1].content.ends_with("Label: account"));
  EXPECT_EQ(list[2].content, "yes");
  EXPECT_TRUE(list[3].content.ends_with("Label: billing"));  // Declared next, in a circle.
  EXPECT_EQ(list[4].content, "no");
  EXPECT_TRUE(list[5].content.ends_with("Label: technical"));
}

TEST(TaskTurns, AnswersAreStrippedStyledAndUnique) {
  Task task = ticket_task();
  task.labels[0].surfaces = {" bill\n", "Invoice"};
  const auto surfaces = must(answer_surfaces(task, LabelSurface::kCapital));
  ASSERT_EQ(surfaces.size(), 4U);
  EXPECT_EQ(surfaces[0].text, "Bill");
  EXPECT_EQ(surfaces[1].text, "Invoice");
  EXPECT_EQ(must(answer_surfaces(task, LabelSurface::kSpace))[0].text, " bill");
  task.labels[1].surfaces = {"invoice"};
  EXPECT_TRUE(answer_surfaces(task, LabelSurface::kAsIs));
  EXPECT_FALSE(answer_surfaces(task, LabelSurface::kCapital));  // Both "Invoice" now.
  task.labels[1].surfaces = {" "};
  EXPECT_FALSE(answer_surfaces(task, LabelSurface::kAsIs));
}

TEST(TaskTurns, RefusesTasksByTheFieldThatIsWrong) {
  const auto refusal = [](auto change) {
    Task task = ticket_task();
    change(task);
    const auto checked = check_task(task);
    return checked ? std::string() : checked.error().message;
  };
  EXPECT_EQ(refusal([](Task&) {}), "");
  const auto names = [&](auto change, std::string_view field) {
    const std::string message = refusal(change);
    EXPECT_NE(message.find(field), std::string::npos) << message;
  };
  names([](Task& t) { t.labels.clear(); }, "labels: is empty");
  names([](Task& t) { t.labels[1].name = " "; }, "labels[1]");
  names([](Task& t) { t.labels[1].name = "billing"; }, "labels.billing: is declared twice");
  names([](Task& t) { t.labels[2].description = "\xFF"; }, "labels[2]");
  names([](Task& t) { t.labels[2].surfaces = {"\xFF"}; }, "labels[2]");
  names([](Task& t) { t.input = "x"; }, "input");
  names([](Task& t) { t.input = "{text} {text}"; }, "input");
  names([](Task& t) { t.instructions = "\xFF"; }, "instructions");
  names([](Task& t) { t.examples[3].label = "x"; }, "examples[3].label");
  names([](Task& t) { t.examples[2].text = " "; }, "examples[2].text: is empty");
  names([](Task& t) { t.examples[2].text = "\xFF"; }, "examples[2].text: is not UTF-8");
  names([](Task& t) { t.options.none_label = "other"; }, "options.none_label");
}

}  // namespace
}  // namespace incipit::prompt
