// SPDX-License-Identifier: Apache-2.0
#include "store/state_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "incipit/kv.h"

namespace incipit::store {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExtension = ".safetensors";
constexpr std::string_view kDraft = ".draft";
constexpr std::string_view kBad = ".bad";
constexpr std::string_view kBadState = ".safetensors.bad";
constexpr std::size_t kBadMax = 16;

// A name that this folder gives: an id and an ending. Files of other names are somebody else's
// and are never touched.
bool is_own(std::string_view name, std::string_view ending) {
  constexpr std::size_t kIdDigits = 64;
  return name.size() == kIdDigits + ending.size() && name.ends_with(ending) &&
         name.substr(0, kIdDigits).find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// The files of a folder by their time, the oldest first. A clock that jumped costs order only.
Result<std::vector<fs::path>> files_by_time(const std::string& folder) {
  std::error_code code;
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code)) {
    std::error_code gone;
    const auto time = fs::last_write_time(it->path(), gone);
    if (!gone && it->is_regular_file(gone)) files.emplace_back(time, it->path());
  }
  if (code)
    return failure(ErrorCode::kUnavailable,
                   "cannot read the folder " + folder + ": " + code.message());
  std::ranges::sort(files);
  std::vector<fs::path> paths;
  for (auto& [time, path] : files) paths.push_back(std::move(path));
  return paths;
}

}  // namespace

Result<std::unique_ptr<StateFolder>> StateFolder::open(FolderOptions options) {
  std::unique_ptr<StateFolder> folder(new StateFolder(std::move(options)));
  std::error_code ignored;
  const bool is_there = fs::exists(folder->options_.path, ignored);
  INCIPIT_TRY_VOID(make_directories(folder->options_.path));
  if (!is_there) ::chmod(folder->options_.path.c_str(), S_IRWXU);
  INCIPIT_TRY_VOID(folder->lock());
  INCIPIT_TRY_VOID(folder->scan());
  return folder;
}

Result<void> StateFolder::lock() {
  const std::string path = options_.path + "/lock";
  INCIPIT_TRY(File file, File::open_update(path));
  if (::flock(file.descriptor(), LOCK_EX | LOCK_NB) != 0) {
    std::string owner(20, ' ');
    const auto count = file.read_at(std::as_writable_bytes(std::span(owner)), 0);
    owner.resize(count ? *count : 0);
    return failure(ErrorCode::kUnavailable, options_.path + " belongs to the running process " +
                                                owner + "; give this one another folder");
  }
  INCIPIT_TRY_VOID(file.truncate(0));
  INCIPIT_TRY_VOID(file.write_at(std::to_string(::getpid()), 0));
  lock_ = std::move(file);
  return {};
}

Result<void> StateFolder::scan() {
  INCIPIT_TRY(const auto files, files_by_time(options_.path));
  std::vector<fs::path> bad;
  for (const fs::path& file : files) {
    const std::string name = file.filename();
    std::error_code ignored;
    if (is_own(name, kDraft)) fs::remove(file, ignored);  // Of a process that died over it.
    if (is_own(name, kBadState)) bad.push_back(file);
    if (is_own(name, kExtension)) take_in(name);
  }
  for (std::size_t i = 0; i + kBadMax < bad.size(); ++i) {
    std::error_code ignored;
    fs::remove(bad[i], ignored);
  }
  make_room(0);
  return {};
}

void StateFolder::take_in(const std::string& name) {
  const std::string path = options_.path + "/" + name;
  auto facts = read_state_facts(path);
  std::error_code gone;
  const std::uint64_t size = fs::file_size(path, gone);
  if (!facts && facts.error().code == ErrorCode::kCorruption)
    return set_aside(path, facts.error().message);
  if (gone) return;
  std::string other;
  if (!facts)
    other = facts.error().message;
  else if (facts->fingerprint != options_.fingerprint)
    other = path + ": is of another model, precision, instruction level or version";
  if (!other.empty()) {
    say(other + "; it is not used");
    strangers_.emplace_back(path, size);
    bytes_ += size;
    return;
  }
  if (name != facts->id + std::string(kExtension))
    return set_aside(path, path + ": its name is not its id");
  bytes_ += size;
  const std::string id = facts->id;
  entries_.insert_or_assign(id, FolderEntry{std::move(*facts), ++clock_});
  by_use_.emplace(clock_, id);
}

void StateFolder::set_aside(const std::string& path, const std::string& why) {
  say(why + "; it was set aside as " + path + std::string(kBad));
  if (std::rename(path.c_str(), (path + std::string(kBad)).c_str()) != 0) ::unlink(path.c_str());
}

