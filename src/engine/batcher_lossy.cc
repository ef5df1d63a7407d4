// SPDX-License-Identifier: Apache-2.0
//
// What a batcher does for jobs that asked for less than the law: windows and passages.
#include <algorithm>
#include <utility>

#include "engine/batcher.h"

namespace incipit::engine {
namespace {

bool fits(const Job& job) {
  std::size_t end = 0;
  for (const Passages::Range& range : job.passages.ranges) {
    if (range.begin < end || range.end <= range.begin) return false;
    end = range.end;
  }
  return job.window.cells == 0 && end <= job.tokens.size() - job.logits_rows;
}

}  // namespace

std::string Batcher::wrong_with(const Job& job) const {
  const model::Limits& limits = runtime_.limits();
  const bool slides = job.window.cells > 0;
  if (job.tokens.empty() || job.logits_rows > job.tokens.size())
    return "a prompt needs tokens, and logits rows that lie in it";
  if (slides && (job.window.sink >= job.window.cells || job.logits_rows != 1 ||
                 job.window.cells > limits.context_tokens || !limits.can_move))
    return "a window must hold more than its sink and fit into the context of a runtime that can "
           "move cells, and gives one row of logits";
  if (!slides && job.tokens.size() > limits.context_tokens)
    return "the prompt has " + std::to_string(job.tokens.size()) + " tokens, the context holds " +
           std::to_string(limits.context_tokens);
  if (!job.passages.ranges.empty() && !fits(job))
    return "passages must ascend, not overlap, end before the rows that are read, and go without a "
           "window";
  if (std::ranges::any_of(job.tokens, [&](Token token) {
        return token < 0 || static_cast<std::size_t>(token) >= limits.vocabulary;
      }))
    return "a token is not in the vocabulary";
  return "";
}

// Makes room in every window that is full. Errors: kResourceExhausted; a job that fails otherwise
// is finished with its error.
Result<void> Batcher::slide_windows() {
  std::vector<Task*> full;
  for (const auto& task : running_) {
    const std::size_t cells = task->job.window.cells;
    if (cells > 0 && task->sequence.length() >= cells) full.push_back(task.get());
  }
  for (Task* task : full) {
    auto slid = slide(*task);
    if (slid) continue;
    if (slid.error().code == ErrorCode::kResourceExhausted) return slid;
    finish(*task, std::move(slid).error());
  }
  return {};
}

Result<void> Batcher::slide(Task& task) {
  const Window& window = task.job.window;
  if (task.is_exact()) commit_prompt(task);
  task.lease = {};  // What it matched may go: the cells are about to become its own.
  INCIPIT_TRY_VOID(
      runtime_.slide(task.sequence.id(), {.sink = window.sink, .dropped = window.step()}));
  task.exact_end = 0;
  task.forgotten += window.step();
  task.report.forgotten = task.forgotten;
  ++counters_.slides;
  return {};
}

// The last moment at which the cells are those of their tokens. What is not of the prompt would be
// copied by the slide for nobody.
void Batcher::commit_prompt(const Task& task) {
  if (!task.may_commit()) return;
  const std::size_t length = std::min(task.prompt_size, task.computed());
  auto fork = model::Sequence::fork(runtime_, task.sequence.id(), length);
  if (!fork) return;  // The cache does without.
  cache_.commit(task.job.tenant, TokenSpan(task.job.tokens).first(length), std::move(*fork),
                task.job.commit);
}

// Most tokens of the next piece: up to where the window is full, or a passage is at hand.
std::size_t Batcher::room(const Task& task) const {
  const Job& job = task.job;
  if (job.window.cells > 0) return job.window.cells - task.sequence.length();
  for (std::size_t i = task.passage; i < job.passages.ranges.size(); ++i) {
    const std::size_t from = job.passages.ranges[i].begin + job.passages.recompute_tokens;
    if (task.computed() < from && fragments_->contains(key_of(task, i)))
      return from - task.computed();
  }
  return Task::kAll;
}

kv::FragmentKey Batcher::key_of(const Task& task, std::size_t passage) const {
  const Passages::Range& range = task.job.passages.ranges[passage];
  return {.tenant = task.job.tenant,
          .tokens = TokenSpan(task.job.tokens).subspan(range.begin, range.end - range.begin),
          .head = task.job.passages.recompute_tokens};
}

// Errors: kResourceExhausted.
Result<void> Batcher::place_passages() {
  for (const auto& task : running_) INCIPIT_TRY_VOID(place_passages(*task));
  return {};
}

// Places the passages that the job stands in, if their cells are at hand.
Result<void> Batcher::place_passages(Task& task) {
  const Passages& passages = task.job.passages;
  for (keep_passages(task); task.passage < passages.ranges.size(); ++task.passage) {
    const Passages::Range& range = passages.ranges[task.passage];
    const std::size_t from = range.begin + passages.recompute_tokens;
    if (task.computed() < from || from >= range.end) return {};
    // Passages may begin alike, so a match of the prompt can end inside one.
    const std::size_t over = task.computed() - from;
    if (over > range.end - task.computed()) return {};
    const std::vector<std::byte>* cells = fragments_->find(key_of(task, task.passage));
    if (cells == nullptr) return {};
    if (over > 0) {
      task.sequence.truncate(from);
      task.report.lookup.matched = std::min(task.report.lookup.matched, from);
    }
    auto placed = runtime_.restore_moved(task.sequence.id(), *cells);
    if (!placed) {
      if (placed.error().code == ErrorCode::kResourceExhausted) return placed;
      fragments_->erase(key_of(task, task.passage));  // Damaged, or of no use here: it is computed.
      return {};
    }
    task.exact_end = std::min(task.exact_end, from);
    task.report.moved += range.end - from;
    counters_.moved += range.end - from;
  }
  return {};
}

// Goes over the passages that the job has computed.
void Batcher::keep_passages(Task& task) {
  const auto& ranges = task.job.passages.ranges;
  for (; task.passage < ranges.size() && task.computed() >= ranges[task.passage].end;
       ++task.passage)
    keep_passage(task);
}

void Batcher::keep_passage(const Task& task) {
  const Passages::Range& range = task.job.passages.ranges[task.passage];
  const std::size_t from = range.begin + task.job.passages.recompute_tokens;
  if (from >= range.end || !task.job.writes_cache ||
      fragments_->contains(key_of(task, task.passage)))
    return;
  if (auto cells = runtime_.save(task.sequence.id(), from, range.end))
    fragments_->insert(key_of(task, task.passage), std::move(*cells));
}

}  // namespace incipit::engine
