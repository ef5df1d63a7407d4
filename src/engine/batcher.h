// SPDX-License-Identifier: Apache-2.0
//
// Continuous batching: every pass takes the next piece of every job, whoever sent it.
//
//     waiting --start: prefix cache, or a job that computes the same--> prefill --> decode -->
//     commit                                                               \--> branches
//
// A pass holds one token of each job that decodes and, in what room is left, pieces of prompts and
// branches, those of the tenant that was served least first. Jobs that share an opening which
// nobody has computed yet wait for the first of them to compute it, and fork from it. What a job
// has computed of its opening goes to the cache, also where the caller gave up.
//
// A job that is scored goes on in branches (decode/prompt_scorer.h). They run last in, first out,
// as many at once as there are cells for, so that few paths are held at a time. A job whose
// branches do not fit beside each other walks them one by one.
//
// A job with a window (lossy) forgets its middle tokens each time that the window is full. It does
// so at lengths that depend on nothing but the window, so its answer, too, is the same in any
// crowd.
//
// A job with passages (lossy) takes their cells, but for the first few of each, from wherever they
// were computed before. What it computed up to the first of them is exact and goes to the cache.
//
// A job that decodes gets one drafted token behind its own where the text so far has gone on so
// before (prompt lookup, arXiv 2304.04487). A wrong draft costs a row, a right one saves the job
// a pass.
//
// A hit may be looked at (KvOptions::attention_check) once its prompt is computed and before any
// of it is read. A suspect one is computed again, all of it.
//
// By the law of model/runtime.h none of this changes a bit of any job's logits.
// Confined to the model's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "decode/prompt_scorer.h"
#include "engine/pass_tuner.h"
#include "incipit/generator.h"
#include "incipit/kv.h"
#include "incipit/result.h"
#include "incipit/types.h"
#include "kv/fragment_cache.h"
#include "kv/prefix_cache.h"
#include "model/runtime.h"

namespace incipit::engine {

// What became of a job.
struct JobReport {
  KvLookup lookup;
  std::size_t shared = 0;     // Of lookup.matched, tokens taken from a job still running.
  std::size_t computed = 0;   // Tokens given to the model for this job.
  std::size_t appended = 0;   // Tokens that the reader chose.
  std::size_t drafted = 0;    // Of `computed`, tokens that were guesses.
  std::size_t accepted = 0;   // Of these, what the reader chose, too.
  std::size_t moved = 0;      // Tokens whose cells came from other positions: lossy above 0, too.
  std::size_t forgotten = 0;  // Tokens that the window slid over: above 0 the answer is lossy.
  // Numbers of the passes that it ran in; from 1.
  std::uint64_t first_pass = 0;
  std::uint64_t last_pass = 0;
};

// Makes tokens, or anything else, out of logits. Called on the model's thread.
class RowReader {
 public:
  RowReader() = default;
  RowReader(const RowReader&) = delete;
  RowReader& operator=(const RowReader&) = delete;
  virtual ~RowReader() = default;

  // The rows asked for of the prompt, later the row of each token appended: `rows` rows of the
  // logits from `first_row` on. Gives the token to append, or nothing where the job is done, but
  // for its branches.
  virtual Result<std::optional<Token>> read(const model::Logits& logits, std::size_t first_row,
                                            std::size_t rows) = 0;
  // What goes on behind the prompt, once it was read, or behind a branch.
  virtual std::vector<decode::Branch> branches_below(std::size_t /*id*/) { return {}; }
  virtual void read_branch(std::size_t /*id*/, const model::Logits& /*logits*/,
                           std::size_t /*first_row*/) {}
  // The last call; the job is over.
  virtual void finish(Result<JobReport> report) = 0;
};

// A window over a text of any length: its first tokens and its latest ones. `cells` 0: no window.
struct Window {
  std::size_t cells = 0;
  std::size_t sink = 0;  // Below cells.

