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
  return folder_ != nullptr && (!node.saved || !folder_->holds(node.saved->file)) &&
         node.use.expires_at_ms == policy::kNever && (node.use.hits > 0 || !options_.second_sight);
}

// Gives the node's cells a file, and those that it stands on: without them it is of no use after
// a restart.
bool PrefixCache::write(Node& node) {
  std::vector<Node*> path;
  for (Node* at = &node; at->parent != nullptr; at = at->parent) path.push_back(at);
  // The folder forgets what was used least lately: what a file stands on must not go for it.
  touch_files(node);
  bool is_written = true;
  for (std::size_t i = path.size(); is_written && i-- > 0;)
    if (wants_file(*path[i])) is_written = write_one(*path[i]);
  touch_files(node);
  // A path beyond the folder's capacity pushes out its own beginning.
  const bool is_whole = std::ranges::all_of(
      path, [this](const Node* at) { return at->saved && folder_->holds(at->saved->file); });
  if (is_written && !is_whole) folder_->erase(node.saved->file);
  return is_written && is_whole;
}

// Deepest first, so that of a path the deepest is the least lately used: files go leaf first.
void PrefixCache::touch_files(Node& node) {
  for (Node* at = &node; at->parent != nullptr; at = at->parent)
    if (at->saved) folder_->touch(at->saved->file);
}

bool PrefixCache::write_one(Node& node) {
  unwritten_.erase(&node);
  // The upper part of a split has no bytes alone, and what the folder forgot has none at all.
  const bool is_shelved =
      node.saved && node.saved->end == node.depth && !node.saved->bytes().empty();
  if (!is_shelved && !node.is_live) return false;
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

Result<void> PrefixCache::save_to(const std::string& path, std::string_view tenant,
                                  TokenSpan tokens) {
  INCIPIT_TRY(const PrefixLease lease,
              acquire({.tenant = tenant, .tokens = tokens, .limit = tokens.size()}));
  if (lease.lookup.matched < tokens.size())
    return failure(ErrorCode::kUnavailable, "only " + std::to_string(lease.lookup.matched) +
                                                " of " + std::to_string(tokens.size()) +
                                                " tokens are cached (" +
                                                to_string(lease.lookup.miss) + ")");
  INCIPIT_TRY(const auto cells, runtime_.save(lease.sequence.id(), 0, tokens.size()));
  store::StateFacts facts{.fingerprint = runtime_.fingerprint(),
                          .tenant = std::string(tenant),
                          .tokens = TokenVector(tokens.begin(), tokens.end())};
  return store::write_state(path, facts, cells);
}

Result<std::size_t> PrefixCache::restore_from(const std::string& path) {
  INCIPIT_TRY(const store::StateFacts facts, store::read_state_facts(path));
  if (facts.fingerprint != runtime_.fingerprint())
    return failure(ErrorCode::kInvalidArgument,
                   path +
                       " was saved by another model, precision, KV type, instruction level or "
                       "version; compute it here: incipit kv save");
  if (facts.begin != 0 || facts.tokens.empty())
    return failure(ErrorCode::kInvalidArgument,
                   path + " holds only a part of a prompt; make one with incipit kv save");
  if (facts.tenant.starts_with('\0'))
    return failure(ErrorCode::kCorruption, path + " names a tenant that nobody can be");
  const auto vocabulary = static_cast<Token>(runtime_.limits().vocabulary);
  if (std::ranges::any_of(facts.tokens, [=](Token t) { return t < 0 || t >= vocabulary; }))
    return failure(ErrorCode::kCorruption, path + " holds tokens outside the model's vocabulary");
  INCIPIT_TRY(const auto cells, store::read_state_cells(path, facts));
  make_room(facts.tokens.size() + runtime_.limits().fork_cells);
  INCIPIT_TRY(model::Sequence sequence, model::Sequence::create(runtime_));
  INCIPIT_TRY_VOID(runtime_.restore(sequence.id(), cells));
  if (sequence.length() != facts.tokens.size())
    return failure(ErrorCode::kCorruption, path + " holds cells of other tokens than it says");
  commit(facts.tenant, facts.tokens, std::move(sequence));
  const Match match = tree_.match(facts.tenant, facts.tokens);
  if (match.node != nullptr && match.length == facts.tokens.size()) {
    touch(*match.node);  // It was worth a file once: second sight.
    if (wants_file(*match.node)) write(*match.node);
  }
  return facts.tokens.size();
}

}  // namespace incipit::kv
