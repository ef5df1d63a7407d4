// SPDX-License-Identifier: Apache-2.0
#include "model/model_cache.h"

#include <sys/stat.h>

#include <cstdlib>
#include <sstream>
#include <string_view>

#include "base/file.h"
#include "base/hash.h"

namespace incipit::model {
namespace {

bool is_sha256(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

std::string cache_home(const std::string& asked) {
  if (!asked.empty()) return asked;
  const auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  if (const std::string home = variable("INCIPIT_HOME"); !home.empty()) return home;
  if (const std::string xdg = variable("XDG_CACHE_HOME"); !xdg.empty()) return xdg + "/incipit";
  return variable("HOME") + "/.cache/incipit";
}

Result<std::string> remembered_sha256(const std::string& path, const std::string& home) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return sha256_of_file(path);  // Says why.
  std::ostringstream state;
  state << status.st_size << ' ' << status.st_mtim.tv_sec << '.' << status.st_mtim.tv_nsec;
  const std::string folder = home + "/hashes";
  const std::string memory =
      folder + "/" + std::to_string(status.st_dev) + "-" + std::to_string(status.st_ino);
  if (const auto known = read_file(memory, 4096)) {
    const std::size_t line_end = known->find('\n');
    const bool same = line_end != std::string::npos && known->substr(0, line_end) == state.str();
    if (same && is_sha256(known->substr(line_end + 1))) return known->substr(line_end + 1);
  }
  INCIPIT_TRY(std::string hash, sha256_of_file(path));
  INCIPIT_TRY_VOID(make_directories(folder));
  INCIPIT_TRY_VOID(write_file(memory, state.str() + "\n" + hash));
  return hash;
}

Result<std::string> prepared_folder(const std::string& home, const std::string& sha256) {
  std::string folder = home + "/prepared/" + sha256;
  INCIPIT_TRY_VOID(make_directories(folder));
  return folder;
}

}  // namespace incipit::model
