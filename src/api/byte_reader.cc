// SPDX-License-Identifier: Apache-2.0
#include "api/byte_reader.h"

#include <cstring>
#include <span>

namespace incipit::api {

Result<ByteReader> ByteReader::open(File file) {
  ByteReader reader(std::move(file));
  // A pipe may give its first bytes one at a time; the marks are at most three bytes long.
  while (reader.end_ < 3) {
    const auto rest = std::span(reader.buffer_).subspan(reader.end_);
    INCIPIT_TRY(const std::size_t count, reader.file_.read(std::as_writable_bytes(rest)));
    if (count == 0) break;
    reader.end_ += count;
  }
  reader.bytes_read_ = reader.end_;
  const std::string_view start(reader.buffer_.data(), reader.end_);
  if (start.starts_with("\xFF\xFE") || start.starts_with("\xFE\xFF")) {
    return failure(ErrorCode::kInvalidArgument,
                   reader.path() +
                       ": this file is UTF-16; convert it to UTF-8 first, such as by "
                       "iconv -f UTF-16 -t UTF-8");
  }
  if (start.starts_with("\xEF\xBB\xBF")) reader.begin_ = 3;
  return reader;
}

bool ByteReader::fill() {
  if (error_) return false;
  auto count = file_.read(std::as_writable_bytes(std::span(buffer_)));
  begin_ = 0;
  end_ = count.value_or(0);
  bytes_read_ += end_;
  if (!count) error_ = std::move(count).error();
  return end_ > 0;
}

bool ByteReader::read_line(std::string& line, std::size_t bytes_max, bool& is_too_long) {
  line.clear();
  is_too_long = false;
  if (peek() == kEnd) return false;
  while (begin_ < end_ || fill()) {
    const char* start = buffer_.data() + begin_;
    const auto* newline = static_cast<const char*>(std::memchr(start, '\n', end_ - begin_));
    const std::size_t count =
        newline == nullptr ? end_ - begin_ : static_cast<std::size_t>(newline - start);
    is_too_long = is_too_long || line.size() + count > bytes_max;
    if (is_too_long) {
      line.clear();
    } else {
      line.append(start, count);
    }
    begin_ += count;
    if (newline != nullptr) {
      ++begin_;
      ++lines_;
      break;
    }
  }
  return true;
}

Result<void> ByteReader::check() const {
  if (error_) return std::unexpected(*error_);
  return {};
}

}  // namespace incipit::api
