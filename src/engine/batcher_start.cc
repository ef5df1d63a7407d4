// SPDX-License-Identifier: Apache-2.0
//
// Which job of a batcher starts, when, and what it need not compute.
#include <algorithm>
#include <set>
#include <utility>

#include "engine/batcher.h"

namespace incipit::engine {
namespace {

std::size_t agreeing(TokenSpan a, TokenSpan b) {
  const auto [end, unused] = std::ranges::mismatch(a, b);
  return static_cast<std::size_t>(end - a.begin());
}

// Most tokens that a job may take from the cache, or from another one.
std::size_t shared_most(const Job& job) {
  const std::size_t limit =
      std::min(job.opening, job.tokens.size() - std::max<std::size_t>(job.logits_rows, 1));
  return job.window.cells > 0 ? std::min(limit, job.window.cells) : limit;
}

}  // namespace

// Rows that a tenant's jobs were given. One that comes anew begins with the least of the others:
// it may neither claim what it left unused nor wait for what it never had.
std::uint64_t& Batcher::served(const std::string& tenant) {
  const auto found = served_.find(tenant);
  if (found != served_.end()) return found->second;
  std::set<std::string> present;
  for (const auto& task : waiting_) present.insert(task->job.tenant);
  for (const auto& task : running_) present.insert(task->job.tenant);
  std::erase_if(served_, [&](const auto& entry) { return !present.contains(entry.first); });
  std::uint64_t least = 0;
  for (const auto& [other, rows] : served_) least = least == 0 ? rows : std::min(least, rows);
  return served_.emplace(tenant, least).first->second;
}

// Starts what may start: of each tenant in the order of arrival, the least served first.
void Batcher::start_waiting() {
  std::set<JobId> held;  // Wait for another job in this round.
  while (running_.size() < limits_.jobs_max) {
    Task* next = nullptr;
    for (const auto& task : waiting_) {
      if (held.contains(task->id)) continue;
      if (next == nullptr || served(task->job.tenant) < served(next->job.tenant)) next = task.get();
    }
    if (next == nullptr || !has_room_for(*next)) return;
    if (!start(*next)) {
      held.insert(next->id);
      continue;
    }
    const auto place = std::ranges::find(waiting_, next->id, &Task::id);
    running_.push_back(std::move(*place));
    waiting_.erase(place);
    if (!next->sequence.is_open()) {
      finish(*next, Error{ErrorCode::kInternal, "the runtime gave no sequence"});
      continue;
    }
    std::ranges::sort(running_, {}, &Task::id);
  }
}

// Whether the cells would hold the job's own tokens beside those that run. It is not held up for
// tokens that it may share: how many there are, starting tells.
bool Batcher::has_room_for(const Task& next) {
  if (running_.empty()) return true;
  const std::size_t size = next.job.tokens.size();
  std::size_t cells = runtime_.limits().fork_cells + size - std::min(next.job.opening, size) +
                      cells_below(next.job);
  for (const auto& task : running_)
    cells += std::min(task->left(), room(*task)) + cells_below(task->job);
  return cache_.make_room(cells);
}

// False if the job has to wait for another one.
bool Batcher::start(Task& task) {
  if (task.waits_for != 0) {
    const Task* other = running(task.waits_for);
    if (other != nullptr && !other->lease.was_dropped() && other->exact_end >= task.waits_until &&
        other->computed() < task.waits_until)
      return false;
    task.waits_for = 0;
  }
  const std::size_t limit = shared_most(task.job);
  const kv::Wanted wanted{.tenant = task.job.tenant, .tokens = task.job.tokens, .limit = limit};
  if (!task.job.reads_cache || limit == 0) {
    cache_.make_room(0);
    if (auto empty = model::Sequence::create(runtime_)) task.sequence = std::move(*empty);
    return true;
  }
  Task* best = nullptr;
  std::size_t shared = cache_.matched(wanted);
  for (const auto& other : running_) {
    if (shared == limit) break;
    if (other->job.tenant != task.job.tenant || !other->job.reads_cache) continue;
    if (other->lease.was_dropped()) continue;
    const std::size_t agree = std::min(
        agreeing(TokenSpan(task.job.tokens).first(limit), other->job.tokens), other->exact_end);
    if (agree <= shared) continue;
    shared = agree;
    best = other.get();
  }
  if (best != nullptr) {
    if (best->computed() < shared) {
      task.waits_for = best->id;
      task.waits_until = shared;
      return false;
    }
    if (auto fork = model::Sequence::fork(runtime_, best->sequence.id(), shared)) {
      task.sequence = std::move(*fork);
      task.lease = best->lease.share();
      task.report.lookup = {.tokens = task.job.tokens.size(),
                            .matched = shared,
                            .first_missing = shared,
                            .miss = shared == limit ? KvMiss::kNone : KvMiss::kNeverCached};
      task.report.shared = shared;
      task.unseen = std::min(best->unseen, shared);
      return true;
    }
  }
  auto lease = cache_.acquire(wanted);
  if (!lease) return true;
  task.report.lookup = lease->lookup;
  if (limits_.attention_check) task.unseen = lease->lookup.matched;
  task.sequence = std::move(lease->sequence);
  task.lease = std::move(*lease);
  return true;
}

}  // namespace incipit::engine
