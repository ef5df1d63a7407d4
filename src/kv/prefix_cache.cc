// SPDX-License-Identifier: Apache-2.0
#include "kv/prefix_cache.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <ranges>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/elapsed.h"

namespace incipit::kv {
namespace {

// Attention over this many cells takes as long as the rest of the model: measured with the default
// model on two cores. It only orders evictions, so a rough figure does.
constexpr double kTokensPerDoubling = 3000;

// Where public openings lie. No tenant has this name: Generator refuses a leading NUL.
constexpr std::string_view kPublic("\0public", 7);

}  // namespace

PrefixCache::PrefixCache(model::Runtime& runtime, store::StateFolder* folder,
                         const KvOptions& options, std::function<std::int64_t()> clock_ms)
    : runtime_(runtime), folder_(folder), options_(options), clock_ms_(std::move(clock_ms)) {
  tree_.on_split = [this](Node& upper, Node& lower) {
    change_use(upper, lower.use);
    if (shelf_.holds(lower)) shelf_.put(upper, policy::rank_of(upper.use, clock_ms_(), false));
  };
  tree_.on_owner_changed = [this](Node& node) { rank(node); };
  if (folder_ != nullptr) load_folder();
}

Match PrefixCache::find(const Wanted& wanted) {
  const TokenSpan tokens = wanted.tokens.first(std::min(wanted.limit, wanted.tokens.size()));
  const Match own = fresh_match(wanted.tenant, tokens);
  if (public_openings_.empty()) return own;
  const Match shared = fresh_match(kPublic, tokens);
  return shared.live > own.live || (shared.live == own.live && shared.length > own.length) ? shared
                                                                                           : own;
}

// A match that ends before the first node whose time is over.
Match PrefixCache::fresh_match(std::string_view tenant, TokenSpan tokens) {
  const Match match = tree_.match(tenant, tokens);
  const std::int64_t now = clock_ms_();
  const Node* expired = nullptr;
  for (const Node* at = match.node; at != nullptr; at = at->parent) {
    if (policy::is_expired(at->use, now)) expired = at;
  }
  return expired == nullptr ? match : tree_.match(tenant, tokens.first(expired->begin()));
}

Result<PrefixLease> PrefixCache::acquire(const Wanted& wanted) {
  keep_deadlines();
  Match match = find(wanted);
  PrefixLease lease;
  ++counters_.lookups;
  counters_.tokens_wanted += wanted.tokens.size();
  lease.lookup.tokens = wanted.tokens.size();
  KvMiss cut = KvMiss::kNone;
  if (match.length > 0 && match.length < options_.tokens_min) {
    cut = KvMiss::kTooShort;
    match = {};
  }
  const std::string tenant(match.node == nullptr ? wanted.tenant : match.node->tenant);
  INCIPIT_TRY(Brought brought, bring(match));
  if (cut == KvMiss::kNone) cut = brought.miss;
  const std::size_t matched = brought.sequence.length();
  if (matched > 0)
    hold(tree_.insert(tenant, wanted.tokens.first(matched)), brought.sequence, lease);
  lease.sequence = std::move(brought.sequence);
  lease.lookup.matched = matched;
  lease.lookup.restored = brought.restored;
  lease.lookup.first_missing = matched;
  if (matched < std::min(wanted.limit, wanted.tokens.size()))
    lease.lookup.miss = cut != KvMiss::kNone ? cut : reason(wanted, matched);
  counters_.tokens_matched += matched;
  counters_.tokens_restored += brought.restored;
  return lease;
}

void PrefixCache::discount(const KvLookup& lookup) {
  counters_.tokens_matched -= lookup.matched;
  counters_.tokens_restored -= lookup.restored;
}

// Leases the node whose path `sequence` holds. It is a node of its own, so that what is used and
// what is not are told apart.
void PrefixCache::hold(Node& node, const model::Sequence& sequence, PrefixLease& lease) {
  // Restoring the last part of a match may have pushed out the first.
  if (!node.is_live) {
    auto again = model::Sequence::fork(runtime_, sequence.id(), node.depth);
    if (!again) return prune(node, KvMiss::kNoRoom);
    tree_.make_live(node, std::move(*again));
  }
  lease.node_ = node.weak_from_this();
  lease.is_held_ = true;
  ++node.leases;
  touch(node);
}

// Makes a sequence of the match's cells, restoring what is not live.
Result<PrefixCache::Brought> PrefixCache::bring(const Match& match) {
  Brought brought;
  // Making room must not take what is being used.
  for (Node* node : {match.node, match.live_node})
    if (node != nullptr) ++node->leases;
  make_room(match.live_node != nullptr ? runtime_.limits().fork_cells : 0);
  auto empty = model::Sequence::create(runtime_);
  if (empty) brought.sequence = std::move(*empty);
  if (empty && match.live_node != nullptr) {
    auto fork =
        model::Sequence::fork(runtime_, RadixTree::sequence_of(*match.live_node).id(), match.live);
    if (fork)
      brought.sequence = std::move(*fork);
    else
      brought.miss = KvMiss::kNoRoom;
  }
  if (empty && brought.miss == KvMiss::kNone && match.length > match.live)
    restore_below(match, brought);
  for (Node* node : {match.node, match.live_node})
    if (node != nullptr) --node->leases;
  if (match.node != nullptr && match.length > 0) prune(*match.node, brought.miss);
  if (!empty) return std::unexpected(empty.error());
  return brought;
}

// Restores the nodes between what is live and the end of the match, one after the other.
void PrefixCache::restore_below(const Match& match, Brought& brought) {
  std::vector<Node*> below;
  for (Node* at = match.node; at->parent != nullptr && !at->is_live; at = at->parent)
    below.push_back(at);
  if (below.empty() || !below.back()->saved) return;
  if (options_.break_even && !break_even_.restore_wins()) {
    ++counters_.skipped_as_slower;
    brought.miss = KvMiss::kSlower;
    return;
  }
  // A match that ends inside an edge restores what it needs of it.
  if (match.length < match.node->depth) {
    const TokenVector path = RadixTree::path(*match.node);
    below.front() = &tree_.insert(match.node->tenant, TokenSpan(path).first(match.length));
  }
  while (!below.empty() && below.back()->saved && brought.miss == KvMiss::kNone) {
    Node& node = *below.back();
    below.pop_back();
    const std::size_t before = brought.sequence.length();
    brought.miss = restore(node, brought.sequence);
    brought.restored += brought.sequence.length() - before;
  }
}

// Appends the node's cells to `sequence`, which holds those before it, and makes the node live.
KvMiss PrefixCache::restore(Node& node, model::Sequence& sequence) {
  const std::shared_ptr<SavedCells> saved = node.saved;
  const std::vector<store::CellPiece> in_memory = saved->pieces();
  const store::StateFacts* in_file =
      in_memory.empty() && folder_ != nullptr ? folder_->find(saved->file) : nullptr;
  if (in_memory.empty() && in_file == nullptr) {
    unshelve(node);  // The folder needed its room.
    return KvMiss::kEvicted;
  }
  std::vector<std::size_t> ends;
  for (const store::CellPiece& piece : in_memory) ends.push_back(piece.end);
  if (in_file != nullptr)
    for (const store::PieceFacts& piece : in_file->pieces) ends.push_back(piece.end);
  // The pieces that hold the node's cells: a split may have left others before and behind them.
  const auto first =
      static_cast<std::size_t>(std::ranges::upper_bound(ends, node.begin()) - ends.begin());
  const auto last =
      static_cast<std::size_t>(std::ranges::lower_bound(ends, node.depth) - ends.begin());
  if (last >= ends.size()) return lose(node);
  const std::size_t begin = first == 0 ? saved->begin : ends[first - 1];
  if (!make_room(ends[last] - begin + runtime_.limits().fork_cells)) return KvMiss::kNoRoom;
  const auto start = std::chrono::steady_clock::now();
  auto whole = model::Sequence::fork(runtime_, sequence.id(), begin);
  if (!whole) return KvMiss::kNoRoom;
  const auto append = [&](std::size_t piece) -> Result<void> {
    if (!in_memory.empty()) return runtime_.restore(whole->id(), *in_memory[piece].cells);
    INCIPIT_TRY(const auto cells, folder_->read(saved->file, piece));
    return runtime_.restore(whole->id(), cells);
  };
  for (std::size_t i = first; i <= last; ++i)
    if (!append(i) || whole->length() != ends[i]) return lose(node);
  break_even_.learn_restore(ends[last] - begin, ms_since(start));
  whole->truncate(node.depth);
  auto result = model::Sequence::fork(runtime_, whole->id(), node.depth);
  if (!result) return KvMiss::kNoRoom;
  sequence = std::move(*result);
  tree_.make_live(node, std::move(*whole));
  return KvMiss::kNone;
}

KvMiss PrefixCache::lose(Node& node) {
  ++counters_.lost;
  unshelve(node);
  return KvMiss::kLost;
}

KvMiss PrefixCache::reason(const Wanted& wanted, std::size_t matched) {
  if (const auto gone = evicted_.reason(wanted.tenant, wanted.tokens, matched)) return *gone;
  return KvMiss::kNeverCached;
}

KvLookup PrefixCache::explain(const Wanted& wanted) {
  const Match match = find(wanted);
  const bool is_short = match.length > 0 && match.length < options_.tokens_min;
  KvLookup lookup{.tokens = wanted.tokens.size(),
                  .matched = is_short ? 0 : match.length,
                  .restored = is_short ? 0 : match.length - match.live,
                  .first_missing = match.length};
  if (lookup.matched == std::min(wanted.limit, wanted.tokens.size())) return lookup;
  lookup.miss = is_short ? KvMiss::kTooShort : reason(wanted, match.length);
  if (lookup.miss != KvMiss::kNeverCached) return lookup;
  for (const std::string& tenant : tree_.tenants()) {
    if (tree_.match(tenant, wanted.tokens.first(wanted.limit)).length > match.length)
      lookup.miss = KvMiss::kOtherTenant;
  }
  return lookup;
}

void PrefixCache::commit(std::string_view tenant, TokenSpan tokens, model::Sequence sequence,
                         const CommitOptions& options) {
  for (const TokenVector& opening : public_openings_) {
    if (tokens.size() < opening.size() ||
        !std::ranges::equal(opening, tokens.first(opening.size())))
      continue;
    if (auto fork = model::Sequence::fork(runtime_, sequence.id(), opening.size()))
      insert(kPublic, opening, std::move(*fork), options);
  }
  insert(tenant, tokens, std::move(sequence), options);
}

void PrefixCache::insert(std::string_view tenant, TokenSpan tokens, model::Sequence sequence,
                         const CommitOptions& options) {
  if (tokens.size() < std::max<std::size_t>(options_.tokens_min, 1)) return;
  keep_deadlines();
  const std::size_t seen = evicted_.seen(tenant, tokens);
  Node& node = tree_.insert(tenant, tokens);
  const std::int64_t now = clock_ms_();
  const policy::Use use{
      .priority = options.priority,
      .protected_until_ms = options.protect_ms > 0 ? now + options.protect_ms : policy::kNever,
      .expires_at_ms = options.ttl_ms > 0 ? now + options.ttl_ms : policy::kNever};
  const bool is_new = (!node.is_live && !node.saved) || policy::is_expired(node.use, now);
  if (is_new) change_use(node, use);
  for (Node* at = &node; at->parent != nullptr; at = at->parent) {
    policy::Use inherited = at->use;
    policy::inherit(inherited, use);
    change_use(*at, inherited);
  }
  if (is_new) node.use.value = value_of(node);
  if (!node.is_live) tree_.make_live(node, std::move(sequence));
  for (Node* at = &node; at->parent != nullptr; at = at->parent) {
    rank(*at);
    if (wants_file(*at)) unwritten_.insert(at);
  }
  // An opening that was pushed out and came again has been seen twice.
  if (seen > 0) {
    Node& again = tree_.insert(tenant, tokens.first(seen));
    if (again.use.hits == 0) touch(again);
  }
  while (options_.tenant_cells > 0 && tree_.live_cells(tenant) > options_.tenant_cells) {
    const auto order = live_.find(tenant);
    if (order == live_.end() || !evict_one(order->second)) break;
  }
}

void PrefixCache::change_use(Node& node, const policy::Use& use) {
  const auto each = [&](auto act) {
    for (const std::int64_t at : {node.use.protected_until_ms, node.use.expires_at_ms})
      if (at != policy::kNever) act(Deadline{at, ~node.depth, &node});
  };
  each([this](const Deadline& deadline) { deadlines_.erase(deadline); });
  node.use = use;
  each([this](const Deadline& deadline) { deadlines_.insert(deadline); });
}

double PrefixCache::value_of(const Node& node) const {
  return policy::value_of(node.use,
                          policy::recompute_cost(node.begin(), node.depth, kTokensPerDoubling),
                          node.edge.size(), floor_);
}

// A use of the node and of all that it stands on.
void PrefixCache::touch(Node& node) {
  for (Node* at = &node; at->parent != nullptr; at = at->parent) {
    ++at->use.hits;
    at->use.value = value_of(*at);
    if (wants_file(*at)) unwritten_.insert(at);
    rank(*at);
  }
  if (folder_ != nullptr) touch_files(node);
}

KvCounters PrefixCache::counters() const {
  KvCounters counters = counters_;
  if (folder_ != nullptr) counters.memory_bytes += folder_->waiting_bytes();
  return counters;
}

std::size_t PrefixCache::drop(std::string_view tenant, TokenSpan tokens) {
  settle_files();
  const Match match = tree_.match(tenant, tokens);
  if (match.node == nullptr || match.length < tokens.size()) return 0;
  std::vector<std::weak_ptr<Node>> nodes;
  if (match.node->parent != nullptr) nodes.push_back(match.node->weak_from_this());
  RadixTree::visit_below(*match.node,
                         [&nodes](Node& node) { nodes.push_back(node.weak_from_this()); });
  std::size_t forgotten = 0;
  for (const std::weak_ptr<Node>& it : nodes | std::views::reverse) {
    const std::shared_ptr<Node> leaf = it.lock();
    if (!leaf) continue;  // It only led to others, and went with the last of them.
    forgotten += leaf->edge.size();
    leaf->leases = 0;
    forget(*leaf, KvMiss::kDropped);
  }
  // Whoever was told that it is gone does not meet it after a restart.
  if (folder_ != nullptr) folder_->wait();
  return forgotten;
}

std::vector<KvEntry> PrefixCache::entries() {
  std::vector<KvEntry> entries;
  tree_.visit([&entries](Node& node) {
    entries.push_back({.tenant = std::string(node.tenant),
                       .begin = node.begin(),
                       .end = node.depth,
                       .tokens = RadixTree::path(node),
                       .is_live = node.is_live,
                       .is_in_memory = node.saved && !node.saved->pieces().empty(),
                       .is_in_file = node.saved && !node.saved->file.empty(),
                       .is_leased = node.leases > 0,
                       .hits = node.use.hits,
                       .priority = node.use.priority});
  });
  return entries;
}

void PrefixCache::check_invariants() {
  tree_.check_invariants();
  std::size_t owners = 0;
  std::size_t in_memory = 0;
  tree_.visit([&](Node& node) {
    const auto order = live_.find(node.tenant);
    const bool is_ordered = order != live_.end() && order->second.holds(node);
    INCIPIT_CHECK(is_ordered == node.owns_sequence(), "an owner that cannot be evicted");
    owners += node.owns_sequence() ? 1 : 0;
    in_memory += shelf_.holds(node) ? 1 : 0;
  });
  for (const auto& [tenant, order] : live_) owners -= order.size();
  INCIPIT_CHECK(owners == 0, "an eviction order with nodes that are gone");
  INCIPIT_CHECK(in_memory == shelf_.size(), "a shelf with nodes that are gone");
}

}  // namespace incipit::kv
