// SPDX-License-Identifier: Apache-2.0
//
// Nodes in the order in which they are to go. O(log n) for everything.
#pragma once

#include <compare>
#include <cstddef>
#include <set>
#include <unordered_map>

#include "kv/radix_tree.h"
#include "policy/retention.h"

namespace incipit::kv {

class EvictionOrder {
 public:
  void put(Node& node, policy::Rank rank) {
    remove(node);
    order_.insert({rank, &node});
    ranks_.emplace(&node, rank);
  }
  void remove(Node& node) {
    const auto found = ranks_.find(&node);
    if (found == ranks_.end()) return;
    order_.erase({found->second, &node});
    ranks_.erase(found);
  }
  [[nodiscard]] bool holds(Node& node) const { return ranks_.contains(&node); }
  [[nodiscard]] std::size_t size() const { return ranks_.size(); }

  struct Entry {
    policy::Rank rank;
    Node* node = nullptr;

    auto operator<=>(const Entry&) const = default;
  };
  // The first that nobody uses; null where there is none.
  [[nodiscard]] const Entry* first() const {
    for (const Entry& entry : order_) {
      if (entry.node->leases == 0) return &entry;
    }
    return nullptr;
  }

 private:
  std::set<Entry> order_;
  std::unordered_map<Node*, policy::Rank> ranks_;
};

}  // namespace incipit::kv
