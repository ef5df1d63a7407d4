// SPDX-License-Identifier: Apache-2.0
//
// A small file of texts, whole in memory: for benchmarks and for programs that bring their own
// loop. Large files go through classify_file(), which streams.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "incipit/result.h"

namespace incipit {

struct LabelledText {
  std::string text;
  std::string label;  // Empty where the row has none.
};

// Reads a JSONL or CSV file with the fields "text" and "label". Errors: kInvalidArgument for a
// file that cannot be read, has a bad row (named by its line), no rows or more than `rows_max`.
Result<std::vector<LabelledText>> read_labelled_texts(const std::string& path,
                                                      std::size_t rows_max = 100'000);

}  // namespace incipit
