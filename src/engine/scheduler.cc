// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler.h"

#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "base/counted.h"

namespace incipit::engine {
namespace {

// Tells the scheduler when a job is over, before its caller hears of it: whoever was told may
// submit the next one.
class CountedReader final : public RowReader {
 public:
  CountedReader(std::unique_ptr<RowReader> reader, std::function<void()> on_finish)
      : reader_(std::move(reader)), on_finish_(std::move(on_finish)) {}

  Result<std::optional<Token>> read(const model::Logits& logits, std::size_t first_row,
                                    std::size_t rows) override {
    return reader_->read(logits, first_row, rows);
  }
  void finish(Result<JobReport> report) override {
    on_finish_();
    reader_->finish(std::move(report));
  }

 private:
  std::unique_ptr<RowReader> reader_;
  std::function<void()> on_finish_;
};

}  // namespace

Scheduler::Scheduler(model::Runtime& runtime, kv::PrefixCache& cache, BatcherLimits limits,
                     std::size_t queue_max, kv::FragmentCache* fragments)
    : cache_(cache),
      queue_max_(queue_max),
      batcher_(runtime, cache, limits, fragments),
      thread_([this](const std::stop_token& stop) { loop(stop); }) {}

Scheduler::~Scheduler() {
  thread_.request_stop();
  thread_.join();
}

void Scheduler::push(Order order) {
  {
    const std::scoped_lock lock(mutex_);
    orders_.push_back(std::move(order));
  }
  changed_.notify_one();
}

Result<Batcher::JobId> Scheduler::submit(Job job) {
  job.reader = std::make_unique<CountedReader>(std::move(job.reader), [this] {
    const std::scoped_lock lock(mutex_);
    --unfinished_;
  });
  Batcher::JobId id = 0;
  {
    const std::scoped_lock lock(mutex_);
    if (unfinished_ >= queue_max_) {
      return failure(
          ErrorCode::kResourceExhausted,
          "the queue is full: " + counted(unfinished_, "request") + " waiting or running");
    }
    ++unfinished_;
    id = next_id_++;
    orders_.emplace_back(
        [id, job = std::move(job)](Batcher& batcher) mutable { batcher.add(id, std::move(job)); });
  }
  changed_.notify_one();
  return id;
}

void Scheduler::cancel(Batcher::JobId id) {
  push([id](Batcher& batcher) { batcher.cancel(id); });
}

void Scheduler::inspect(const std::function<void(kv::PrefixCache&, const BatcherCounters&)>& act) {
  std::promise<void> done;
  push([&](Batcher& batcher) {
    act(cache_, batcher.counters());
    done.set_value();
  });
  done.get_future().wait();
}

void Scheduler::loop(const std::stop_token& stop) {
  bool is_busy = false;
  while (!stop.stop_requested()) {
    std::vector<Order> orders;
    {
      std::unique_lock lock(mutex_);
      if (!is_busy) changed_.wait(lock, stop, [this] { return !orders_.empty(); });
      orders.swap(orders_);
    }
    for (Order& order : orders) order(batcher_);
    is_busy = batcher_.step() || cache_.write_behind();
  }
  // Orders that came too late still have a caller that waits.
  std::vector<Order> rest;
  {
    const std::scoped_lock lock(mutex_);
    rest.swap(orders_);
  }
  for (Order& order : rest) order(batcher_);
  batcher_.cancel_all();
  while (cache_.write_behind()) {
  }
}

}  // namespace incipit::engine
