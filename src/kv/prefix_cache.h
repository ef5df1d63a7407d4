// SPDX-License-Identifier: Apache-2.0
//
// The KV prefix cache: computes no opening twice.
//
//     acquire() -> a lease with a sequence of the longest cached prefix
//     ... the caller computes the rest ...
//     commit()  -> the tree takes the cells over
//
// Cells are on three levels: live in the runtime, saved in memory, saved in files. What is pushed
// out of one level enters the next if it was used again (second sight), and comes back by
// a restore, which is all or nothing and gives the same bits. A slower level is skipped where
// computing was measured to be faster.
//
// What deserves a file gets one soon, also under load (docs/adr/0013): one state at a time, parents
// first, a piece of its cells after each pass. The pieces come from a fork, so they are of one
// moment, and go to the folder's own thread.
//
// A cache never makes a request fail: what is lost or damaged is a miss, counted.
// Confined to the model's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "incipit/kv.h"
#include "incipit/result.h"
#include "incipit/types.h"
#include "kv/break_even.h"
#include "kv/evicted_openings.h"
#include "kv/eviction_order.h"
#include "kv/radix_tree.h"
#include "model/runtime.h"
#include "store/state_folder.h"

namespace incipit::kv {

struct Wanted {
  std::string_view tenant;
  TokenSpan tokens;
  // Most tokens that may be matched: the caller needs the rest computed.
  std::size_t limit = 0;
};

// A cached prefix in use: its nodes are not evicted, and `sequence` holds its cells even if it is
// dropped. Move-only; must not outlive the cache.
class PrefixLease {
 public:
  PrefixLease() = default;
  PrefixLease(PrefixLease&& other) noexcept { *this = std::move(other); }
  PrefixLease& operator=(PrefixLease&& other) noexcept {
    std::swap(node_, other.node_);
    std::swap(is_held_, other.is_held_);
    std::swap(sequence, other.sequence);
    std::swap(lookup, other.lookup);
    return *this;
  }
  ~PrefixLease() {
    if (const auto node = node_.lock()) --node->leases;
  }

  // Of the same prefix, for a sequence that the caller has.
  [[nodiscard]] PrefixLease share() const {
    PrefixLease other;
    other.node_ = node_;
    other.is_held_ = is_held_;
    if (const auto node = node_.lock()) ++node->leases;
    return other;
  }
  // Whose entry it is: the caller's, or everybody's. Nothing where there is none any more.
  [[nodiscard]] std::optional<std::string> tenant() const {
    const auto node = node_.lock();
    return node ? std::optional(std::string(node->tenant)) : std::nullopt;
  }
  // Somebody dropped the prefix: its cells are not to be committed again.
  [[nodiscard]] bool was_dropped() const { return is_held_ && node_.expired(); }

  model::Sequence sequence;  // Holds lookup.matched cells; the caller may take it over.
  KvLookup lookup;

 private:
  friend class PrefixCache;
  std::weak_ptr<Node> node_;
  bool is_held_ = false;
};

struct CommitOptions {
  int priority = 0;             // Higher stays longer.
  std::int64_t protect_ms = 0;  // How long the priority counts; 0: until evicted.
  std::int64_t ttl_ms = 0;      // 0: never expires.
};

class PrefixCache {
 public:
  // Runtime and folder must outlive the cache; the folder may be null. The clock gives steady
  // milliseconds.
  PrefixCache(model::Runtime& runtime, store::StateFolder* folder, const KvOptions& options,
              std::function<std::int64_t()> clock_ms);
  ~PrefixCache() { settle_files(); }
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // The longest cached prefix; an empty sequence where there is none.
  // Errors: what create() reports.
  Result<PrefixLease> acquire(const Wanted& wanted);

  // How many tokens acquire() may match, those that have to be restored included.
  [[nodiscard]] std::size_t matched(const Wanted& wanted) { return find(wanted).length; }

  // Hands the cells of `tokens` over; `sequence` is as long as they are.
  void commit(std::string_view tenant, TokenSpan tokens, model::Sequence sequence,
              const CommitOptions& options = {});

  // Evicts until `cells` are free, and the few sequences that a lookup needs. False if what is left
  // is in use.
  bool make_room(std::size_t cells);

  // Takes a match out of the counts: its tokens were computed after all.
  void discount(const KvLookup& lookup);

  // What acquire() would match, and why not more. Changes nothing.
  [[nodiscard]] KvLookup explain(const Wanted& wanted);

  // Removes every entry that begins with `tokens`, on every level, also if it is in use: whoever
  // leases it keeps the cells and must not commit them (was_dropped()).
  // Returns how many tokens were forgotten.
  std::size_t drop(std::string_view tenant, TokenSpan tokens);

  // Writes the cells of cached `tokens` to one file that restore_from() takes, here or elsewhere.
  // Errors: kUnavailable unless all of them are cached; of the disk.
  Result<void> save_to(const std::string& path, std::string_view tenant, TokenSpan tokens);

  // Takes such a file into the cache, under the tenant that it names, and into the folder.
  // Returns how many tokens it holds. The file may be a stranger's: nothing in it is believed that
  // could harm, but only verifying tells whether its cells were computed honestly.
  // Errors: kCorruption for a damaged file; kInvalidArgument for one that is not whole or of
  // another model or version; kResourceExhausted without free cells.
  Result<std::size_t> restore_from(const std::string& path);

