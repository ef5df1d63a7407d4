// SPDX-License-Identifier: Apache-2.0
//
// A task file: a task, or an error with file, line and column.
#include "incipit/task_file.h"

#include "fuzz_target.h"

namespace incipit::fuzz {

std::vector<std::string> seeds() {
  return {R"({"instructions":"Sort {labels}.","input":"Text: {text}",
"labels":{"a":{"description":"x"},"b":{"surfaces":["c","d"]},"e":"f"},
"examples":[{"text":"x","label":"a"}],"options":{"scoring":"sequence","min_confidence":0.5}})",
          R"({"labels":{"a":{}}})"};
}

std::vector<std::string> words() {
  return {"\"labels\":",
          "\"examples\":",
          "\"temperature\":",
          "\"options\":{",
          "\"surfaces\":[",
          "\"multi_label\":true",
          "{",
          "}",
          "[",
          "]",
          "\"",
          "\\u0000",
          "1e308",
          "-1"};
}

}  // namespace incipit::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace incipit;
  const auto task = parse_task(fuzz::text_of(data, size), "task.json");
  if (!task) {
    fuzz::expect(task.error().code == ErrorCode::kInvalidArgument, "another kind of error");
    fuzz::expect(task.error().message.starts_with("task.json"), "an error without its file");
    return 0;
  }
  ++fuzz::accepted;
  fuzz::expect(check_task(*task).has_value(), "a task was read that does not pass its check");
  return 0;
}
