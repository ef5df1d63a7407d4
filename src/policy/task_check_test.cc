// SPDX-License-Identifier: Apache-2.0
#include "policy/task_check.h"

#include <gtest/gtest.h>

#include "support/ticket_task.h"

namespace incipit::policy {
namespace {

using test::ticket_task;

std::string path_of(const Task& task) {
  const auto fault = find_task_fault(task);
  return fault ? fault->path : "";
}

TEST(TaskCheck, TakesAGoodTask) { EXPECT_EQ(path_of(ticket_task()), ""); }

TEST(TaskCheck, IgnoresTheEdgesOfLabels) {
  Task task = ticket_task();
  task.labels.push_back({.name = " billing", .description = {}, .surfaces = {}});
  EXPECT_EQ(path_of(task), "labels. billing");
  task = ticket_task();
  task.labels[1].surfaces = {"account "};
  EXPECT_EQ(path_of(task), "labels.account");
}

TEST(TaskCheck, NamesTheFieldThatIsWrong) {
  const auto changed = [](auto change) {
    Task task = ticket_task();
    change(task);
    return path_of(task);
  };
  EXPECT_EQ(changed([](Task& t) { t.input = "Ticket"; }), "input");
  EXPECT_EQ(changed([](Task& t) { t.input = "{text}{text}"; }), "input");
  EXPECT_EQ(changed([](Task& t) { t.labels.clear(); }), "labels");
  EXPECT_EQ(changed([](Task& t) { t.labels[0].name = "a//b"; }), "labels.a//b");
  EXPECT_EQ(changed([](Task& t) { t.labels[0].surfaces = {"a", " "}; }),
            "labels.billing.surfaces[1]");
  EXPECT_EQ(changed([](Task& t) { t.examples[2].label = "x"; }), "examples[2].label");
  EXPECT_EQ(changed([](Task& t) { t.examples[0].text = " "; }), "examples[0].text");
  EXPECT_EQ(changed([](Task& t) { t.options.none_label = "x"; }), "options.none_label");
  EXPECT_EQ(changed([](Task& t) { t.options.template_date = "2026-13-01"; }),
            "options.template_date");
  EXPECT_EQ(changed([](Task& t) {
              t.options.scoring = Scoring::kFirst;
              t.options.normalise = Normalise::kMean;
            }),
            "options.normalise");
}

TEST(TaskCheck, StripsEdges) {
  EXPECT_EQ(strip_edges(" \t a b\r\n"), "a b");
  EXPECT_EQ(strip_edges(" \n"), "");
}

}  // namespace
}  // namespace incipit::policy
