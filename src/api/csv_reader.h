// SPDX-License-Identifier: Apache-2.0
//
// Rows from CSV (RFC 4180).
//
// A record with the wrong number of cells, or with text behind a closing quote, is a row error.
// A quote that is never closed swallows the rest of the file, as in every CSV reader; the row
// error names the line where it was opened. Confined to one thread.
#pragma once

#include <optional>

#include "api/byte_reader.h"
#include "api/row_reader.h"

namespace incipit::api {

class CsvReader final : public RowReader {
 public:
  static constexpr std::size_t kColumnsMax = 10'000;

  static Result<std::unique_ptr<RowReader>> open(ByteReader bytes, const RowFormat& format,
                                                 const RowFields& fields);

  Result<bool> next(Row& row) override;
  [[nodiscard]] const std::vector<std::string>& columns() const override { return columns_; }
  [[nodiscard]] std::uint64_t bytes_read() const override { return bytes_.bytes_read(); }

 private:
  struct Record {
    std::uint64_t line = 0;
    std::vector<std::string> cells;  // At most cells_max of them.
    std::size_t cell_count = 0;      // All of them.
    std::size_t bytes = 0;
    std::string error;
    std::string message;
  };

  CsvReader(ByteReader bytes, const RowFormat& format, const RowFields& fields)
      : bytes_(std::move(bytes)), format_(format), fields_(fields) {}

  Result<void> choose_columns();
  // The index of the column `name`; empty if it is not there.
  Result<std::optional<std::size_t>> find_column(const std::string& name) const;
  Result<std::size_t> require_column(const std::string& name, const std::string& flag) const;
  Result<std::optional<std::size_t>> choose_id_column() const;

  Result<bool> read_record(Record& record, std::size_t cells_max);
  // Each reads one cell and returns the byte that ended it.
  int read_bare_cell(Record& record, std::string& cell, int first);
  int read_quoted_cell(Record& record, std::string& cell);
  bool append(Record& record, std::string& cell, int c);
  void fill_row(Record& record, Row& row) const;

  ByteReader bytes_;
  RowFormat format_;
  RowFields fields_;
  std::vector<std::string> columns_;  // Empty without a header.
  std::size_t column_count_ = 0;
  std::optional<Record> first_;  // Without a header: the record that told the column count.
  std::vector<std::size_t> text_columns_;
  std::optional<std::size_t> id_column_;
  std::optional<std::size_t> label_column_;
  std::vector<std::size_t> kept_columns_;
};

}  // namespace incipit::api
