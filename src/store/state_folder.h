// SPDX-License-Identifier: Apache-2.0
//
// A folder of KV states that survives restarts, crashes and full disks.
//
// One process owns the folder (a lock file, gone with the process however it ends). A state is
// written aside, synced and renamed, so it is there whole or not at all; one thread does so
// (store/state_writer.h), one state after the other, while its owner goes on. At start the headers
// alone are read; what is damaged is set aside as NAME.bad, what another model or version wrote is
// named, not used. Both count, and go first when room is needed.
//
// What was not used longest goes next. Uses are counted, not timed: no clock decides, so none can
// mislead. A state's file says at which count it was written; the file kOrderName says at times,
// and at the end, which were used since.
//
// Nothing here makes a caller fail: what cannot be written or read is an Error to count.
// Confined to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "incipit/result.h"
#include "store/state_file.h"
#include "store/state_writer.h"

namespace incipit::store {

struct FoundFile;

inline constexpr std::string_view kOrderName = "incipit-kv-order";

struct FolderOptions {
  std::string path;
  std::string fingerprint;      // Of the runtime that will use the states.
  std::string parts{};          // What it hashes; see store/fingerprint_parts.h.
  std::uint64_t bytes_max = 0;  // Of all files together.
  std::function<void(const std::string&)> on_event{};
};

class StateFolder {
 public:
  // Makes the folder where it is missing. Errors: kUnavailable if another process owns it (names
  // it); what the system reports.
  static Result<std::unique_ptr<StateFolder>> open(FolderOptions options);
  // Does what was begun to be written, if finish() was called, and notes the order of uses.
  ~StateFolder();
  StateFolder(const StateFolder&) = delete;
  StateFolder& operator=(const StateFolder&) = delete;

  // Usable states, the least lately used first.
  [[nodiscard]] std::vector<const StateFacts*> entries() const;

  // Begins to write a state of which `cells_bytes` at least will come, piece by piece. Requires
  // that none is on its way. The least lately used go as room is needed.
  // Errors: kResourceExhausted for one beyond the capacity.
  Result<void> begin(StateFacts facts, std::uint64_t cells_bytes);
  // Whether another piece may be handed over: what waits for the disk is bounded.
  [[nodiscard]] bool takes_more() const;
  // Errors: as begin(), and the state is given up.
  Result<void> append(const CellPiece& piece);
  void finish();
  void abandon();
  // What became of the state on its way, once that is known. An error is said to the operator
  // once, until a state is written again.
  [[nodiscard]] std::optional<Result<StateFacts>> collect();
  [[nodiscard]] bool is_on_its_way() const { return on_its_way_.has_value(); }
  // Memory of what waits for the disk.
  [[nodiscard]] std::uint64_t waiting_bytes() const { return writer_.waiting_bytes(); }
  // Until all that was told is on the disk, or failed.
  void wait() { writer_.wait(); }

  // The cells of one piece. Errors: kUnavailable if the state is gone; kCorruption if it is
  // damaged, and then it is set aside.
  Result<std::vector<std::byte>> read(const std::string& id, std::size_t piece);
  void touch(const std::string& id);
  void erase(const std::string& id);
  [[nodiscard]] bool holds(const std::string& id) const { return entries_.contains(id); }
  // Null where it is gone; valid until the next call that is not const.
  [[nodiscard]] const StateFacts* find(const std::string& id) const;
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  // A file that is of no use and only waits to be removed.
  struct Useless {
    std::uint64_t use = 0;
    std::string path;
    std::uint64_t bytes = 0;
  };
  explicit StateFolder(FolderOptions options) : options_(std::move(options)) {}
  Result<void> lock();
  Result<void> scan();
  void take_in(FoundFile& file);
  void add(StateFacts facts);
  void remove(const std::string& id);
  void set_aside(const std::string& path, const std::string& why, std::uint64_t bytes);
  void remove_first(std::deque<Useless>& files);
  void make_room(std::uint64_t bytes);
  void note_order();
  [[nodiscard]] std::string path_of(const std::string& id) const;
  void say(const std::string& event) const {
    if (options_.on_event) options_.on_event(event);
  }

  FolderOptions options_;
  std::optional<File> lock_;
  std::map<std::string, StateFacts> entries_;  // Their `use` is that of the last one.
  std::set<std::pair<std::uint64_t, std::string>> by_use_;
  std::deque<Useless> bad_;                  // Set aside; the oldest first.
  std::deque<Useless> strangers_;            // Of another model or version.
  std::optional<std::uint64_t> on_its_way_;  // Bytes of its file so far.
  std::uint64_t bytes_ = 0;
  std::uint64_t clock_ = 0;  // Counts uses.
  std::size_t unnoted_uses_ = 0;
  bool has_complained_ = false;
  StateWriter writer_;  // Last: its work is done before the lock goes.
};

}  // namespace incipit::store
