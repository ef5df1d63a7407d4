// SPDX-License-Identifier: Apache-2.0
//
// The task of the golden prompt: three labels, six examples.
#pragma once

#include "incipit/task.h"

namespace incipit::test {

inline Task ticket_task() {
  Task task;
  task.instructions =
      "You sort customer support tickets. Answer with exactly one word: billing, technical or "
      "account.";
  task.input = "Ticket: {text}";
  task.labels = {{.name = "billing", .description = {}, .surfaces = {}},
                 {.name = "technical", .description = {}, .surfaces = {}},
                 {.name = "account", .description = {}, .surfaces = {}}};
  task.examples = {{"My card was billed two times this month.", "billing"},
                   {"The page shows an error when I press save.", "technical"},
                   {"I need to change the phone number on my profile.", "account"},
                   {"Please send me the receipt for order of last week.", "billing"},
                   {"The mobile app will not start after the upgrade.", "technical"},
                   {"I can not log in because I lost my password.", "account"}};
  return task;
}

}  // namespace incipit::test
