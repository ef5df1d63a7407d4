// SPDX-License-Identifier: Apache-2.0
#include "store/state_writer.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "base/file.h"

namespace incipit::store {

StateWriter::StateWriter() : thread_([this](const std::stop_token& stop) { loop(stop); }) {}

StateWriter::~StateWriter() {
  thread_.request_stop();
  thread_.join();
}

void StateWriter::tell(Order order) {
  {
    const std::scoped_lock lock(mutex_);
    waiting_bytes_ += order.bytes;
    orders_.push_back(std::move(order));
  }
  changed_.notify_one();
}

void StateWriter::loop(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return !orders_.empty(); })) {
    Order& first = orders_.front();
    lock.unlock();
    first.act();
    first.act = nullptr;  // What it held goes before anybody is told.
    lock.lock();
    waiting_bytes_ -= first.bytes;
    orders_.pop_front();
    if (orders_.empty()) done_.notify_all();
  }
}

void StateWriter::settle(std::uint64_t state, Result<StateFacts> outcome) {
  draft_.reset();
  const std::scoped_lock lock(mutex_);
  if (state == state_) outcome_ = std::move(outcome);
}

void StateWriter::begin(std::string path, StateFacts facts) {
  std::uint64_t state = 0;
  {
    const std::scoped_lock lock(mutex_);
    state = ++state_;
    outcome_.reset();
  }
  const std::uint64_t bytes = facts.tokens.size() * sizeof(Token);
  tell({.bytes = bytes,
        .act = [this, state, path = std::move(path), facts = std::move(facts)]() mutable {
          auto draft = StateDraft::create(path, std::move(facts));
          if (!draft) return settle(state, std::unexpected(std::move(draft).error()));
          draft_.emplace(std::move(*draft));
        }});
}

void StateWriter::append(CellPiece piece) {
  const std::uint64_t bytes = piece.cells->size();
  tell({.bytes = bytes, .act = [this, state = state_, piece = std::move(piece)] {
          if (!draft_) return;
          if (auto written = draft_->append(piece); !written)
            settle(state, std::unexpected(std::move(written).error()));
        }});
}

void StateWriter::finish() {
  tell({.bytes = 0, .act = [this, state = state_] {
          if (draft_) settle(state, draft_->finish());
        }});
}

void StateWriter::abandon() {
  {
    const std::scoped_lock lock(mutex_);
    ++state_;
    outcome_.reset();
  }
  tell({.bytes = 0, .act = [this] { draft_.reset(); }});
}

void StateWriter::erase(std::string path) {
  tell({.bytes = 0, .act = [path = std::move(path)] { ::unlink(path.c_str()); }});
}

void StateWriter::replace(std::string path, std::string text) {
  const std::uint64_t bytes = text.size();
  tell({.bytes = bytes, .act = [path = std::move(path), text = std::move(text)] {
          const std::string aside = path + std::string(kDraftEnding);
          const auto write = [&]() -> Result<void> {
            INCIPIT_TRY(File file, File::create(aside));
            INCIPIT_TRY_VOID(file.write(text));
            return file.close();
          };
          if (!write() || std::rename(aside.c_str(), path.c_str()) != 0) ::unlink(aside.c_str());
        }});
}

std::optional<Result<StateFacts>> StateWriter::outcome() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(outcome_, std::nullopt);
}

std::uint64_t StateWriter::waiting_bytes() const {
  const std::scoped_lock lock(mutex_);
  return waiting_bytes_;
}

bool StateWriter::is_idle() const {
  const std::scoped_lock lock(mutex_);
  return orders_.empty();
}

void StateWriter::wait() {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return orders_.empty(); });
}

}  // namespace incipit::store
