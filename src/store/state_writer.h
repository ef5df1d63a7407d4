// SPDX-License-Identifier: Apache-2.0
//
// The one place that changes a folder of KV states while it is in use: a thread that does what it
// is told, in order.
//
// A state is handed over piece by piece; hashing, writing, syncing and renaming happen here, so
// that whoever computes goes on. What was told and is not done yet is counted in bytes: the caller
// looks before it hands over more. A state that fails is given up, what was told of it is
// dropped, and the next begins afresh. Where the disk hangs, this thread hangs, and nobody else.
//
// Its verbs are for one thread; the work happens on its own.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "incipit/result.h"
#include "store/state_file.h"

namespace incipit::store {

class StateWriter {
 public:
  StateWriter();
  // Does what it was told, gives up a state that was not finished, and ends.
  ~StateWriter();
  StateWriter(const StateWriter&) = delete;
  StateWriter& operator=(const StateWriter&) = delete;

  // One state at a time: begin() follows finish() and its outcome, or abandon().
  void begin(std::string path, StateFacts facts);
  void append(CellPiece piece);
  void finish();
  void abandon();
  void erase(std::string path);
  // Replaces a small file whose loss does no harm: it is renamed, and not synced.
  void replace(std::string path, std::string text);

  // What became of the state: once, after finish() or, where it failed, before.
  [[nodiscard]] std::optional<Result<StateFacts>> outcome();
  [[nodiscard]] std::uint64_t waiting_bytes() const;
  [[nodiscard]] bool is_idle() const;
  // Until everything is done.
  void wait();

 private:
  struct Order {
    std::uint64_t bytes = 0;
    std::move_only_function<void()> act;
  };

  void tell(Order order);
  void loop(const std::stop_token& stop);
  void settle(std::uint64_t state, Result<StateFacts> outcome);

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::condition_variable_any done_;
  std::deque<Order> orders_;                   // Guarded by mutex_; the first is being done.
  std::uint64_t waiting_bytes_ = 0;            // Guarded by mutex_.
  std::uint64_t state_ = 0;                    // Guarded by mutex_: the one that outcome() is for.
  std::optional<Result<StateFacts>> outcome_;  // Guarded by mutex_.
  std::optional<StateDraft> draft_;            // Of the thread; none where it failed.
  std::jthread thread_;                        // Last: ends before what it uses.
};

}  // namespace incipit::store
