// SPDX-License-Identifier: Apache-2.0
#include "engine/batcher.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/elapsed.h"
#include "engine/attention_look.h"

namespace incipit::engine {
namespace {

// A pass of fewer rows says little about the cost of a prompt's token.
constexpr std::size_t kRowsWorthLearning = 32;

Error cancelled() { return {ErrorCode::kCancelled, "the caller gave up"}; }

}  // namespace

Batcher::Batcher(model::Runtime& runtime, kv::PrefixCache& cache, const BatcherLimits& limits,
                 kv::FragmentCache* fragments)
    : runtime_(runtime),
      cache_(cache),
      limits_(limits),
      fragments_(fragments),
      tuner_(limits.rows_max, std::min(limits.rows_max_alone, runtime.limits().cells / 2)) {
  // Each job holds a sequence; the cache needs more than they do.
  limits_.jobs_max = std::clamp<std::size_t>(runtime.limits().sequences / 4, 1, limits.jobs_max);
}

Batcher::~Batcher() { cancel_all(); }

void Batcher::cancel_all() {
  while (!running_.empty()) finish(*running_.back(), cancelled());
  for (const auto& task : waiting_) task->job.reader->finish(std::unexpected(cancelled()));
  waiting_.clear();
}

void Batcher::add(JobId id, Job job) {
  auto task = std::make_unique<Task>();
  task->id = id;
  task->job = std::move(job);
  task->prompt_size = task->job.tokens.size();
  if (std::string wrong = wrong_with(task->job); !wrong.empty()) {
    task->job.reader->finish(failure(ErrorCode::kInvalidArgument, std::move(wrong)));
    return;
  }
  if (fragments_ == nullptr || !runtime_.limits().can_move) task->job.passages = {};
  served(task->job.tenant);
  waiting_.push_back(std::move(task));
}

void Batcher::cancel(JobId id) {
  if (Task* task = running(id)) return finish(*task, cancelled());
  const auto found = std::ranges::find(waiting_, id, &Task::id);
  if (found == waiting_.end()) return;
  const TaskPointer gone = std::move(*found);
  waiting_.erase(found);
  gone->job.reader->finish(std::unexpected(cancelled()));
}

Batcher::Task* Batcher::running(JobId id) const {
  const auto found = std::ranges::find(running_, id, &Task::id);
  return found == running_.end() ? nullptr : found->get();
}

bool Batcher::step() {
  start_waiting();
  while (true) {
    if (!slide_windows() || !place_passages()) {
      give_way();
      continue;
    }
    std::vector<Piece> pieces = plan();
    if (pieces.empty()) break;
    const auto logits = evaluate(pieces);
    if (logits) {
      read(pieces, *logits);
      break;
    }
    if (logits.error().code != ErrorCode::kResourceExhausted) {
      for (Task* task : tasks_of(pieces)) finish(*task, logits.error());
      break;
    }
    put_back(pieces);
    give_way();
  }
  return !is_idle();
}

// Frees some cells: of the cache, or of the youngest job, which starts again later.
void Batcher::give_way() {
  if (cache_.make_room(runtime_.cells_free() + runtime_.limits().fork_cells + 1)) return;
  Task& youngest = *running_.back();
  if (running_.size() > 1) return preempt(youngest);
  if (!youngest.paths.empty() && !std::exchange(youngest.is_single_file, true))
    return preempt(youngest);
  finish(youngest, Error{ErrorCode::kResourceExhausted,
                         "the KV cells do not hold " + std::to_string(youngest.job.tokens.size()) +
                             " tokens; raise --ctx-size"});
}

std::size_t Batcher::piece_size(const Task& task, std::size_t rows) const {
  const std::size_t left = task.left();
  rows = std::min(rows, room(task));
  const std::size_t wanted = task.computed() < task.prompt_size ? task.job.logits_rows : 1;
  if (left <= rows) return left;
  // The rows that are read come in one piece.
  if (left - rows >= wanted) return rows;
  return left > wanted ? left - wanted : left;
}

std::vector<Batcher::Piece> Batcher::plan() {
  std::vector<Piece> pieces;
  std::vector<Task*> others;  // That do not decode.
  const auto answering = static_cast<std::size_t>(std::ranges::count_if(
      running_, [](const TaskPointer& task) { return task->is_answering(); }));
  for (const auto& task : running_) {
    if (!task->is_answering())
      others.push_back(task.get());
    else if (const auto draft = draft_of(*task, answering))
      pieces.push_back({.task = task.get(), .size = 2, .logits_rows = {0, 1}, .draft = draft});
    else
      pieces.push_back({.task = task.get(), .size = 1, .logits_rows = {0}});
  }
  const bool alone = running_.size() == 1 && waiting_.empty();
  const std::size_t rows_max = alone            ? limits_.rows_max_alone
                               : pieces.empty() ? tuner_.rows()
                                                : limits_.rows_max;
  Room room{.rows = rows_max - std::min(rows_max, pieces.size()),
            .logits_rows = limits_.logits_rows_max,
            .cells_wanted = pieces.size()};
  std::ranges::stable_sort(others, {}, [this](Task* task) { return served(task->job.tenant); });
  for (Task* task : others) {
    if (room.rows == 0) break;
    if (task->paths.empty())
      plan_prompt(*task, room, pieces);
    else
      plan_branches(*task, room, pieces);
  }
  return pieces;
}

void Batcher::plan_prompt(Task& task, Room& room, std::vector<Piece>& pieces) const {
  Piece piece{.task = &task, .size = piece_size(task, room.rows), .logits_rows = {}};
  if (piece.size == task.left()) {
    const std::size_t wanted =
        task.computed() < task.prompt_size ? task.job.logits_rows : std::size_t{1};
    if (wants_look(task) && piece.size > wanted)
      piece.looked_at = std::min(piece.size, std::max(kRowsLookedAt, wanted)) - wanted;
    const std::size_t read = wanted + piece.looked_at;
    if (read > room.logits_rows && !room.is_first) return;
    for (std::size_t row = piece.size - read; row < piece.size; ++row)
      piece.logits_rows.push_back(static_cast<std::uint32_t>(row));
    room.logits_rows -= std::min(room.logits_rows, read);
  }
  room.is_first = false;
  room.rows -= std::min(room.rows, piece.size);
  room.cells_wanted += piece.size;
  pieces.push_back(std::move(piece));
}

// What followed the last two tokens where they stood together before, the latest time. Nothing
// for a job whose drafts were mostly wrong: a wrong one costs a row, a right one saves a row and
// the job's share of a pass, which costs as much as some rows before its first.
std::optional<Token> Batcher::draft_of(const Task& task, std::size_t answering) const {
  constexpr std::size_t kTrials = 4;
  constexpr std::size_t kRowsOfAPass = 16;
  const TokenVector& tokens = task.job.tokens;
  const std::size_t worth = (answering + kRowsOfAPass) * task.report.accepted / answering;
  const bool is_wanted = limits_.drafts && runtime_.limits().exact && task.is_exact() &&
                         task.job.window.cells == 0 && task.report.drafted <= kTrials + worth;
  if (!is_wanted || tokens.size() < 3 || tokens.size() >= runtime_.limits().context_tokens)
    return std::nullopt;
  const auto last = tokens.rbegin();
  const auto found = std::adjacent_find(last + 1, tokens.rend(), [&](Token later, Token earlier) {
    return later == last[0] && earlier == last[1];
  });
  if (found == tokens.rend()) return std::nullopt;
  return *std::prev(found);
}

void Batcher::preempt(Task& task) {
  ++counters_.preempted;
  const auto place = std::ranges::find(running_, task.id, &Task::id);
  TaskPointer back = std::move(*place);
  running_.erase(place);
  back->lease = {};
  back->sequence = {};
  back->forgotten = 0;  // It slides again at the same lengths.
  back->passage = 0;
  back->paths.clear();
  back->unseen = 0;  // It is looked at when it starts again.
  back->doubt = {};
  back->exact_end = Task::kAll;
  // What was appended counts as prompt when the job starts again; its last row is read next.
  if (back->job.tokens.size() > back->prompt_size) back->job.logits_rows = 1;
  back->prompt_size = back->job.tokens.size();
  const auto before = std::ranges::find_if(
      waiting_, [&](const TaskPointer& other) { return other->id > back->id; });
  waiting_.insert(before, std::move(back));
}

Result<model::Logits> Batcher::evaluate(std::span<Piece> pieces) {
  std::vector<model::Step> steps;
  std::vector<std::array<Token, 2>> pairs;
  pairs.reserve(pieces.size());  // Steps point into it.
  std::size_t rows = 0;
  bool decodes = false;
  for (Piece& piece : pieces) {
    const Task& task = *piece.task;
    TokenSpan tokens(task.job.tokens);
    const model::Sequence* sequence = &task.sequence;
    if (piece.path) {
      INCIPIT_TRY_VOID(fork(piece));
      sequence = piece.fork.get();
      tokens = piece.path->branch.tokens;
    } else if (piece.draft) {
      tokens = pairs.emplace_back(std::array{tokens.back(), *piece.draft});
    } else {
      tokens = tokens.subspan(task.computed(), piece.size);
    }
    decodes = decodes || piece.is_decode();
    steps.push_back(
        {.sequence = sequence->id(), .tokens = tokens, .logits_rows = piece.logits_rows});
    rows += piece.size;
  }
  cache_.make_room(rows);
  const auto start = std::chrono::steady_clock::now();
  INCIPIT_TRY(const model::Logits logits, runtime_.evaluate(steps));
  const double ms = ms_since(start);
  if (rows >= kRowsWorthLearning) cache_.learn_compute(rows, ms);
  if (!decodes && pieces.size() > 1) tuner_.record(rows, ms);
  ++counters_.passes;
  counters_.rows += rows;
  counters_.jobs_most = std::max(counters_.jobs_most, tasks_of(pieces).size());
  return logits;
}

void Batcher::read(std::span<Piece> pieces, const model::Logits& logits) {
  std::size_t first_row = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    Task& task = *piece.task;
    JobReport& report = task.report;
    report.computed += piece.size;
    report.last_pass = counters_.passes;
    if (report.first_pass == 0) report.first_pass = counters_.passes;
    served(task.job.tenant) += piece.size;
    if (piece.is_decode()) counters_.decode_rows += piece.size;
    const std::size_t count = piece.logits_rows.size();
    const bool is_last = i + 1 == pieces.size() || pieces[i + 1].task != &task;
    if (piece.path)
      read_branch(piece, logits, first_row);
    else if (piece.draft)
      read_drafted(piece, logits, first_row);
    else if ((count > 0 || task.left() == 0) && !is_doubted(task, first_row, count))
      read(task, logits, first_row + piece.looked_at, count - piece.looked_at);
    if (piece.path && is_last && task.paths.empty()) finish(task, std::nullopt);
    first_row += count;
  }
}

