// SPDX-License-Identifier: Apache-2.0
//
// The prefix cache and its files: what is read at the start, and what is written while idle.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "kv/prefix_cache.h"

namespace incipit::kv {

// The tree as the files tell it, parents first. A file that stands on nothing is of no use.
void PrefixCache::load_folder() {
  for (const store::StateFacts* facts : folder_->entries()) {
    const TokenSpan path(facts->tokens);
    const Match match = tree_.match(facts->tenant, path);
    if (match.length < facts->begin) {
      folder_->erase(facts->id);
      continue;
    }
    if (facts->begin > 0) tree_.insert(facts->tenant, path.first(facts->begin));
    Node& node = tree_.insert(facts->tenant, path);
    node.saved = std::make_shared<SavedCells>(facts->begin, path.size(), std::vector<std::byte>(),
                                              counters_.memory_bytes);
    node.saved->file = facts->id;
    node.use.hits = 1;  // It was worth a file.
    node.use.value = value_of(node);
  }
}

bool PrefixCache::wants_file(const Node& node) const {
  return folder_ != nullptr && (!node.saved || node.saved->file.empty()) &&
         node.use.expires_at_ms == policy::kNever && (node.use.hits > 0 || !options_.second_sight);
}

// Gives the node's cells a file, and those that it stands on: without them it is of no use after
// a restart.
bool PrefixCache::write(Node& node) {
  std::vector<Node*> path;
  for (Node* at = &node; at->parent != nullptr; at = at->parent) path.push_back(at);
  bool is_written = true;
  while (is_written && !path.empty()) {
    if (wants_file(*path.back())) is_written = write_one(*path.back());
    path.pop_back();
  }
  return is_written;
}

bool PrefixCache::write_one(Node& node) {
  unwritten_.erase(&node);
  const bool is_shelved = node.saved && node.saved->end == node.depth;
  if (!is_shelved && !node.is_live) return false;  // The upper part of a split has no bytes alone.
  const auto cells =
      node.is_live ? runtime_.save(RadixTree::sequence_of(node).id(), node.begin(), node.depth)
                   : Result<std::vector<std::byte>>(node.saved->bytes());
  if (!cells) return false;
  const std::size_t begin = node.is_live ? node.begin() : node.saved->begin;
  const TokenVector path = RadixTree::path(node);
  auto id =
      folder_->write({.tenant = std::string(node.tenant), .tokens = path, .begin = begin}, *cells);
  if (!id) {
    ++counters_.write_errors;
    return false;
  }
  ++counters_.written;
  if (!node.saved || node.saved->begin != begin || node.saved->end != node.depth) {
    shelf_.remove(node);
    node.saved = std::make_shared<SavedCells>(begin, node.depth, std::vector<std::byte>(),
                                              counters_.memory_bytes);
  }
  node.saved->file = *id;
  return true;
}

bool PrefixCache::write_behind() {
  while (!unwritten_.empty()) {
    // What others stand on first.
    Node* next = *std::ranges::min_element(unwritten_, {}, &Node::depth);
    unwritten_.erase(next);
    if (write(*next)) return true;
  }
  return false;
}

}  // namespace incipit::kv
