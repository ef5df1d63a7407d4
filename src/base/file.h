// SPDX-License-Identifier: Apache-2.0
//
// Files that close themselves, whole-file reads with a limit, and writes that are never half done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "incipit/result.h"

namespace incipit {

// Owns a file descriptor. Move-only. Errors name the file and the system's reason; a full disk
// and a closed pipe are kResourceExhausted, a file that is missing or unreadable is
// kInvalidArgument.
class File {
 public:
  static Result<File> open_read(const std::string& path);
  static Result<File> create(const std::string& path);       // Truncates what is there.
  static Result<File> open_append(const std::string& path);  // Creates what is not there.
  static Result<File> open_update(const std::string& path);  // Reads and writes; creates.
  // A file without a name in `directory`, for reading and writing; gone when it is closed.
  static Result<File> temporary(const std::string& directory);
  // Borrows an open descriptor, such as standard output, and leaves it open.
  static File borrow(int descriptor, std::string name);

  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  // Reads up to bytes.size() bytes; 0 at the end.
  Result<std::size_t> read(std::span<std::byte> bytes) const;
  Result<void> write(std::string_view bytes) const;
  // The same at a place, for files that are not pipes. read_at() fills `bytes` unless the file
  // ends before.
  Result<std::size_t> read_at(std::span<std::byte> bytes, std::uint64_t offset) const;
  Result<void> write_at(std::string_view bytes, std::uint64_t offset) const;
  Result<void> sync() const;
  [[nodiscard]] Result<std::uint64_t> size() const;
  Result<void> truncate(std::uint64_t size) const;
  // Closes and reports what the system held back until then.
  Result<void> close();
  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  File(int descriptor, std::string path, bool owned)
      : descriptor_(descriptor), path_(std::move(path)), owned_(owned) {}

  int descriptor_ = -1;
  std::string path_;
  bool owned_ = true;
};

// Reads a whole file. Errors: kInvalidArgument if it is missing or larger than `bytes_max`.
Result<std::string> read_file(const std::string& path, std::size_t bytes_max);

// Writes aside, syncs, renames: readers see the old file or the new one, never a part. Of several
// writers at a time, in whatever threads and processes, the last one's file stays. A device,
// a pipe or a link is written in place instead, because a rename would replace it.
Result<void> write_file(const std::string& path, std::string_view bytes);

// A device, a pipe or a link such as /dev/stdout stands there: nothing may be renamed over it.
[[nodiscard]] bool must_stay(const std::string& path);

// Makes a directory and its parents.
Result<void> make_directories(const std::string& path);

}  // namespace incipit
