// SPDX-License-Identifier: Apache-2.0
//
// What a batcher does with a hit that may not be what it says (KvOptions::attention_check).
#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "engine/attention_look.h"
#include "engine/batcher.h"

namespace incipit::engine {
namespace {

// Cells that are hashed together: where the first wrong one lies is known so well.
constexpr std::size_t kCellsHashed = 32;

// Shorter hits, such as the opening of a chat template, have too few tokens for the statistic.
constexpr std::size_t kTokensWorthALook = 32;

}  // namespace

// Lossy cells differ from those of a run alone, and have a right to.
bool Batcher::wants_look(const Task& task) const {
  return task.unseen >= kTokensWorthALook && task.is_exact();
}

// Called when the prompt is computed. True where it has to be computed again: nothing of it may be
// read.
bool Batcher::is_doubted(Task& task, std::size_t first_row, std::size_t rows) {
  if (task.doubt.end > 0) settle_doubt(task);
  if (!wants_look(task)) return false;
  const std::size_t skipped = rows - std::min(rows, kRowsLookedAt);
  double sum = 0;
  std::size_t heads = 0;
  for (const AttentionHead head : limits_.attention_check->heads) {
    const auto found =
        look(runtime_, first_row + skipped, rows - skipped, head, task.job.tokens, task.unseen);
    if (!found) continue;
    sum += *found;
    ++heads;
  }
  if (heads > 0) ++counters_.looked_at;
  if (heads == 0 || sum / static_cast<double>(heads) >= limits_.attention_check->threshold) {
    task.unseen = 0;
    return false;
  }
  compute_again(task);
  return true;
}

void Batcher::compute_again(Task& task) {
  ++counters_.suspects;
  task.doubt = {.end = task.unseen,
                .tenant = task.lease.tenant().value_or(task.job.tenant),
                .cells = cell_hashes(task, task.unseen)};
  task.unseen = 0;
  task.lease = {};
  task.sequence.truncate(0);
  if (task.report.shared == 0) cache_.discount(task.report.lookup);
  task.report.shared = 0;
  task.report.lookup = {.tokens = task.report.lookup.tokens, .miss = KvMiss::kSuspect};
}

// The law makes right cells equal to the bit, so the first that differs was wrong: it goes, with
// all that stands on it, from memory and files too.
void Batcher::settle_doubt(Task& task) {
  const Doubt doubt = std::exchange(task.doubt, {});
  const std::vector<std::string> computed = cell_hashes(task, doubt.end);
  const auto [wrong, unused] = std::ranges::mismatch(doubt.cells, computed);
  if (wrong == doubt.cells.end()) return;
  ++counters_.suspects_wrong;
  const auto first = static_cast<std::size_t>(wrong - doubt.cells.begin()) * kCellsHashed;
  cache_.drop(doubt.tenant, TokenSpan(task.job.tokens).first(first + 1));
}

std::vector<std::string> Batcher::cell_hashes(const Task& task, std::size_t end) const {
  std::vector<std::string> hashes;
  for (std::size_t begin = 0; begin < end; begin += kCellsHashed) {
    const auto cells =
        runtime_.save(task.sequence.id(), begin, std::min(begin + kCellsHashed, end));
    hashes.push_back(cells ? sha256_hex(*cells) : "");
  }
  return hashes;
}

}  // namespace incipit::engine
