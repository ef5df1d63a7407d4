// SPDX-License-Identifier: Apache-2.0
//
// The model's thread: takes jobs from any thread and runs them in common passes.
//
// Everything that touches the runtime, the cache and the batcher happens on this one thread, so
// none of them locks anything. Callers hand jobs over through a bounded queue and hear back
// through Job::reader, on the model's thread.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/batcher.h"
#include "incipit/result.h"
#include "kv/prefix_cache.h"
#include "model/runtime.h"

namespace incipit::engine {

class Scheduler {
 public:
  // Runtime and caches must outlive the scheduler, and belong to it as long as it lives.
  Scheduler(model::Runtime& runtime, kv::PrefixCache& cache, const BatcherLimits& limits,
            std::size_t queue_max, kv::FragmentCache* fragments = nullptr);
  // Cancels what is running.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Errors: kResourceExhausted if `queue_max` calls are unfinished. Thread-safe, like all below.
  Result<Batcher::JobId> submit(Job job);
  // Jobs of one call, which waits for all of them. Gives the id of the first; they ascend.
  Result<Batcher::JobId> submit(std::vector<Job> jobs);
  // Within one pass. A job that is over already is left in peace.
  void cancel(Batcher::JobId id);
  // Runs `act` on the model's thread between two passes and waits for it.
  void inspect(const std::function<void(kv::PrefixCache&, const BatcherCounters&)>& act);

 private:
  using Order = std::move_only_function<void(Batcher&)>;

  void push(Order order);
  void loop(const std::stop_token& stop);

  kv::PrefixCache& cache_;
  std::size_t queue_max_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<Order> orders_;   // Guarded by mutex_.
  std::size_t unfinished_ = 0;  // Calls; guarded by mutex_.
  Batcher::JobId next_id_ = 1;  // Guarded by mutex_.
  Batcher batcher_;             // Of the model's thread.
  std::jthread thread_;         // Last: ends before what it uses.
};

}  // namespace incipit::engine
