// SPDX-License-Identifier: Apache-2.0
//
// The prefix cache and its files: what is read at the start, and what is written.
#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "kv/prefix_cache.h"
#include "store/fingerprint_parts.h"

namespace incipit::kv {
namespace {

// 64 cells of the default model are 1.6 MB: out of the runtime and hashed in some milliseconds.
constexpr std::size_t kPieceCells = 64;
constexpr std::int64_t kWriteAgainMs = 5000;

}  // namespace

// The tree as the files tell it.
void PrefixCache::load_folder() {
  std::vector<store::StateFacts> states;
  for (const store::StateFacts* facts : folder_->entries()) states.push_back(*facts);
  std::vector<std::size_t> parents_first(states.size());
  std::iota(parents_first.begin(), parents_first.end(), 0U);
  std::ranges::stable_sort(parents_first, {}, [&](std::size_t i) { return states[i].begin; });
  std::vector<Node*> nodes(states.size());
  for (const std::size_t i : parents_first) nodes[i] = adopt(states[i]);
  // What a file stands on was used no earlier than it, also where a killed process did not note it.
  for (Node* node : nodes)
    if (node != nullptr) touch_files(*node);
}

// Hangs a state of the folder into the tree. One that stands on nothing is of no use: null.
Node* PrefixCache::adopt(const store::StateFacts& facts) {
  const TokenSpan path(facts.tokens);
  if (tree_.match(facts.tenant, path).length < facts.begin) {
    folder_->erase(facts.id);
    return nullptr;
  }
  if (facts.begin > 0) tree_.insert(facts.tenant, path.first(facts.begin));
  Node& node = tree_.insert(facts.tenant, path);
  const bool is_new = !node.is_live && !node.saved;
  const bool is_same =
      node.saved && node.saved->begin == facts.begin && node.saved->end == path.size();
  const auto saved = is_same ? node.saved
                             : std::make_shared<SavedCells>(facts.begin, path.size(),
                                                            std::vector<store::CellPiece>(),
                                                            counters_.memory_bytes);
  saved->file = facts.id;
  // It may have been split since it was begun: all parts refer to the whole.
  for (Node* at = &node; at->parent != nullptr && at->begin() >= facts.begin; at = at->parent) {
    if (at != &node && at->saved && !wants_file(*at)) continue;
    if (at->saved != saved) shelf_.remove(*at);
    at->saved = saved;
    unwritten_.erase(at);
  }
  if (is_new) {
    node.use.hits = 1;  // It was worth a file.
    node.use.value = value_of(node);
  }
  return &node;
}

bool PrefixCache::wants_file(const Node& node) const {
  return folder_ != nullptr && (!node.saved || !folder_->holds(node.saved->file)) &&
         node.use.expires_at_ms == policy::kNever && (node.use.hits > 0 || !options_.second_sight);
}

// Deepest first, so that of a path the deepest is the least lately used: files go leaf first.
void PrefixCache::touch_files(Node& node) {
  for (Node* at = &node; at->parent != nullptr; at = at->parent)
    if (at->saved) folder_->touch(at->saved->file);
}

// The first piece of the cells [begin, end): so much is taken out of the runtime at once while
// others wait for it. Pieces end at multiples of kPieceCells.
Result<store::CellPiece> PrefixCache::first_piece(model::SequenceId sequence, std::size_t begin,
                                                  std::size_t end) const {
  end = std::min(end, (begin / kPieceCells + 1) * kPieceCells);
  INCIPIT_TRY(auto cells, runtime_.save(sequence, begin, end));
  return store::CellPiece{
      .end = end, .cells = std::make_shared<const std::vector<std::byte>>(std::move(cells))};
}

Result<std::vector<store::CellPiece>> PrefixCache::pieces_of(model::SequenceId sequence,
                                                             std::size_t begin,
                                                             std::size_t end) const {
  std::vector<store::CellPiece> pieces;
  while (begin < end) {
    INCIPIT_TRY(pieces.emplace_back(), first_piece(sequence, begin, end));
    begin = pieces.back().end;
  }
  return pieces;
}

bool PrefixCache::write_behind() {
  if (folder_ == nullptr) return false;
  if (hear_from_disk()) return true;
  if (saving_) return !saving_->is_handed_over() && save_piece();
  if (clock_ms_() < write_again_ms_) return false;
  Node* next = next_unwritten();
  return next != nullptr && begin_saving(*next);
}

// The first node that a file can be begun for. Without the files that it stands on a state is of
// no use after a restart, so the first of its path without one goes before it.
Node* PrefixCache::next_unwritten() {
  while (!unwritten_.empty()) {
    Node& wanted = **unwritten_.begin();
    Node* first = &wanted;
    bool can_stand = wants_file(wanted);
    for (Node* at = wanted.parent; can_stand && at->parent != nullptr; at = at->parent) {
      const bool has_file = at->saved && folder_->holds(at->saved->file);
      if (!has_file) first = at;
      can_stand = has_file || wants_file(*at);
    }
    if (can_stand) return first;
    unwritten_.erase(&wanted);
  }
  return nullptr;
}

// What stands on a node that gets no file gets none either, until it is used again.
void PrefixCache::forgo(const Node& node) {
  std::erase_if(unwritten_, [&node](const Node* at) {
    while (at != &node && at->parent != nullptr) at = at->parent;
    return at == &node;
  });
}

// The node where the bytes in memory end that the node's cells are part of: with it they are one
// state. Null where they are not in memory, or the end is gone.
const Node* PrefixCache::end_in_memory(const Node& node) {
  if (!node.saved || node.saved->pieces().empty()) return nullptr;
  const Node* at = &node;
  while (at->depth < node.saved->end) {
    const auto next = std::ranges::find_if(
        at->children, [&node](const auto& child) { return child.second->saved == node.saved; });
    if (next == at->children.end()) return nullptr;
    at = next->second.get();
  }
  return at;
}

// False where no cells are free for it at present.
bool PrefixCache::begin_saving(Node& node) {
  unwritten_.erase(&node);
  Saving saving{.tenant = std::string(node.tenant), .tokens = RadixTree::path(node)};
  if (const Node* end = end_in_memory(node)) {
    saving.tokens = RadixTree::path(*end);
    saving.in_memory = node.saved;
    saving.next = node.saved->begin;
  } else if (node.is_live) {
    ++node.leases;
    const bool has_room = make_room(runtime_.limits().fork_cells);
    --node.leases;
    auto fork = model::Sequence::fork(runtime_, RadixTree::sequence_of(node).id(), node.depth);
    if (!has_room || !fork) {
      unwritten_.insert(&node);
      return false;
    }
    saving.cells = std::move(*fork);
    saving.next = node.begin();
  } else {
    forgo(node);  // Until it is live again.
    return true;
  }
  // The folder forgets what was used least lately: what a file stands on must not go for it.
  touch_files(node);
  const std::size_t cells = saving.tokens.size() - saving.next;
  const auto begun =
      folder_->begin({.tenant = saving.tenant, .tokens = saving.tokens, .begin = saving.next},
                     cells * runtime_.limits().cell_bytes);
  if (!begun) {
    ++counters_.write_errors;
    forgo(node);
    return true;
  }
  saving_ = std::move(saving);
  return true;
}

// Hands one piece over. False while enough of them wait for the disk.
bool PrefixCache::save_piece() {
  if (!folder_->takes_more()) return false;
  store::CellPiece piece;
  if (saving_->in_memory) {
    piece = *std::ranges::upper_bound(saving_->in_memory->pieces(), saving_->next, {},
                                      &store::CellPiece::end);
  } else {
    auto taken = first_piece(saving_->cells.id(), saving_->next, saving_->tokens.size());
    if (!taken) {
      ++counters_.write_errors;
      folder_->abandon();
      saving_.reset();
      return true;
    }
    piece = std::move(*taken);
  }
  if (!folder_->append(piece)) {
    ++counters_.write_errors;
    const Match match = tree_.match(saving_->tenant, saving_->tokens);
    if (match.length == saving_->tokens.size()) forgo(*match.node);
    saving_.reset();
    return true;
  }
  saving_->next = piece.end;
  if (saving_->is_handed_over()) {
    saving_->cells = {};
    folder_->finish();
  }
  return true;
}

// Frees the cells that a file is being made of; it is begun again later. False where there are
// none.
bool PrefixCache::give_up_saving() {
  if (!saving_ || saving_->is_handed_over()) return false;
  const Saving saving = std::move(*saving_);
  saving_.reset();
  folder_->abandon();
  want_again(saving.tenant, saving.tokens);
  return true;
}

void PrefixCache::want_again(std::string_view tenant, TokenSpan tokens) {
  const Match match = tree_.match(tenant, tokens);
  if (match.node != nullptr && match.length == tokens.size() &&
      match.node->depth == tokens.size() && wants_file(*match.node))
    unwritten_.insert(match.node);
}

// True if a state reached the disk, or failed to.
bool PrefixCache::hear_from_disk() {
  const auto outcome = folder_->collect();
  if (!outcome) return false;
  const Saving saving = std::move(*saving_);
  saving_.reset();
  if (!*outcome) {
    ++counters_.write_errors;
    write_again_ms_ = clock_ms_() + kWriteAgainMs;
    want_again(saving.tenant, saving.tokens);
    return true;
  }
  ++counters_.written;
  Node* node = adopt(**outcome);
  if (node == nullptr) return true;
  touch_files(*node);
  // A path beyond the folder's capacity pushes out its own beginning.
  bool is_whole = true;
  for (Node* at = node; at->parent != nullptr; at = at->parent)
    is_whole = is_whole && at->saved && folder_->holds(at->saved->file);
  if (!is_whole) {
    folder_->erase((*outcome)->id);
    forgo(*node);
  }
  return true;
}

// Nothing is on its way to the disk, and nothing that was is unknown to the tree.
void PrefixCache::settle_files() {
  if (folder_ == nullptr) return;
  give_up_saving();
  folder_->wait();
  hear_from_disk();
}

bool PrefixCache::write_or_wait() {
  const std::uint64_t errors = counters_.write_errors;
  if (!write_behind()) {
    if (!is_writing()) return false;
    folder_->wait();
  }
  return counters_.write_errors == errors;
}

void PrefixCache::finish_writing() {
  while (write_or_wait()) {
  }
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
  INCIPIT_TRY(auto draft, store::StateDraft::create(
                              path, {.fingerprint = runtime_.fingerprint(),
                                     .parts = store::parts_text(runtime_.fingerprint_parts()),
                                     .tenant = std::string(tenant),
                                     .tokens = TokenVector(tokens.begin(), tokens.end())}));
  for (std::size_t begin = 0; begin < tokens.size();) {
    INCIPIT_TRY(const auto piece, first_piece(lease.sequence.id(), begin, tokens.size()));
    INCIPIT_TRY_VOID(draft.append(piece));
    begin = piece.end;
  }
  INCIPIT_TRY_VOID(draft.finish());
  return {};
}

Result<std::size_t> PrefixCache::restore_from(const std::string& path) {
  INCIPIT_TRY(const store::StateFacts facts, store::read_state_facts(path));
  if (facts.fingerprint != runtime_.fingerprint())
    return failure(
        ErrorCode::kInvalidArgument,
        path + " is " +
            store::difference(facts.parts, store::parts_text(runtime_.fingerprint_parts())) +
            "; compute it here: incipit kv save");
  if (facts.begin != 0 || facts.tokens.empty())
    return failure(ErrorCode::kInvalidArgument,
                   path + " holds only a part of a prompt; make one with incipit kv save");
  if (facts.tenant.starts_with('\0'))
    return failure(ErrorCode::kCorruption, path + " names a tenant that nobody can be");
  const auto vocabulary = static_cast<Token>(runtime_.limits().vocabulary);
  if (std::ranges::any_of(facts.tokens, [=](Token t) { return t < 0 || t >= vocabulary; }))
    return failure(ErrorCode::kCorruption, path + " holds tokens outside the model's vocabulary");
  make_room(facts.tokens.size() + runtime_.limits().fork_cells);
  INCIPIT_TRY(model::Sequence sequence, model::Sequence::create(runtime_));
  for (std::size_t i = 0; i < facts.pieces.size(); ++i) {
    INCIPIT_TRY(const auto cells, store::read_state_piece(path, facts, i));
    INCIPIT_TRY_VOID(runtime_.restore(sequence.id(), cells));
    if (sequence.length() != facts.pieces[i].end)
      return failure(ErrorCode::kCorruption, path + " holds cells of other tokens than it says");
  }
  commit(facts.tenant, facts.tokens, std::move(sequence));
  const Match match = tree_.match(facts.tenant, facts.tokens);
  if (match.node != nullptr && match.length == facts.tokens.size()) {
    ++match.node->leases;
    touch(*match.node);  // It was worth a file once: second sight.
    while (wants_file(*match.node) && write_or_wait()) {
    }
    --match.node->leases;
  }
  return facts.tokens.size();
}

}  // namespace incipit::kv
