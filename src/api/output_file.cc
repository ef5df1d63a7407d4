// SPDX-License-Identifier: Apache-2.0
#include "api/output_file.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

namespace incipit::api {

bool OutputFile::is_stream(const std::string& path) {
  if (path == "-") return true;
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) return true;
  // /dev/stdout and its like, which a rename would replace, also where they lead to a plain file.
  const bool is_of_system = path.starts_with("/dev/") || path.starts_with("/proc/");
  return is_of_system &&
         std::filesystem::is_symlink(std::filesystem::symlink_status(path, ignored));
}

bool OutputFile::is_same_file(const std::string& a, const std::string& b) {
  std::error_code ignored;
  return a != "-" && b != "-" && std::filesystem::equivalent(a, b, ignored) && !ignored;
}

std::string OutputFile::directory_of(const std::string& path) {
  std::error_code ignored;
  if (is_stream(path)) return std::filesystem::temp_directory_path(ignored).string();
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

Result<OutputFile> OutputFile::open(const std::string& path) {
  if (path == "-") return OutputFile(File::borrow(STDOUT_FILENO, "standard output"), path, true);
  const bool stream = is_stream(path);
  // Not truncated: /dev/stdout may lead to a file that the user appends to.
  INCIPIT_TRY(File file, stream ? File::open_append(path) : File::create(part_path(path)));
  return OutputFile(std::move(file), path, stream);
}

Result<void> OutputFile::finish() {
  if (is_stream_) return file_.close();
  INCIPIT_TRY_VOID(file_.sync());
  INCIPIT_TRY_VOID(file_.close());
  std::error_code code;
  std::filesystem::rename(part_path(path_), path_, code);
  if (code) {
    return failure(ErrorCode::kResourceExhausted,
                   "cannot rename " + part_path(path_) + " to " + path_ + ": " + code.message());
  }
  return {};
}

}  // namespace incipit::api
