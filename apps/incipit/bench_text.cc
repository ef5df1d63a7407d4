// SPDX-License-Identifier: Apache-2.0
#include "incipit/bench_text.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <system_error>

#include "base/file.h"

namespace incipit::app {
namespace {

constexpr std::size_t kBytesMax = std::size_t{64} << 20U;

}  // namespace

void add_text_flag(CLI::App& app, std::vector<std::string>& paths) {
  app.add_option("text", paths, "Files, or folders of .md files.")
      ->type_name("PATH")
      ->capture_default_str();
}

Result<std::string> text_of(const std::vector<std::string>& paths) {
  namespace fs = std::filesystem;
  std::string text;
  for (const std::string& path : paths) {
    std::error_code problem;
    std::vector<std::string> files;
    if (fs::is_directory(path, problem)) {
      for (fs::recursive_directory_iterator entry(path, problem), end; entry != end;
           entry.increment(problem)) {
        if (entry->path().extension() == ".md") files.push_back(entry->path().string());
      }
      std::ranges::sort(files);
    } else {
      files.push_back(path);
    }
    for (const std::string& file : files) {
      INCIPIT_TRY(const std::string content, read_file(file, kBytesMax));
      text += content;
      text += '\n';
    }
  }
  if (text.empty())
    return failure(ErrorCode::kInvalidArgument, "there is no text in the files that were named");
  return text;
}

}  // namespace incipit::app