  [[nodiscard]] std::size_t step() const { return SlidingWindow::forgotten_at_once(cells - sink); }
};

struct Job {
  std::string tenant;
  TokenVector tokens;
  std::size_t logits_rows = 1;  // Of the last tokens of the prompt.
  // The first tokens, which others may share: the cache may have them, and gets them.
  std::size_t opening = ~std::size_t{0};
  std::size_t tokens_below = 0;  // Of its longest path of branches.
  bool reads_cache = true;
  bool writes_cache = true;
  Window window = {};      // Of a job without passages.
  Passages passages = {};  // Of a job without a window.
  kv::CommitOptions commit = {};
  std::unique_ptr<RowReader> reader = nullptr;
};

struct BatcherLimits {
  std::size_t jobs_max = 64;  // That run at once.
  // Of a pass beside others; up to four times as many where no answer waits for its next token
  // and that was measured to be faster.
  std::size_t rows_max = 256;
  std::size_t rows_max_alone = 1024;  // Of any pass, and of one of one lonely job.
  std::size_t logits_rows_max = 256;  // Bounds the memory of logits: rows * vocabulary * 4 bytes.
  bool drafts = true;                 // Where the runtime is exact.
  std::optional<AttentionCheck> attention_check{};  // Of heads that the runtime has.
};

struct BatcherCounters {
  std::uint64_t passes = 0;
  std::uint64_t rows = 0;         // Tokens given to evaluate().
  std::uint64_t decode_rows = 0;  // Of these, tokens of answers, drafts included.
  std::uint64_t drafted = 0;
  std::uint64_t accepted = 0;
  std::uint64_t preempted = 0;  // Jobs sent back for want of cells.
  std::uint64_t slides = 0;     // Of windows.
  std::uint64_t moved = 0;      // Tokens of passages that came from other positions.
  std::size_t jobs_most = 0;    // In one pass.
  std::uint64_t looked_at = 0;  // Hits that the attention check could judge.
  std::uint64_t suspects = 0;
  std::uint64_t suspects_wrong = 0;
};

class Batcher {
 public:
  using JobId = std::uint64_t;

  // Runtime and caches must outlive the batcher. Without `fragments` passages are computed.
  Batcher(model::Runtime& runtime, kv::PrefixCache& cache, const BatcherLimits& limits,
          kv::FragmentCache* fragments = nullptr);
  ~Batcher();
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  // Ids ascend. A job that can never run is finished with its error at once.
  void add(JobId id, Job job);
  // Finishes the job with kCancelled; what it computed stays in the cache.
  void cancel(JobId id);
  void cancel_all();
  // Runs one pass. False where nothing is left to do.
  bool step();

  [[nodiscard]] bool is_idle() const { return waiting_.empty() && running_.empty(); }
  [[nodiscard]] const BatcherCounters& counters() const { return counters_; }

 private:
  // A branch that is to run.
  struct Path {
    decode::Branch branch;
    std::shared_ptr<model::Sequence> parent;  // Null: the prompt's.
  };
  // A hit that is computed again.
  struct Doubt {
    std::size_t end = 0;             // Tokens of it; 0: there is none.
    std::string tenant{};            // Whose entry it was.
    std::vector<std::string> cells;  // Hashes of its cells, some at a time.
  };
  // A job with its place in the queue, or in the model.
  struct Task {
    JobId id = 0;
    Job job;  // job.tokens grows by what is appended.
    std::size_t prompt_size = 0;
    model::Sequence sequence;
    kv::PrefixLease lease;
    JobReport report;
    JobId waits_for = 0;  // Computes the same opening; 0: nobody.
    std::size_t waits_until = 0;
    std::size_t forgotten = 0;    // Tokens that have no cells any more.
    std::size_t passage = 0;      // The next of job.passages.
    std::vector<Path> paths;      // Last in, first out.
    bool is_single_file = false;  // Its branches do not fit beside each other.
    std::size_t unseen = 0;       // Tokens of a hit that the attention check has yet to look at.
    Doubt doubt;
    // Up to here the cells are those of a run alone: a match may go so far, and a commit.
    std::size_t exact_end = kAll;
    static constexpr std::size_t kAll = ~std::size_t{0};

