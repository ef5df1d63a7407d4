// SPDX-License-Identifier: Apache-2.0
//
// The example tickets that the documentation classifies.
#pragma once

#include <simdjson.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace incipit::test {

// The texts of examples/tickets/tickets.jsonl, in order.
inline const std::vector<std::string>& example_tickets() {
  static const std::vector<std::string> texts = [] {
    const auto root = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();
    std::ifstream file(root / "examples" / "tickets" / "tickets.jsonl");
    std::vector<std::string> read;
    simdjson::dom::parser parser;
    for (std::string line; std::getline(file, line);) {
      const simdjson::padded_string padded(line);
      read.emplace_back(std::string_view(parser.parse(padded)["text"]));
    }
    return read;
  }();
  return texts;
}

inline std::vector<std::string_view> views(const std::vector<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

}  // namespace incipit::test
