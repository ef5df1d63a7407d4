// SPDX-License-Identifier: Apache-2.0
//
// Where rows go: a stream as it is, or a file that appears under its name only when it is whole.
//
// A file is written as FILE.part and renamed by finish(). Standard output and whatever exists
// and is not a regular file (a pipe, a device) is written directly. Confined to one thread.
#pragma once

#include <string>
#include <string_view>

#include "base/file.h"

namespace incipit::api {

class OutputFile {
 public:
  static Result<OutputFile> open(const std::string& path);

  // True for a path that open() would write directly.
  static bool is_stream(const std::string& path);
  // True if both paths lead to one existing file.
  static bool is_same_file(const std::string& a, const std::string& b);
  static std::string part_path(const std::string& path) { return path + ".part"; }
  static std::string state_path(const std::string& path) { return path + ".state"; }
  // The directory for files that live beside `path`.
  static std::string directory_of(const std::string& path);

  // Errors: kResourceExhausted for a full disk or a closed pipe.
  Result<void> write(std::string_view bytes) { return file_.write(bytes); }
  // Makes the file durable and gives it its name.
  Result<void> finish();

 private:
  OutputFile(File file, std::string path, bool is_stream)
      : file_(std::move(file)), path_(std::move(path)), is_stream_(is_stream) {}

  File file_;
  std::string path_;
  bool is_stream_;
};

}  // namespace incipit::api