    [[nodiscard]] bool is_exact() const { return exact_end == kAll; }
    [[nodiscard]] bool may_commit() const { return job.writes_cache && !lease.was_dropped(); }
    [[nodiscard]] std::size_t computed() const { return forgotten + sequence.length(); }
    [[nodiscard]] std::size_t left() const { return job.tokens.size() - computed(); }
    [[nodiscard]] bool is_answering() const {
      return paths.empty() && left() == 1 && computed() >= prompt_size;
    }
  };
  using TaskPointer = std::unique_ptr<Task>;
  struct Piece {
    Task* task = nullptr;
    std::size_t size = 0;
    std::vector<std::uint32_t> logits_rows;
    // The second token of a piece of two; the first is the job's last one.
    std::optional<Token> draft = std::nullopt;
    // A branch and, in the pass, its fork.
    std::optional<Path> path = std::nullopt;
    std::shared_ptr<model::Sequence> fork = nullptr;
    std::size_t looked_at = 0;  // Of logits_rows, the first ones: for the attention check alone.

    [[nodiscard]] bool is_decode() const { return !path && (size == 1 || draft); }
  };
  // What a pass may still take.
  struct Room {
    std::size_t rows = 0;
    std::size_t logits_rows = 0;
    std::size_t cells_wanted = 0;  // By what it has.
    std::size_t forks = 0;
    bool is_first = true;  // Something of every pass is tried, whatever room it wants.
  };

  void start_waiting();
  [[nodiscard]] bool has_room_for(const Task& next);
  [[nodiscard]] std::size_t cells_below(const Job& job) const;
  bool start(Task& task);
  [[nodiscard]] Task* running(JobId id) const;
  [[nodiscard]] std::string wrong_with(const Job& job) const;
  Result<void> slide_windows();
  Result<void> slide(Task& task);
  void commit_prompt(const Task& task);
  Result<void> place_passages();
  Result<void> place_passages(Task& task);
  [[nodiscard]] kv::FragmentKey key_of(const Task& task, std::size_t passage) const;
  void keep_passages(Task& task);
  void keep_passage(const Task& task);
  [[nodiscard]] std::size_t room(const Task& task) const;
  std::vector<Piece> plan();
  void plan_prompt(Task& task, Room& room, std::vector<Piece>& pieces) const;
  void plan_branches(Task& task, Room& room, std::vector<Piece>& pieces);
  [[nodiscard]] bool takes_branch(const decode::Branch& branch, Room& room);
  [[nodiscard]] std::optional<Token> draft_of(const Task& task, std::size_t answering) const;
  [[nodiscard]] std::size_t piece_size(const Task& task, std::size_t rows) const;
  Result<model::Logits> evaluate(std::span<Piece> pieces);
  Result<void> fork(Piece& piece);
  static void put_back(std::span<Piece> pieces);
  static std::vector<Task*> tasks_of(std::span<const Piece> pieces);
  void read(std::span<Piece> pieces, const model::Logits& logits);
  static void read_branch(const Piece& piece, const model::Logits& logits, std::size_t first_row);
  static void branch_off(Task& task, std::size_t id, const std::shared_ptr<model::Sequence>& end);
  std::optional<Token> read(Task& task, const model::Logits& logits, std::size_t first_row,
                            std::size_t rows);
  void read_drafted(const Piece& piece, const model::Logits& logits, std::size_t first_row);
  [[nodiscard]] bool wants_look(const Task& task) const;
  bool is_doubted(Task& task, std::size_t first_row, std::size_t rows);
  void compute_again(Task& task);
  void settle_doubt(Task& task);
  [[nodiscard]] std::vector<std::string> cell_hashes(const Task& task, std::size_t end) const;
  void give_way();
  void preempt(Task& task);
  void finish(Task& task, std::optional<Error> error);
  std::uint64_t& served(const std::string& tenant);

  model::Runtime& runtime_;
  kv::PrefixCache& cache_;
  BatcherLimits limits_;
  kv::FragmentCache* fragments_;                 // May be null.
  std::deque<TaskPointer> waiting_;              // In the order of their ids.
  std::vector<TaskPointer> running_;             // Likewise.
  std::map<std::string, std::uint64_t> served_;  // Rows of each tenant with jobs.
  PassTuner tuner_;
  BatcherCounters counters_;
};

}  // namespace incipit::engine
