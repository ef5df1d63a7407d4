// SPDX-License-Identifier: Apache-2.0
//
// A directory of a test's own, removed with everything in it when the test ends.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace incipit::test {

class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "incipit-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] std::string path(const std::string& name) const { return path_ + "/" + name; }

  // Writes a file and returns its path.
  std::string file(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }

  [[nodiscard]] std::string read(const std::string& name) const {
    std::ifstream in(path(name), std::ios::binary);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
  }

  [[nodiscard]] bool has(const std::string& name) const {
    return std::filesystem::exists(path(name));
  }

 private:
  std::string path_;
};

// A path in a directory of this process. GoogleTest's own TempDir() is one for all processes, and
// ctest runs many tests of one binary, and of its sanitizer builds, side by side.
inline std::string scratch(const std::string& name) {
  static const TempDir directory;
  return directory.path(name);
}

}  // namespace incipit::test
