// SPDX-License-Identifier: Apache-2.0
//
// Output rows: one line for each input row, always valid UTF-8, and valid JSON or RFC 4180.
//
// A JSONL row has the keys that apply and no others; an id is written as it was read. A CSV row
// is the input's own columns with their values unchanged, then label, confidence, status and
// reason. A field that the input already has under one of our names keeps it, and ours is called
// predicted_NAME. Confined to one thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/row_reader.h"
#include "incipit/label.h"
#include "incipit/task.h"

namespace incipit::api {

struct RowStyle {
  RowFormat format;
  bool probabilities = false;
  bool csv_safe = false;
  bool input_is_csv = false;
  std::vector<std::string> columns{};  // Of a CSV input with a header.
};

class RowWriter {
 public:
  // `task` must outlive the writer.
  static std::unique_ptr<RowWriter> make(const Task& task, RowStyle style);
  virtual ~RowWriter() = default;

  // The first line of the file; nothing for JSONL.
  virtual void write_header(std::string& out) const = 0;
  // Appends one line. `dup_of` is the id, as JSON, of the row whose scores these are; or empty.
  virtual void write(const Row& row, const Label& label, const std::string& dup_of,
                     std::string& out) const = 0;
};

// The label of a row that could not be read.
[[nodiscard]] Label unreadable_label(const Row& row);

}  // namespace incipit::api
