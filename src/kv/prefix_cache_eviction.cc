// SPDX-License-Identifier: Apache-2.0
//
// What leaves the prefix cache, in which order, and on which level it is kept.
#include <algorithm>
#include <memory>
#include <utility>

#include "kv/prefix_cache.h"

namespace incipit::kv {
namespace {

// Sequences that a lookup and a commit make beside those that they hand over.
constexpr std::size_t kSequencesSpare = 8;

}  // namespace

// Puts the node where it belongs in the orders of eviction.
void PrefixCache::rank(Node& node) {
  if (node.parent == nullptr) return;
  const std::int64_t now = clock_ms_();
  protected_cells_ -= std::exchange(node.protected_cells, 0);
  auto order = live_.find(node.tenant);
  if (!node.owns_sequence()) {
    if (order != live_.end()) {
      order->second.remove(node);
      if (order->second.size() == 0) live_.erase(order);
    }
  } else {
    const auto cap = options_.protected_share * static_cast<double>(runtime_.limits().cells);
    const bool admits = static_cast<double>(protected_cells_ + node.depth) <= cap;
    if (admits && policy::is_protected(node.use, now)) {
      node.protected_cells = node.depth;
      protected_cells_ += node.depth;
    }
    if (order == live_.end()) order = live_.try_emplace(std::string(node.tenant)).first;
    order->second.put(node, policy::rank_of(node.use, now, admits));
  }
  if (shelf_.holds(node)) shelf_.put(node, policy::rank_of(node.use, now, false));
}

bool PrefixCache::make_room(std::size_t cells) {
  const std::size_t spare = std::min(kSequencesSpare, runtime_.limits().sequences / 4);
  const auto has_room = [&] {
    return runtime_.cells_free() >= cells && runtime_.sequences_free() >= spare;
  };
  if (has_room()) return true;
  keep_deadlines();
  while (!has_room()) {
    EvictionOrder* weakest = nullptr;
    policy::Rank least;
    for (auto& [tenant, order] : live_) {
      const EvictionOrder::Entry* first = order.first();
      if (first == nullptr || (weakest != nullptr && first->rank >= least)) continue;
      weakest = &order;
      least = first->rank;
    }
    // Last of all, the cells that a file is being made of.
    if ((weakest == nullptr || !evict_one(*weakest)) && !give_up_saving()) return false;
  }
  return true;
}

bool PrefixCache::evict_one(EvictionOrder& order) {
  const EvictionOrder::Entry* first = order.first();
  if (first == nullptr) return false;
  floor_ = std::max(floor_, first->node->use.value);
  ++counters_.evictions;
  evict(*first->node, KvMiss::kEvicted);
  return true;
}

// Takes the node's live cells, keeping their bytes where that is worth it.
void PrefixCache::evict(Node& node, KvMiss reason) {
  const bool kept = reason == KvMiss::kEvicted && (node.saved != nullptr || shelve(node));
  tree_.make_not_live(node);
  if (!kept) unshelve(node);
  prune(node, reason);
}

void PrefixCache::prune(Node& node, KvMiss reason) {
  tree_.prune(node, [&](Node& gone) { remove(gone, reason); });
}

// Everything that points to the node forgets it.
void PrefixCache::remove(Node& node, KvMiss reason) {
  evicted_.add(node.tenant, RadixTree::path(node), reason);
  change_use(node, {});
  unwritten_.erase(&node);
  protected_cells_ -= std::exchange(node.protected_cells, 0);
}

bool PrefixCache::shelve(Node& node) {
  if (options_.memory_bytes == 0 || node.use.expires_at_ms != policy::kNever) return false;
  if (options_.second_sight && node.use.hits == 0) {
    ++counters_.saved_refused;
    return false;
  }
  const std::size_t bytes = node.edge.size() * runtime_.limits().cell_bytes;
  if (bytes > options_.memory_bytes) {
    ++counters_.too_large;
    return false;
  }
  while (counters().memory_bytes + bytes > options_.memory_bytes) {
    const EvictionOrder::Entry* first = shelf_.first();
    if (first == nullptr) return false;
    Node& oldest = *first->node;
    if (folder_ == nullptr || !folder_->holds(oldest.saved->file)) {
      if (wants_file(oldest)) ++counters_.left_unwritten;
      unshelve(oldest);
      prune(oldest, KvMiss::kEvicted);
    } else {
      shelf_.remove(oldest);
      oldest.saved->leave_memory();
    }
  }
  auto pieces = pieces_of(node.sequence.id(), node.begin(), node.depth);
  if (!pieces) return false;
  node.saved = std::make_shared<SavedCells>(node.begin(), node.depth, std::move(*pieces),
                                            counters_.memory_bytes);
  ++counters_.saved;
  shelf_.put(node, policy::rank_of(node.use, clock_ms_(), false));
  if (wants_file(node)) unwritten_.insert(&node);
  return true;
}

void PrefixCache::unshelve(Node& node) {
  shelf_.remove(node);
  node.saved.reset();
}

// What has expired goes, unless it is in use; priorities that have run out no longer count.
void PrefixCache::keep_deadlines() {
  const std::int64_t now = clock_ms_();
  while (!deadlines_.empty() && deadlines_.begin()->at_ms <= now) {
    Node& node = *deadlines_.begin()->node;
    deadlines_.erase(deadlines_.begin());
    if (policy::is_expired(node.use, now) && node.leases == 0 && node.children.empty()) {
      ++counters_.expiries;
      forget(node, KvMiss::kExpired);
    } else {
      rank(node);
    }
  }
}

// Requires a leaf without leases.
void PrefixCache::forget(Node& node, KvMiss reason) {
  if (folder_ != nullptr && node.saved) folder_->erase(node.saved->file);
  unshelve(node);
  if (node.owns_sequence())
    evict(node, reason);
  else
    prune(node, reason);
}

}  // namespace incipit::kv
