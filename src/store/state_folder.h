// SPDX-License-Identifier: Apache-2.0
//
// A folder of KV states that survives restarts, crashes and full disks.
//
// One process owns the folder (a lock file, gone with the process however it ends). A state is
// written aside, synced and renamed, so it is there whole or not at all. At start the headers
// alone are read; what is damaged is set aside as NAME.bad, what another model or version wrote is
// named, not used, and the first to go when room is needed.
//
// Nothing here makes a caller fail: what cannot be written or read is an Error to count.
// Confined to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "incipit/result.h"
#include "store/state_file.h"

namespace incipit::store {

struct FolderOptions {
  std::string path;
  std::string fingerprint;      // Of the runtime that will use the states.
  std::uint64_t bytes_max = 0;  // Of all files together.
  std::function<void(const std::string&)> on_event{};
};

struct FolderEntry {
  StateFacts facts;
  std::uint64_t use = 0;  // Ascends with each use.
};

class StateFolder {
 public:
  // Makes the folder where it is missing. Errors: kUnavailable if another process owns it (names
  // it); what the system reports.
  static Result<std::unique_ptr<StateFolder>> open(FolderOptions options);
  StateFolder(const StateFolder&) = delete;
  StateFolder& operator=(const StateFolder&) = delete;

  // Usable states, those first that others stand on.
  [[nodiscard]] std::vector<const StateFacts*> entries() const;

  // Writes a state and returns its id; makes room first, the least lately used going first.
  // Errors: kResourceExhausted for one beyond the capacity or a full disk.
  Result<std::string> write(StateFacts facts, std::span<const std::byte> cells);
  // Errors: kUnavailable if it is gone; kCorruption if it is damaged, and then it is set aside.
  Result<std::vector<std::byte>> read(const std::string& id);
  void touch(const std::string& id);
  void erase(const std::string& id);
  [[nodiscard]] bool holds(const std::string& id) const { return entries_.contains(id); }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  explicit StateFolder(FolderOptions options) : options_(std::move(options)) {}
  Result<void> lock();
  Result<void> scan();
  void take_in(const std::string& name);
  void set_aside(const std::string& path, const std::string& why);
  void make_room(std::uint64_t bytes);
  [[nodiscard]] std::string path_of(const std::string& id) const;
  void say(const std::string& event) const {
    if (options_.on_event) options_.on_event(event);
  }

  FolderOptions options_;
  std::optional<File> lock_;
  std::map<std::string, FolderEntry> entries_;
  std::set<std::pair<std::uint64_t, std::string>> by_use_;
  std::vector<std::pair<std::string, std::uint64_t>> strangers_;  // Path and bytes.
  std::uint64_t bytes_ = 0;
  std::uint64_t clock_ = 0;  // Counts uses: the wall clock may jump.
  bool has_complained_ = false;
};

}  // namespace incipit::store
