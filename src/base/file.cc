// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/counted.h"

namespace incipit {
namespace {

std::unexpected<Error> system_failure(std::string_view verb, const std::string& path, int number) {
  const bool no_room = number == ENOSPC || number == EDQUOT || number == EPIPE || number == EFBIG;
  std::string message =
      "cannot " + std::string(verb) + " " + path + ": " + std::generic_category().message(number);
  return failure(no_room ? ErrorCode::kResourceExhausted : ErrorCode::kInvalidArgument,
                 std::move(message));
}

}  // namespace

Result<File> File::open_read(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return system_failure("read", path, errno);
  struct stat status{};
  if (::fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode)) {
    ::close(descriptor);
    return system_failure("read", path, EISDIR);
  }
  return File(descriptor, path, true);
}

Result<File> File::create(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) return system_failure("write", path, errno);
  return File(descriptor, path, true);
}

Result<File> File::open_append(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor < 0) return system_failure("write", path, errno);
  return File(descriptor, path, true);
}

Result<File> File::open_update(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) return system_failure("write", path, errno);
  return File(descriptor, path, true);
}

Result<File> File::temporary(const std::string& directory) {
  std::string path = directory + "/incipit-XXXXXX";
  const int descriptor = ::mkostemp(path.data(), O_CLOEXEC);
  if (descriptor < 0) return system_failure("make a temporary file in", directory, errno);
  ::unlink(path.c_str());
  return File(descriptor, path, true);
}

File File::borrow(int descriptor, std::string name) { return {descriptor, std::move(name), false}; }

File::File(File&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      path_(std::move(other.path_)),
      owned_(other.owned_) {}

File& File::operator=(File&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(path_, other.path_);
  std::swap(owned_, other.owned_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0 && owned_) ::close(descriptor_);
}

Result<std::size_t> File::read(std::span<std::byte> bytes) const {
  while (true) {
    const ssize_t count = ::read(descriptor_, bytes.data(), bytes.size());
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno != EINTR) return system_failure("read", path_, errno);
  }
}

Result<void> File::write(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_failure("write", path_, errno);
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

Result<std::size_t> File::read_at(std::span<std::byte> bytes, std::uint64_t offset) const {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::pread(descriptor_, bytes.data() + done, bytes.size() - done,
                                  static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_failure("read", path_, errno);
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return done;
}

Result<void> File::write_at(std::string_view bytes, std::uint64_t offset) const {
  while (!bytes.empty()) {
    const ssize_t count =
        ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_failure("write", path_, errno);
    bytes.remove_prefix(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return {};
}

Result<void> File::sync() const {
  if (::fsync(descriptor_) != 0 && errno != EINVAL && errno != EROFS) {
    return system_failure("write", path_, errno);
  }
  return {};
}

Result<std::uint64_t> File::size() const {
  struct stat status{};
  if (::fstat(descriptor_, &status) != 0) return system_failure("read", path_, errno);
  return static_cast<std::uint64_t>(status.st_size);
}

Result<void> File::truncate(std::uint64_t size) const {
  if (::ftruncate(descriptor_, static_cast<off_t>(size)) != 0) {
    return system_failure("write", path_, errno);
  }
  return {};
}

Result<void> File::close() {
  const int descriptor = std::exchange(descriptor_, -1);
  if (owned_ && descriptor >= 0 && ::close(descriptor) != 0) {
    return system_failure("write", path_, errno);
  }
  return {};
}

Result<std::string> read_file(const std::string& path, std::size_t bytes_max) {
  INCIPIT_TRY(const File file, File::open_read(path));
  std::string content;
  std::array<char, 1 << 16> buffer{};
  while (true) {
    INCIPIT_TRY(const std::size_t count, file.read(std::as_writable_bytes(std::span(buffer))));
    if (count == 0) return content;
    content.append(buffer.data(), count);
    if (content.size() > bytes_max) {
      return failure(ErrorCode::kInvalidArgument,
                     path + " is larger than " + counted(bytes_max, "byte"));
    }
  }
}

bool must_stay(const std::string& path) {
  std::error_code ignored;
  const auto status = std::filesystem::symlink_status(path, ignored);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
}

namespace {

// Makes an empty file beside `path` that nobody else writes to: no other thread, no other process,
// and none that died with the same number. Returns its name.
Result<std::string> reserve_aside(const std::string& path) {
  static std::atomic<std::uint64_t> next = 0;
  while (true) {
    std::string aside = path + ".tmp" + std::to_string(::getpid()) + "-" + std::to_string(next++);
    const int descriptor = ::open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (descriptor >= 0) {
      ::close(descriptor);
      return aside;
    }
    if (errno != EEXIST) return system_failure("write", aside, errno);
  }
}

Result<void> write_in_place(const std::string& path, std::string_view bytes) {
  INCIPIT_TRY(File file, File::create(path));
  INCIPIT_TRY_VOID(file.write(bytes));
  return file.close();
}

}  // namespace

Result<void> write_file(const std::string& path, std::string_view bytes) {
  if (must_stay(path)) return write_in_place(path, bytes);
  INCIPIT_TRY(const std::string aside, reserve_aside(path));
  const auto write_aside = [&]() -> Result<void> {
    INCIPIT_TRY(File file, File::create(aside));
    INCIPIT_TRY_VOID(file.write(bytes));
    INCIPIT_TRY_VOID(file.sync());
    INCIPIT_TRY_VOID(file.close());
    if (std::rename(aside.c_str(), path.c_str()) != 0) return system_failure("write", path, errno);
    return {};
  };
  auto written = write_aside();
  if (!written) ::unlink(aside.c_str());
  return written;
}

Result<void> make_directories(const std::string& path) {
  std::error_code code;
  std::filesystem::create_directories(path, code);
  if (code) {
    return failure(ErrorCode::kInvalidArgument,
                   "cannot make the directory " + path + ": " + code.message());
  }
  return {};
}

}  // namespace incipit