// Appends what the reader chose and returns it; nothing where the job is finished, and gone.
std::optional<Token> Batcher::read(Task& task, const model::Logits& logits, std::size_t first_row,
                                   std::size_t rows) {
  auto next = task.job.reader->read(logits, first_row, rows);
  const bool is_full =
      task.job.window.cells == 0 && task.job.tokens.size() >= runtime_.limits().context_tokens;
  if (next && *next && !is_full) {
    task.job.tokens.push_back(**next);
    ++task.report.appended;
    return *next;
  }
  if (next && !*next) branch_off(task, decode::kPrompt, nullptr);
  if (task.paths.empty()) finish(task, next ? std::nullopt : std::optional(next.error()));
  return std::nullopt;
}

// The row behind the job's last token, and, if the draft is what it chose, the row behind that.
void Batcher::read_drafted(const Piece& piece, const model::Logits& logits, std::size_t first_row) {
  Task& task = *piece.task;
  ++task.report.drafted;
  ++counters_.drafted;
  const std::optional<Token> next = read(task, logits, first_row, 1);
  if (!next) return;
  if (*next != *piece.draft) return task.sequence.truncate(task.job.tokens.size() - 1);
  ++task.report.accepted;
  ++counters_.accepted;
  read(task, logits, first_row + 1, 1);
}

// Ends a running job; what it computed goes to the cache.
void Batcher::finish(Task& task, std::optional<Error> error) {
  const auto place = std::ranges::find(running_, task.id, &Task::id);
  INCIPIT_CHECK(place != running_.end(), "a job finished that does not run");
  const TaskPointer gone = std::move(*place);
  running_.erase(place);
  // Behind the last token there may be the cell of a draft.
  const std::size_t length = gone->sequence.is_open()
                                 ? std::min({gone->computed(), gone->exact_end,
                                             gone->job.tokens.size(), gone->job.opening})
                                 : 0;
  const bool is_sound = !error || error->code == ErrorCode::kCancelled;
  if (is_sound && length > 0) keep_passages(*gone);
  gone->paths.clear();
  if (gone->may_commit() && is_sound && length > gone->report.lookup.matched) {
    gone->sequence.truncate(length);
    cache_.commit(gone->job.tenant, TokenSpan(gone->job.tokens).first(length),
                  std::move(gone->sequence), gone->job.commit);
  }
  if (error)
    gone->job.reader->finish(std::unexpected(std::move(*error)));
  else
    gone->job.reader->finish(gone->report);
}

}  // namespace incipit::engine
