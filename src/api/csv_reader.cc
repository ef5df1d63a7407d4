// SPDX-License-Identifier: Apache-2.0
#include "api/csv_reader.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "api/json_writer.h"
#include "base/counted.h"

namespace incipit::api {
namespace {

std::unexpected<Error> refuse(const ByteReader& bytes, const std::string& what) {
  return failure(ErrorCode::kInvalidArgument, bytes.path() + ":1: " + what);
}

}  // namespace

Result<std::unique_ptr<RowReader>> CsvReader::open(ByteReader bytes, const RowFormat& format,
                                                   const RowFields& fields) {
  std::unique_ptr<CsvReader> reader(new CsvReader(std::move(bytes), format, fields));
  Record record;
  INCIPIT_TRY(const bool has_record, reader->read_record(record, kColumnsMax));
  if (!has_record) {
    if (format.header) return refuse(reader->bytes_, "the file is empty; expected a header line");
    return reader;
  }
  if (!record.error.empty()) {
    return failure(ErrorCode::kInvalidArgument, reader->bytes_.path() + ": " + record.message);
  }
  if (record.cell_count > kColumnsMax) {
    return refuse(reader->bytes_, "more than " + std::to_string(kColumnsMax) + " columns");
  }
  reader->column_count_ = record.cell_count;
  if (format.header) {
    reader->columns_ = std::move(record.cells);
  } else {
    reader->first_ = std::move(record);
  }
  INCIPIT_TRY_VOID(reader->choose_columns());
  return reader;
}

Result<std::optional<std::size_t>> CsvReader::find_column(const std::string& name) const {
  if (!format_.header) {
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    const bool is_number = error == std::errc() && end == name.data() + name.size();
    if (!is_number || number == 0 || number > column_count_) return std::nullopt;
    return number - 1;
  }
  const auto found = std::ranges::find(columns_, name);
  if (found == columns_.end()) return std::nullopt;
  if (std::find(found + 1, columns_.end(), name) != columns_.end()) {
    return refuse(bytes_, "two columns are named '" + name + "'");
  }
  return static_cast<std::size_t>(found - columns_.begin());
}

Result<std::size_t> CsvReader::require_column(const std::string& name,
                                              const std::string& flag) const {
  INCIPIT_TRY(const auto column, find_column(name));
  if (column) return *column;
  if (!format_.header) {
    return refuse(bytes_, "there is no column '" + name + "'; without a header " + flag +
                              " takes a number from 1 to " + std::to_string(column_count_));
  }
  std::string known;
  for (const std::string& each : columns_) known += (known.empty() ? "" : ", ") + each;
  return refuse(bytes_,
                "there is no column '" + name + "'; name one of these with " + flag + ": " + known);
}

Result<std::optional<std::size_t>> CsvReader::choose_id_column() const {
  if (!fields_.id.empty()) return require_column(fields_.id, "--id-field");
  INCIPIT_TRY(const auto id, find_column("id"));
  if (id) return id;
  return find_column("custom_id");
}

Result<void> CsvReader::choose_columns() {
  for (const std::string& name : fields_.text) {
    INCIPIT_TRY(const std::size_t column, require_column(name, "--text-field"));
    text_columns_.push_back(column);
  }
  INCIPIT_TRY(id_column_, choose_id_column());
  if (fields_.label.empty()) {
    INCIPIT_TRY(label_column_, find_column("label"));
  } else {
    INCIPIT_TRY(label_column_, require_column(fields_.label, "--label-field"));
  }
  for (std::size_t column = 0; fields_.keep && column < column_count_; ++column) {
    const bool is_used = column == id_column_ || column == label_column_ ||
                         std::ranges::find(text_columns_, column) != text_columns_.end();
    if (!is_used) kept_columns_.push_back(column);
  }
  return {};
}

bool CsvReader::append(Record& record, std::string& cell, int c) {
  if (++record.bytes > fields_.row_bytes_max) {
    if (record.error.empty()) {
      record.error = "row_too_long";
      record.message = "line " + std::to_string(record.line) + ": this record is longer than " +
                       counted(fields_.row_bytes_max, "byte");
    }
    record.cells.clear();
    cell.clear();
    return false;
  }
  cell += static_cast<char>(c);
  return true;
}

int CsvReader::read_bare_cell(Record& record, std::string& cell, int first) {
  int c = first;
  while (c != ByteReader::kEnd && c != format_.delimiter && c != '\n') {
    if (c == '\r' && bytes_.peek() == '\n') return bytes_.get();
    append(record, cell, c);
    c = bytes_.get();
  }
  return c;
}

int CsvReader::read_quoted_cell(Record& record, std::string& cell) {
  const std::uint64_t quote_line = bytes_.line();
  while (true) {
    const int c = bytes_.get();
    if (c == ByteReader::kEnd) {
      record.error = "invalid_csv";
      record.message = "line " + std::to_string(quote_line) + ": this quote is never closed";
      return c;
    }
    if (c != '"') {
      append(record, cell, c);
      continue;
    }
    if (bytes_.peek() != '"') break;
    append(record, cell, bytes_.get());
  }
  int c = bytes_.get();
  if (c == '\r' && bytes_.peek() == '\n') c = bytes_.get();
  if (c == ByteReader::kEnd || c == '\n' || c == format_.delimiter) return c;
  record.error = "invalid_csv";
  record.message = "line " + std::to_string(bytes_.line()) +
                   ": after a closing quote comes the delimiter or the end of the line; a quote "
                   "inside a cell is written twice";
  // The quotes of this line mean nothing any more: go on at the next one.
  while (c != ByteReader::kEnd && c != '\n') c = bytes_.get();
  return c;
}

Result<bool> CsvReader::read_record(Record& record, std::size_t cells_max) {
  record = {};
  record.line = bytes_.line();
  int c = bytes_.get();
  // An empty line is no record, except where it may be the one empty cell of a column.
  while ((c == '\n' || (c == '\r' && bytes_.peek() == '\n')) && column_count_ != 1) {
    if (c == '\r') bytes_.get();
    record.line = bytes_.line();
    c = bytes_.get();
  }
  if (c == ByteReader::kEnd) {
    INCIPIT_TRY_VOID(bytes_.check());
    return false;
  }
  while (true) {
    std::string cell;
    const int end = c == '"' ? read_quoted_cell(record, cell) : read_bare_cell(record, cell, c);
    ++record.cell_count;
    if (record.cells.size() < cells_max && record.error.empty()) {
      record.cells.push_back(std::move(cell));
    }
    if (end != format_.delimiter) break;
    ++record.bytes;
    c = bytes_.get();
  }
  INCIPIT_TRY_VOID(bytes_.check());
  return true;
}

Result<bool> CsvReader::next(Row& row) {
  Record record;
  if (first_) {
    record = std::move(*std::exchange(first_, std::nullopt));
  } else {
    INCIPIT_TRY(const bool more, read_record(record, column_count_));
    if (!more) return false;
  }
  fill_row(record, row);
  return true;
}

void CsvReader::fill_row(Record& record, Row& row) const {
  row = {.line = record.line, .id = std::to_string(record.line)};
  row.error = std::move(record.error);
  row.message = std::move(record.message);
  if (row.error.empty() && record.cell_count != column_count_) {
    row.error = "wrong_column_count";
    row.message = "line " + std::to_string(record.line) + ": this record has " +
                  counted(record.cell_count, "cell") + " where the file has " +
                  counted(column_count_, "column");
  }
  row.cells = std::move(record.cells);
  row.cells.resize(column_count_);
  if (!row.error.empty()) return;
  if (id_column_ && !row.cells[*id_column_].empty()) row.id = json_string(row.cells[*id_column_]);
  if (label_column_ && !row.cells[*label_column_].empty()) row.gold = row.cells[*label_column_];
  for (const std::size_t column : kept_columns_) {
    row.kept.push_back({.name = columns_.empty() ? std::to_string(column + 1) : columns_[column],
                        .json = json_string(row.cells[column])});
  }
  for (std::size_t i = 0; i < text_columns_.size(); ++i) {
    if (i > 0) row.text += fields_.join;
    row.text += row.cells[text_columns_[i]];
  }
}

}  // namespace incipit::api
