// SPDX-License-Identifier: Apache-2.0
#include "store/folder_files.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/file.h"
#include "store/state_folder.h"

namespace incipit::store {
namespace {

namespace fs = std::filesystem;

// A larger count was written by no folder that anybody could have used so often.
constexpr std::uint64_t kUseMax = std::uint64_t{1} << 60U;
constexpr std::size_t kOrderBytesMax = std::size_t{64} << 20U;

bool is_own(std::string_view name, std::string_view ending) {
  constexpr std::size_t kIdDigits = 64;
  return name.size() == kIdDigits + ending.size() && name.ends_with(ending) &&
         name.substr(0, kIdDigits).find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::optional<FileKind> kind_of(const std::string& name, bool and_other_states) {
  const std::string state(kStateEnding);
  if (is_own(name, state) || (and_other_states && name.ends_with(state))) return FileKind::kState;
  if (is_own(name, state + std::string(kBadEnding))) return FileKind::kBad;
  if (is_own(name, state + std::string(kDraftEnding)) ||
      name == std::string(kOrderName) + std::string(kDraftEnding))
    return FileKind::kLeftover;
  return std::nullopt;
}

// Lines that are no order are passed over: what is lost is a little of the order.
std::map<std::string, std::uint64_t, std::less<>> read_order(const std::string& folder) {
  std::map<std::string, std::uint64_t, std::less<>> uses;
  const auto text = read_file(folder + "/" + std::string(kOrderName), kOrderBytesMax);
  std::string_view rest = text ? std::string_view(*text) : std::string_view();
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    std::uint64_t use = 0;
    const auto [end, code] = std::from_chars(line.data(), line.data() + line.size(), use);
    const auto digits = static_cast<std::size_t>(end - line.data());
    if (code != std::errc() || digits >= line.size() || line[digits] != ' ') continue;
    uses.insert_or_assign(std::string(line.substr(digits + 1)), use);
  }
  return uses;
}

}  // namespace

std::string order_line(std::uint64_t use, std::string_view name) {
  return std::to_string(use) + " " + std::string(name) + "\n";
}

Result<std::vector<FoundFile>> folder_files(const std::string& folder, bool and_other_states) {
  const auto order = read_order(folder);
  std::error_code code;
  std::vector<std::pair<fs::file_time_type, FoundFile>> files;
  for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code)) {
    const std::string name = it->path().filename();
    const auto kind = kind_of(name, and_other_states);
    std::error_code gone;
    // Not through links: what they point to is somebody else's.
    if (!kind || !fs::is_regular_file(it->symlink_status(gone)) || gone) continue;
    const auto time = fs::last_write_time(it->path(), gone);
    FoundFile file{.kind = *kind, .path = it->path(), .name = name};
    file.bytes = fs::file_size(it->path(), gone);
    if (gone) continue;
    if (file.kind == FileKind::kState) file.facts = read_state_facts(file.path);
    const std::uint64_t written = file.facts ? file.facts->use : 0;
    const auto noted = order.find(name);
    file.use = std::max(written, noted == order.end() ? 0 : noted->second);
    if (file.use > kUseMax) file.use = 0;
    files.emplace_back(time, std::move(file));
  }
  if (code)
    return failure(ErrorCode::kUnavailable,
                   "cannot read the folder " + folder + ": " + code.message());
  std::ranges::sort(files, {}, [](const auto& file) {
    return std::tie(file.second.use, file.first, file.second.name);
  });
  std::vector<FoundFile> found;
  for (auto& [time, file] : files) found.push_back(std::move(file));
  return found;
}

}  // namespace incipit::store
