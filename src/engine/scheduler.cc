// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler.h"

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "base/counted.h"

namespace incipit::engine {
namespace {

// How long an idle model waits for what its files' thread has done.
constexpr std::chrono::milliseconds kDiskPause{5};

// Holds its call's place in the queue until the job is over, and no longer: whoever is told of the
// end may submit the next one.
class CountedReader final : public RowReader {
 public:
  CountedReader(std::unique_ptr<RowReader> reader, std::shared_ptr<void> place)
      : reader_(std::move(reader)), place_(std::move(place)) {}

  Result<std::optional<Token>> read(const model::Logits& logits, std::size_t first_row,
                                    std::size_t rows) override {
    return reader_->read(logits, first_row, rows);
  }
  std::vector<decode::Branch> branches_below(std::size_t id) override {
    return reader_->branches_below(id);
  }
  void read_branch(std::size_t id, const model::Logits& logits, std::size_t first_row) override {
    reader_->read_branch(id, logits, first_row);
  }
  void finish(Result<JobReport> report) override {
    place_.reset();
    reader_->finish(std::move(report));
  }

 private:
  std::unique_ptr<RowReader> reader_;
  std::shared_ptr<void> place_;
};

}  // namespace

Scheduler::Scheduler(model::Runtime& runtime, kv::PrefixCache& cache, const BatcherLimits& limits,
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
  std::vector<Job> jobs;
  jobs.push_back(std::move(job));
  return submit(std::move(jobs));
}

Result<Batcher::JobId> Scheduler::submit(std::vector<Job> jobs) {
  Batcher::JobId first = 0;
  {
    const std::scoped_lock lock(mutex_);
    if (unfinished_ >= queue_max_) {
      return failure(
          ErrorCode::kResourceExhausted,
          "the queue is full: " + counted(unfinished_, "request") + " waiting or running");
    }
    ++unfinished_;
    first = next_id_;
    next_id_ += jobs.size();
  }
  std::shared_ptr<void> place(nullptr, [this](void*) {
    const std::scoped_lock lock(mutex_);
    --unfinished_;
  });
  for (Job& job : jobs) job.reader = std::make_unique<CountedReader>(std::move(job.reader), place);
  place.reset();
  push([first, jobs = std::move(jobs)](Batcher& batcher) mutable {
    for (std::size_t i = 0; i < jobs.size(); ++i) batcher.add(first + i, std::move(jobs[i]));
  });
  return first;
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
      const auto has_orders = [this] { return !orders_.empty(); };
      if (!is_busy && cache_.is_writing())
        changed_.wait_for(lock, stop, kDiskPause, has_orders);
      else if (!is_busy)
        changed_.wait(lock, stop, has_orders);
      orders.swap(orders_);
    }
    for (Order& order : orders) order(batcher_);
    is_busy = batcher_.step();
    is_busy = cache_.write_behind() || is_busy;
  }
  // Orders that came too late still have a caller that waits.
  std::vector<Order> rest;
  {
    const std::scoped_lock lock(mutex_);
    rest.swap(orders_);
  }
  for (Order& order : rest) order(batcher_);
  batcher_.cancel_all();
  cache_.finish_writing();
}

}  // namespace incipit::engine