  // Lets every tenant use this opening: what any of them computes of it.
  void publish(TokenVector opening) { public_openings_.push_back(std::move(opening)); }

  // A bounded step towards files for what deserves them: takes one piece of cells out of the
  // runtime, or hears from the disk. To be called after each pass. False where nothing can be done
  // at present.
  bool write_behind();
  // The disk has not done all that it was told: write_behind() will have something to do.
  [[nodiscard]] bool is_writing() const { return saving_.has_value(); }
  // All the steps, waiting for the disk, until everything that deserves a file has one or the
  // disk fails.
  void finish_writing();

  // Measured by the caller: `tokens` were computed in `ms`.
  void learn_compute(std::size_t tokens, double ms) { break_even_.learn_compute(tokens, ms); }

  [[nodiscard]] std::vector<KvEntry> entries();
  [[nodiscard]] KvCounters counters() const;
  // Aborts where the books do not agree with the tree. For tests.
  void check_invariants();

 private:
  // Where a lookup ended, and whether restoring more was refused or failed.
  struct Brought {
    model::Sequence sequence;
    std::size_t restored = 0;
    KvMiss miss = KvMiss::kNone;
  };
  // The state that is on its way to a file, out of the runtime or out of memory.
  struct Saving {
    std::string tenant;
    TokenVector tokens;
    std::size_t next = 0;                     // Cells before it were handed over.
    model::Sequence cells{};                  // A fork: its bits stay what they were.
    std::shared_ptr<SavedCells> in_memory{};  // In the place of `cells`.

    [[nodiscard]] bool is_handed_over() const { return next == tokens.size(); }
  };

  [[nodiscard]] Match find(const Wanted& wanted);
  [[nodiscard]] Match fresh_match(std::string_view tenant, TokenSpan tokens);
  Result<Brought> bring(const Match& match);
  void hold(Node& node, const model::Sequence& sequence, PrefixLease& lease);
  void restore_below(const Match& match, Brought& brought);
  KvMiss restore(Node& node, model::Sequence& sequence);
  KvMiss lose(Node& node);
  [[nodiscard]] KvMiss reason(const Wanted& wanted, std::size_t matched);
  void insert(std::string_view tenant, TokenSpan tokens, model::Sequence sequence,
              const CommitOptions& options);
  void change_use(Node& node, const policy::Use& use);
  void prune(Node& node, KvMiss reason);
  void touch(Node& node);
  void rank(Node& node);
  [[nodiscard]] double value_of(const Node& node) const;
  [[nodiscard]] bool evict_one(EvictionOrder& order);
  void evict(Node& node, KvMiss reason);
  void forget(Node& node, KvMiss reason);
  void remove(Node& node, KvMiss reason);
  bool shelve(Node& node);
  void unshelve(Node& node);
  void load_folder();
  Node* adopt(const store::StateFacts& facts);
  [[nodiscard]] Result<store::CellPiece> first_piece(model::SequenceId sequence, std::size_t begin,
                                                     std::size_t end) const;
  [[nodiscard]] Result<std::vector<store::CellPiece>> pieces_of(model::SequenceId sequence,
                                                                std::size_t begin,
                                                                std::size_t end) const;
  [[nodiscard]] Node* next_unwritten();
  void forgo(const Node& node);
  [[nodiscard]] static const Node* end_in_memory(const Node& node);
  bool begin_saving(Node& node);
  bool save_piece();
  bool give_up_saving();
  void want_again(std::string_view tenant, TokenSpan tokens);
  bool hear_from_disk();
  void settle_files();
  bool write_or_wait();
  void touch_files(Node& node);
  [[nodiscard]] bool wants_file(const Node& node) const;
  void keep_deadlines();

  model::Runtime& runtime_;
  store::StateFolder* folder_;
  KvOptions options_;
  std::function<std::int64_t()> clock_ms_;
  KvCounters counters_;  // Outlives the saved cells in the tree, which count their bytes.
  RadixTree tree_;
  std::map<std::string, EvictionOrder, std::less<>> live_;  // By tenant; they own a sequence.
  EvictionOrder shelf_;                                     // Their saved bytes are in memory.
  // Ends of protections and of lives; of equal times the deepest first.
  struct Deadline {
    std::int64_t at_ms = 0;
    std::size_t depth_from_end = 0;
    Node* node = nullptr;

    auto operator<=>(const Deadline&) const = default;
  };
  std::set<Deadline> deadlines_;
  struct ByDepth {
    bool operator()(const Node* a, const Node* b) const {
      return std::pair(a->depth, a) < std::pair(b->depth, b);
    }
  };
  std::set<Node*, ByDepth> unwritten_;  // Deserve a file and have none.
  std::optional<Saving> saving_;
  std::int64_t write_again_ms_ = 0;  // After the disk failed: not before.
  std::vector<TokenVector> public_openings_;
  BreakEven break_even_;
  EvictedOpenings evicted_;
  double floor_ = 0;                 // Value of what was evicted last.
  std::size_t protected_cells_ = 0;  // Of whole paths: what they share counts for each.
};

}  // namespace incipit::kv