std::string StateFolder::path_of(const std::string& id) const {
  return options_.path + "/" + id + std::string(kExtension);
}

std::vector<const StateFacts*> StateFolder::entries() const {
  std::vector<const StateFacts*> facts;
  for (const auto& [id, entry] : entries_) facts.push_back(&entry.facts);
  std::ranges::stable_sort(facts, {}, &StateFacts::begin);
  return facts;
}

// Leaves `bytes` free below the capacity: strangers go first, then what was not used longest.
void StateFolder::make_room(std::uint64_t bytes) {
  while (bytes_ + bytes > options_.bytes_max && !strangers_.empty()) {
    ::unlink(strangers_.front().first.c_str());
    bytes_ -= strangers_.front().second;
    strangers_.erase(strangers_.begin());
  }
  while (bytes_ + bytes > options_.bytes_max && !by_use_.empty())
    erase(std::string(by_use_.begin()->second));
}

Result<std::string> StateFolder::write(StateFacts facts, std::span<const std::byte> cells) {
  facts.fingerprint = options_.fingerprint;
  const std::string id = state_id(facts);
  if (entries_.contains(id)) return id;
  // The header is far below this.
  const std::uint64_t most = cells.size() + facts.tokens.size() * sizeof(Token) + 4096;
  if (most > options_.bytes_max)
    return failure(ErrorCode::kResourceExhausted, "a state of " + std::to_string(cells.size()) +
                                                      " bytes is beyond the folder's " +
                                                      std::to_string(options_.bytes_max));
  make_room(most);
  const std::string path = path_of(id);
  const std::string draft = options_.path + "/" + id + std::string(kDraft);
  auto written = write_state(draft, facts, cells);
  if (written && std::rename(draft.c_str(), path.c_str()) != 0)
    written = failure(ErrorCode::kResourceExhausted,
                      "cannot rename " + draft + ": " + std::strerror(errno));
  if (!written) {
    ::unlink(draft.c_str());
    if (!std::exchange(has_complained_, true))
      say(written.error().message + "; going on without new files");
    return std::unexpected(written.error());
  }
  has_complained_ = false;
  // The name must be on the disk too; where that fails the state may be gone after a power cut.
  if (const int folder = ::open(options_.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
      folder >= 0) {
    ::fsync(folder);
    ::close(folder);
  }
  bytes_ += facts.file_bytes();
  entries_.insert_or_assign(id, FolderEntry{std::move(facts), ++clock_});
  by_use_.emplace(clock_, id);
  return id;
}

Result<std::vector<std::byte>> StateFolder::read(const std::string& id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return failure(ErrorCode::kUnavailable, "the state is gone");
  const std::string path = path_of(id);
  auto cells = read_state_cells(path, found->second.facts);
  if (cells) return cells;
  std::error_code ignored;
  if (cells.error().code == ErrorCode::kCorruption) {
    set_aside(path, cells.error().message);
    erase(id);
  } else {
    // Out of descriptors, say: the next time may go well. Only what is gone is forgotten.
    cells.error().code = ErrorCode::kUnavailable;
    if (!fs::exists(path, ignored) && !ignored) erase(id);
  }
  return cells;
}

void StateFolder::touch(const std::string& id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  by_use_.erase({found->second.use, id});
  found->second.use = ++clock_;
  by_use_.emplace(clock_, id);
  // The order survives a restart in the files' times.
  ::utimensat(AT_FDCWD, path_of(id).c_str(), nullptr, 0);
}

void StateFolder::erase(const std::string& id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  ::unlink(path_of(id).c_str());
  bytes_ -= found->second.facts.file_bytes();
  by_use_.erase({found->second.use, id});
  entries_.erase(found);
}

}  // namespace incipit::store

namespace incipit {

Result<std::vector<KvState>> list_kv_folder(const std::string& folder) {
  INCIPIT_TRY(const auto files, store::files_by_time(folder));
  std::vector<KvState> states;
  for (const auto& file : files) {
    if (file.extension() != store::kExtension) continue;
    const auto facts = store::read_state_facts(file);
    if (!facts) {
      KvState broken;
      broken.problem = facts.error().message;
      states.push_back(std::move(broken));
      continue;
    }
    states.push_back({.id = facts->id,
                      .fingerprint = facts->fingerprint,
                      .tenant = facts->tenant,
                      .begin = facts->begin,
                      .end = facts->tokens.size(),
                      .bytes = facts->file_bytes(),
                      .problem = {}});
  }
  return states;
}

}  // namespace incipit
