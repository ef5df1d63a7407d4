// SPDX-License-Identifier: Apache-2.0
#include "api/row_source.h"

#include <unistd.h>

#include <array>
#include <filesystem>
#include <span>
#include <system_error>

namespace incipit::api {

Result<RowSource> RowSource::open(const std::string& path, std::optional<RowFormat> format,
                                  const RowFields& fields) {
  if (fields.text.empty()) {
    return failure(ErrorCode::kInvalidArgument, "--text-field: name at least one field");
  }
  if (!format) {
    INCIPIT_TRY(format, format_of_path(path));
  }
  return RowSource(path, *format, fields);
}

bool RowSource::is_regular() const {
  std::error_code ignored;
  return path_ != "-" && std::filesystem::is_regular_file(path_, ignored);
}

Result<void> RowSource::make_repeatable(const std::string& directory) {
  if (is_repeatable()) return {};
  INCIPIT_TRY(const File input,
              path_ == "-" ? File::borrow(STDIN_FILENO, "standard input") : File::open_read(path_));
  INCIPIT_TRY(File copy, File::temporary(directory));
  std::array<char, 1 << 16> buffer{};
  while (true) {
    INCIPIT_TRY(const std::size_t count, input.read(std::as_writable_bytes(std::span(buffer))));
    if (count == 0) break;
    INCIPIT_TRY_VOID(copy.write({buffer.data(), count}));
  }
  copy_ = std::move(copy);
  return {};
}

Result<std::unique_ptr<RowReader>> RowSource::rows() const {
  if (copy_) {
    // One position serves one reader at a time, which is how jobs read.
    ::lseek(copy_->descriptor(), 0, SEEK_SET);
    return RowReader::open(File::borrow(copy_->descriptor(), path_), format_, fields_);
  }
  if (path_ == "-") {
    return RowReader::open(File::borrow(STDIN_FILENO, "standard input"), format_, fields_);
  }
  INCIPIT_TRY(File file, File::open_read(path_));
  return RowReader::open(std::move(file), format_, fields_);
}

Result<std::optional<std::uint64_t>> RowSource::count_rows() const {
  if (!is_repeatable()) return std::nullopt;
  INCIPIT_TRY(const auto reader, rows());
  std::uint64_t count = 0;
  Row row;
  while (true) {
    INCIPIT_TRY(const bool more, reader->next(row));
    if (!more) return count;
    ++count;
  }
}

}  // namespace incipit::api
