// SPDX-License-Identifier: Apache-2.0
//
// A file as a stream of bytes and lines, in constant memory: 64 KiB of buffer and nothing else.
//
// A byte order mark is passed over where it belongs, at offset 0, and kept as text elsewhere.
// Confined to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace incipit::api {

class ByteReader {
 public:
  static constexpr int kEnd = -1;

  // Errors: kInvalidArgument if the file cannot be read or is UTF-16.
  static Result<ByteReader> open(File file);

  // The next byte, or kEnd. A failed read looks like the end; check() tells them apart.
  int get() {
    if (begin_ == end_ && !fill()) return kEnd;
    const char c = buffer_[begin_++];
    lines_ += c == '\n' ? 1 : 0;
    return static_cast<unsigned char>(c);
  }
  int peek() {
    if (begin_ == end_ && !fill()) return kEnd;
    return static_cast<unsigned char>(buffer_[begin_]);
  }

  // Reads up to the next newline, which is left out. Beyond `bytes_max` the rest of the line is
  // passed over and `is_too_long` set. False at the end of the file.
  bool read_line(std::string& line, std::size_t bytes_max, bool& is_too_long);

  [[nodiscard]] Result<void> check() const;
  [[nodiscard]] std::uint64_t line() const { return lines_ + 1; }  // Of the next byte, from 1.
  [[nodiscard]] std::uint64_t bytes_read() const { return bytes_read_; }
  [[nodiscard]] const std::string& path() const { return file_.path(); }

 private:
  explicit ByteReader(File file) : file_(std::move(file)), buffer_(std::size_t{1} << 16U) {}
  bool fill();

  File file_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint64_t lines_ = 0;
  std::uint64_t bytes_read_ = 0;
  std::optional<Error> error_;
};

}  // namespace incipit::api
