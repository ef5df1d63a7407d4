// SPDX-License-Identifier: Apache-2.0
//
// Sorts the lines of standard input into three queues: `sort_tickets MODEL.gguf < tickets.txt`.
#include <cstddef>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "incipit/engine.h"

namespace {

incipit::Task ticket_task() {
  incipit::Task task;
  task.instructions = "You sort support tickets. Answer with one word: {labels}.";
  task.input = "Ticket: {text}";
  task.labels = {{.name = "billing", .description = "", .surfaces = {}},
                 {.name = "technical", .description = "", .surfaces = {}},
                 {.name = "account", .description = "", .surfaces = {}}};
  task.examples = {{.text = "I was charged twice.", .label = "billing"},
                   {.text = "The page stays blank.", .label = "technical"},
                   {.text = "Please close my profile.", .label = "account"}};
  return task;
}

incipit::Result<void> sort_lines(const std::string& model, const std::vector<std::string>& lines) {
  incipit::EngineOptions options;
  options.model = model;
  INCIPIT_TRY(const auto engine, incipit::Engine::open(std::move(options)));
  INCIPIT_TRY(const auto classifier, engine->classifier(ticket_task(), {}));

  const std::vector<std::string_view> texts(lines.begin(), lines.end());
  INCIPIT_TRY(const std::vector<incipit::Label> labels, classifier->classify(texts));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto best = labels[i].best;
    std::cout << (best ? classifier->task().labels[*best].name : labels[i].error) << '\t'
              << labels[i].confidence << '\t' << lines[i] << '\n';
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: sort_tickets MODEL.gguf < tickets.txt\n";
    return 2;
  }
  std::vector<std::string> lines;
  for (std::string line; std::getline(std::cin, line);) lines.push_back(line);
  if (const auto sorted = sort_lines(argv[1], lines); !sorted) {
    std::cerr << "sort_tickets: " << sorted.error().message << '\n';
    return 3;
  }
  return 0;
}
