// SPDX-License-Identifier: Apache-2.0
//
// Rows from JSON Lines: one object a line; lines of white space only are passed over.
// Confined to one thread.
#pragma once

#include "api/byte_reader.h"
#include "api/json_cursor.h"
#include "api/row_reader.h"

namespace incipit::api {

class JsonlReader final : public RowReader {
 public:
  JsonlReader(ByteReader bytes, RowFields fields)
      : bytes_(std::move(bytes)), fields_(std::move(fields)) {}

  Result<bool> next(Row& row) override;
  [[nodiscard]] const std::vector<std::string>& columns() const override { return columns_; }
  [[nodiscard]] std::uint64_t bytes_read() const override { return bytes_.bytes_read(); }

 private:
  struct Found;

  Result<void> read_row(Row& row);
  Result<void> read_member(JsonCursor& json, const std::string& key, Row& row, Found& found);
  [[nodiscard]] bool is_id_field(std::string_view key) const;

  ByteReader bytes_;
  RowFields fields_;
  std::string line_;
  std::vector<std::string> columns_;
};

}  // namespace incipit::api
