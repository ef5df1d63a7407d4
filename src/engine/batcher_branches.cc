// SPDX-License-Identifier: Apache-2.0
//
// What a batcher does for jobs that go on in branches.
#include <algorithm>
#include <ranges>
#include <utility>

#include "engine/batcher.h"

namespace incipit::engine {

// That the job needs behind its prompt, walking one path at a time.
std::size_t Batcher::cells_below(const Job& job) const {
  return job.tokens_below == 0 ? 0 : job.tokens_below + runtime_.limits().fork_cells;
}

void Batcher::plan_branches(Task& task, Room& room, std::vector<Piece>& pieces) {
  do {
    const decode::Branch& branch = task.paths.back().branch;
    if (!takes_branch(branch, room)) return;
    const std::size_t size = branch.tokens.size();
    Piece piece{.task = &task, .size = size, .logits_rows = {}};
    for (std::size_t row = size - branch.logits_rows; row < size; ++row)
      piece.logits_rows.push_back(static_cast<std::uint32_t>(row));
    piece.path = std::move(task.paths.back());
    task.paths.pop_back();
    pieces.push_back(std::move(piece));
  } while (!task.paths.empty() && !task.is_single_file);
}

// What stands below a branch needs cells while it is held: it gets half of them. Sequences run out
// by depth, cells by length: a quarter of them leaves some for a dozen levels. Nothing but time
// depends on this. Others' prefixes make way for no more than half of the cells.
bool Batcher::takes_branch(const decode::Branch& branch, Room& room) {
  const std::size_t size = branch.tokens.size();
  const std::size_t cells = room.cells_wanted + size + runtime_.limits().fork_cells;
  const std::size_t wanted = cells * (branch.has_more ? 2 : 1);
  const auto has_cells = [&] {
    return runtime_.cells_free() >= wanted ||
           (wanted <= runtime_.limits().cells / 2 && cache_.make_room(wanted));
  };
  const bool fits = size <= room.rows && branch.logits_rows <= room.logits_rows &&
                    room.forks < runtime_.sequences_free() / (branch.has_more ? 4 : 1) &&
                    has_cells();
  if (!fits && !std::exchange(room.is_first, false)) return false;
  room.is_first = false;
  room.rows -= std::min(room.rows, size);
  room.logits_rows -= std::min(room.logits_rows, branch.logits_rows);
  room.cells_wanted = cells;
  ++room.forks;
  return true;
}

// Errors: kResourceExhausted.
Result<void> Batcher::fork(Piece& piece) {
  const auto& parent = piece.path->parent;
  const model::Sequence& end = parent ? *parent : piece.task->sequence;
  INCIPIT_TRY(auto fork, model::Sequence::fork(runtime_, end.id(), end.length()));
  piece.fork = std::make_shared<model::Sequence>(std::move(fork));
  return {};
}

// After a pass that did not take place.
void Batcher::put_back(std::span<Piece> pieces) {
  for (Piece& piece : std::views::reverse(pieces)) {
    piece.fork.reset();
    if (piece.path) piece.task->paths.push_back(std::move(*piece.path));
  }
}

// Each once: the pieces of a job stand together.
std::vector<Batcher::Task*> Batcher::tasks_of(std::span<const Piece> pieces) {
  std::vector<Task*> tasks;
  for (const Piece& piece : pieces)
    if (tasks.empty() || tasks.back() != piece.task) tasks.push_back(piece.task);
  return tasks;
}

void Batcher::read_branch(const Piece& piece, const model::Logits& logits, std::size_t first_row) {
  piece.task->job.reader->read_branch(piece.path->branch.id, logits, first_row);
  branch_off(*piece.task, piece.path->branch.id, piece.fork);
}

void Batcher::branch_off(Task& task, std::size_t id, const std::shared_ptr<model::Sequence>& end) {
  const std::vector<decode::Branch> below = task.job.reader->branches_below(id);
  for (const decode::Branch& branch : std::views::reverse(below))
    task.paths.push_back({.branch = branch, .parent = end});
}

}  // namespace incipit::engine
