// SPDX-License-Identifier: Apache-2.0
#include "store/state_folder.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <span>
#include <system_error>

#include "base/check.h"
#include "incipit/kv.h"
#include "store/fingerprint_parts.h"
#include "store/folder_files.h"

namespace incipit::store {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBadMax = 16;
// Memory that may wait for a slow disk; a piece that was begun below it is taken whole.
constexpr std::uint64_t kWaitingBytesMax = std::uint64_t{8} << 20U;
// So many uses may be forgotten when the process is killed.
constexpr std::size_t kUsesUnnotedMax = 256;

std::string name_of(const std::string& path) { return fs::path(path).filename(); }

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

StateFolder::~StateFolder() {
  if (lock_) note_order();
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
  INCIPIT_TRY(auto files, folder_files(options_.path, false));
  for (FoundFile& file : files) {
    clock_ = std::max(clock_, file.use);
    if (file.kind == FileKind::kLeftover) writer_.erase(file.path);
    if (file.kind == FileKind::kBad) {
      bad_.push_back({.use = file.use, .path = file.path, .bytes = file.bytes});
      bytes_ += file.bytes;
    }
  }
  for (FoundFile& file : files) {
    if (file.kind == FileKind::kState) take_in(file);
  }
  while (bad_.size() > kBadMax) remove_first(bad_);
  make_room(0);
  writer_.wait();
  return {};
}

void StateFolder::take_in(FoundFile& file) {
  auto& facts = file.facts;
  if (!facts && facts.error().code == ErrorCode::kCorruption)
    return set_aside(file.path, facts.error().message, file.bytes);
  std::string other;
  if (!facts)
    other = facts.error().message;
  else if (facts->fingerprint != options_.fingerprint)
    other = file.path + ": is " + difference(facts->parts, options_.parts);
  if (!other.empty()) {
    say(other + "; it is not used");
    strangers_.push_back({.use = file.use, .path = file.path, .bytes = file.bytes});
    bytes_ += file.bytes;
    return;
  }
  if (file.path != path_of(facts->id))
    return set_aside(file.path, file.path + ": its name is not its id", file.bytes);
  bytes_ += file.bytes;
  facts->use = file.use;
  add(std::move(*facts));
}

void StateFolder::add(StateFacts facts) {
  by_use_.emplace(facts.use, facts.id);
  const std::string id = facts.id;
  entries_.insert_or_assign(id, std::move(facts));
}

void StateFolder::remove(const std::string& id) {
  const auto found = entries_.find(id);
  bytes_ -= found->second.file_bytes;
  by_use_.erase({found->second.use, id});
  entries_.erase(found);
}

void StateFolder::set_aside(const std::string& path, const std::string& why, std::uint64_t bytes) {
  const std::string bad = path + std::string(kBadEnding);
  say(why + "; it was set aside as " + bad);
  const auto older = std::ranges::find(bad_, bad, &Useless::path);
  if (older != bad_.end()) {
    bytes_ -= older->bytes;
    bad_.erase(older);
  }
  if (std::rename(path.c_str(), bad.c_str()) != 0) {
    ::unlink(path.c_str());
    return;
  }
  bad_.push_back({.use = ++clock_, .path = bad, .bytes = bytes});
  bytes_ += bytes;
  if (bad_.size() > kBadMax) remove_first(bad_);
}

std::string StateFolder::path_of(const std::string& id) const {
  return options_.path + "/" + id + std::string(kStateEnding);
}

std::vector<const StateFacts*> StateFolder::entries() const {
  std::vector<const StateFacts*> facts;
  for (const auto& [use, id] : by_use_) facts.push_back(&entries_.at(id));
  return facts;
}

const StateFacts* StateFolder::find(const std::string& id) const {
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : &found->second;
}

void StateFolder::remove_first(std::deque<Useless>& files) {
  writer_.erase(files.front().path);
  bytes_ -= files.front().bytes;
  files.pop_front();
}

// Leaves `bytes` free below the capacity.
void StateFolder::make_room(std::uint64_t bytes) {
  const auto is_full = [&] { return bytes_ + bytes > options_.bytes_max; };
  while (is_full() && !bad_.empty()) remove_first(bad_);
  while (is_full() && !strangers_.empty()) remove_first(strangers_);
  while (is_full() && !by_use_.empty()) erase(std::string(by_use_.begin()->second));
}

Result<void> StateFolder::begin(StateFacts facts, std::uint64_t cells_bytes) {
  INCIPIT_CHECK(!on_its_way_, "a state was begun before the one before it was over");
  facts.fingerprint = options_.fingerprint;
  facts.parts = options_.parts;
  facts.use = ++clock_;
  facts.id = state_id(facts);
  const std::uint64_t beside = bytes_beside_pieces(facts);
  if (beside + cells_bytes > options_.bytes_max)
    return failure(ErrorCode::kResourceExhausted, "a state of " + std::to_string(cells_bytes) +
                                                      " bytes is beyond the folder's " +
                                                      std::to_string(options_.bytes_max));
  make_room(beside);
  bytes_ += beside;
  on_its_way_ = beside;
  const std::string path = path_of(facts.id);
  writer_.begin(path, std::move(facts));
  return {};
}

bool StateFolder::takes_more() const { return writer_.waiting_bytes() < kWaitingBytesMax; }

Result<void> StateFolder::append(const CellPiece& piece) {
  const std::uint64_t bytes = piece.cells->size() + kBytesBesideCells;
  if (*on_its_way_ + bytes > options_.bytes_max) {
    abandon();
    return failure(
        ErrorCode::kResourceExhausted,
        "a state is beyond the folder's " + std::to_string(options_.bytes_max) + " bytes");
  }
  make_room(bytes);
  *on_its_way_ += bytes;
  bytes_ += bytes;
  writer_.append(piece);
  return {};
}

void StateFolder::finish() { writer_.finish(); }

void StateFolder::abandon() {
  bytes_ -= *on_its_way_;
  on_its_way_.reset();
  writer_.abandon();
}

std::optional<Result<StateFacts>> StateFolder::collect() {
  auto outcome = writer_.outcome();
  if (!outcome) return std::nullopt;
  const std::uint64_t bytes = *on_its_way_;
  on_its_way_.reset();
  if (!*outcome) {
    bytes_ -= bytes;
    if (!std::exchange(has_complained_, true))
      say(outcome->error().message + "; going on without new files");
    return outcome;
  }
  INCIPIT_CHECK((*outcome)->file_bytes == bytes, "a file of other bytes than were counted");
  has_complained_ = false;
  if (entries_.contains((*outcome)->id)) remove((*outcome)->id);  // It was written over.
  (*outcome)->use = ++clock_;
  add(**outcome);
  return outcome;
}

Result<std::vector<std::byte>> StateFolder::read(const std::string& id, std::size_t piece) {
  const StateFacts* facts = find(id);
  if (facts == nullptr) return failure(ErrorCode::kUnavailable, "the state is gone");
  const std::string path = path_of(id);
  auto cells = read_state_piece(path, *facts, piece);
  if (cells) return cells;
  std::error_code ignored;
  if (cells.error().code == ErrorCode::kCorruption) {
    const std::uint64_t bytes = facts->file_bytes;
    remove(id);
    set_aside(path, cells.error().message, bytes);
  } else {
    // Out of descriptors, say: the next time may go well. Only what is gone is forgotten.
    cells.error().code = ErrorCode::kUnavailable;
    if (!fs::exists(path, ignored) && !ignored) remove(id);
  }
  return cells;
}

void StateFolder::touch(const std::string& id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  by_use_.erase({found->second.use, id});
  found->second.use = ++clock_;
  by_use_.emplace(clock_, id);
  if (++unnoted_uses_ > kUsesUnnotedMax + entries_.size() && writer_.is_idle()) note_order();
}

void StateFolder::erase(const std::string& id) {
  if (!entries_.contains(id)) return;
  writer_.erase(path_of(id));
  remove(id);
}

void StateFolder::note_order() {
  unnoted_uses_ = 0;
  std::string text;
  for (const auto& [use, id] : by_use_) text += order_line(use, id + std::string(kStateEnding));
  for (const auto* files : {&bad_, &strangers_})
    for (const Useless& file : *files) text += order_line(file.use, name_of(file.path));
  writer_.replace(options_.path + "/" + std::string(kOrderName), std::move(text));
}

}  // namespace incipit::store

namespace incipit {

Result<std::vector<KvState>> list_kv_folder(const std::string& folder) {
  INCIPIT_TRY(auto files, store::folder_files(folder, true));
  std::vector<KvState> states;
  for (store::FoundFile& file : files) {
    if (file.kind != store::FileKind::kState) continue;
    if (!file.facts) {
      KvState broken;
      broken.problem = file.facts.error().message;
      states.push_back(std::move(broken));
      continue;
    }
    states.push_back({.id = file.facts->id,
                      .fingerprint = file.facts->fingerprint,
                      .tenant = file.facts->tenant,
                      .begin = file.facts->begin,
                      .end = file.facts->tokens.size(),
                      .bytes = file.facts->file_bytes,
                      .problem = {}});
  }
  return states;
}

}  // namespace incipit
