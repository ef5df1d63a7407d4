// SPDX-License-Identifier: Apache-2.0
#include "api/row_reader.h"

#include <utility>

#include "api/byte_reader.h"
#include "api/csv_reader.h"
#include "api/jsonl_reader.h"

namespace incipit::api {

Result<std::unique_ptr<RowReader>> RowReader::open(File file, const RowFormat& format,
                                                   const RowFields& fields) {
  INCIPIT_TRY(ByteReader bytes, ByteReader::open(std::move(file)));
  if (format.kind == RowFormat::Kind::kJsonl) {
    return std::make_unique<JsonlReader>(std::move(bytes), fields);
  }
  return CsvReader::open(std::move(bytes), format, fields);
}

Result<RowFormat> format_of_name(std::string_view name) {
  if (name == "jsonl") return RowFormat{.kind = RowFormat::Kind::kJsonl};
  if (name == "csv") return RowFormat{.kind = RowFormat::Kind::kCsv};
  if (name == "tsv") return RowFormat{.kind = RowFormat::Kind::kCsv, .delimiter = '\t'};
  return failure(ErrorCode::kInvalidArgument,
                 "there is no format '" + std::string(name) + "'; use jsonl, csv or tsv");
}

Result<RowFormat> format_of_path(const std::string& path) {
  if (path == "-" || path.empty() || path.ends_with(".jsonl") || path.ends_with(".ndjson")) {
    return format_of_name("jsonl");
  }
  if (path.ends_with(".csv")) return format_of_name("csv");
  if (path.ends_with(".tsv")) return format_of_name("tsv");
  return failure(ErrorCode::kInvalidArgument,
                 path + ": the name does not tell the format; give --format jsonl, csv or tsv");
}

}  // namespace incipit::api
