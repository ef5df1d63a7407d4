// SPDX-License-Identifier: Apache-2.0
//
// The rows of a job's input, from the beginning and as often as the job needs them.
//
// A job whose calibration needs the whole file reads its input twice. A pipe cannot be read
// twice, so it is copied to a temporary file first. Confined to one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "api/row_reader.h"

namespace incipit::api {

class RowSource {
 public:
  // Errors: kInvalidArgument if the format is not known.
  static Result<RowSource> open(const std::string& path, std::optional<RowFormat> format,
                                const RowFields& fields);

  // Makes rows() possible more than once; a pipe is copied to a file in `directory`.
  Result<void> make_repeatable(const std::string& directory);

  // Requires: called once, or after make_repeatable().
  [[nodiscard]] Result<std::unique_ptr<RowReader>> rows() const;

  // How many rows there are; empty for a pipe, which would be used up.
  [[nodiscard]] Result<std::optional<std::uint64_t>> count_rows() const;

  [[nodiscard]] bool is_repeatable() const { return is_regular() || copy_.has_value(); }
  [[nodiscard]] const RowFormat& format() const { return format_; }

 private:
  RowSource(std::string path, RowFormat format, RowFields fields)
      : path_(std::move(path)), format_(format), fields_(std::move(fields)) {}
  [[nodiscard]] bool is_regular() const;

  std::string path_;
  RowFormat format_;
  RowFields fields_;
  std::optional<File> copy_;
};

}  // namespace incipit::api
