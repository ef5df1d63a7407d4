// SPDX-License-Identifier: Apache-2.0
//
// The rows of a JSONL or CSV file, one at a time and in constant memory.
//
// A bad row never stops the file: it comes out as a Row with an error that names its line, and
// reading goes on behind it. What a row carries is kept byte by byte: an id is JSON source text,
// so a number keeps every digit and a string its escapes; text that is not UTF-8 comes through,
// because the task's policy decides on it. CSV is RFC 4180: a cell in quotes may hold the
// delimiter, line ends and doubled quotes; records end with LF or CRLF.
// Confined to one thread. docs/classify.md describes the formats for users.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "incipit/classify_file.h"
#include "incipit/result.h"

namespace incipit::api {

struct KeptField {
  std::string name;
  std::string json;  // Source text of the value.
};

struct Row {
  std::uint64_t line = 0;             // Where the row begins, from 1.
  std::string id{};                   // JSON source text; the line number where the row has no id.
  std::string text{};                 // May hold any bytes.
  std::optional<std::string> gold{};  // The true label, if the row has one.
  std::vector<KeptField> kept{};      // Fields to pass through, if asked for.
  std::vector<std::string> cells{};   // CSV: every cell of the record, in the file's columns.
  std::string error{};                // Empty, or why the row cannot be classified: "invalid_json".
  std::string message{};              // The same for a person, with line and column.
};

class RowReader {
 public:
  // `fields` names what to read. Errors: kInvalidArgument if the file cannot be read, is not
  // UTF-8 by its byte order mark, or its CSV header lacks a column that `fields` names.
  static Result<std::unique_ptr<RowReader>> open(File file, const RowFormat& format,
                                                 const RowFields& fields);
  virtual ~RowReader() = default;

  // Reads the next row into `row`; false at the end of the file. Errors: the file cannot be read.
  virtual Result<bool> next(Row& row) = 0;

  // The names of the CSV columns; empty for JSONL and without a header.
  [[nodiscard]] virtual const std::vector<std::string>& columns() const = 0;
  [[nodiscard]] virtual std::uint64_t bytes_read() const = 0;
};

// Chooses by the extension: .jsonl, .ndjson, .csv, .tsv. Standard input is JSONL.
Result<RowFormat> format_of_path(const std::string& path);
// "jsonl", "csv" or "tsv". Errors: kInvalidArgument for another name.
Result<RowFormat> format_of_name(std::string_view name);

}  // namespace incipit::api
