// SPDX-License-Identifier: Apache-2.0
//
// A radix tree over tokens: which openings of prompts are kept, and where their cells lie.
//
// An edge is a run of tokens, so a match may end at any token, inside an edge too. Cells live on
// three levels: a *live* node's cells are in the runtime, a *saved* node's in memory or in a file
// that restores them. Live nodes form the top of the tree, and only its leaves own a
// sequence: a sequence covers its whole path, and forks share cells, so an inner node needs none.
// When the last live child of a node goes, the child's sequence is cut back and handed up; cells
// are never moved.
//
// Invariants (check_invariants(), radix_tree_property_test.cc):
//   - edges are not empty, and the edges of one node begin with different tokens;
//   - the parent of a live node is live; exactly the live nodes without live children own a
//     sequence, as long as their path;
//   - every leaf is live or saved: what holds nothing is removed.
//
// Time: match() and insert() take O(tokens); the others O(1) but for a map of children.
// Confined to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "incipit/types.h"
#include "model/runtime.h"
#include "policy/retention.h"
#include "store/state_file.h"

namespace incipit::kv {

// Cells of positions [begin, end) of a path, outside the runtime. Several nodes may refer to one
// after a split; it goes with the last of them. In pieces, so that each of them restores no more
// than it needs.
class SavedCells {
 public:
  // `bytes_in_use` counts what all of them hold, and outlives them.
  SavedCells(std::size_t first, std::size_t last, std::vector<store::CellPiece> pieces,
             std::size_t& bytes_in_use)
      : begin(first), end(last), pieces_(std::move(pieces)), bytes_in_use_(bytes_in_use) {
    bytes_in_use_ += bytes();
  }
  SavedCells(const SavedCells&) = delete;
  SavedCells& operator=(const SavedCells&) = delete;
  ~SavedCells() { bytes_in_use_ -= bytes(); }

  // Leaves only the file.
  void leave_memory() {
    bytes_in_use_ -= bytes();
    pieces_.clear();
  }
  // Empty where only the file has them.
  [[nodiscard]] const std::vector<store::CellPiece>& pieces() const { return pieces_; }

  const std::size_t begin;
  const std::size_t end;
  std::string file;  // Id in the state folder; empty where not written.

 private:
  [[nodiscard]] std::size_t bytes() const {
    std::size_t sum = 0;
    for (const store::CellPiece& piece : pieces_) sum += piece.cells->size();
    return sum;
  }

  std::vector<store::CellPiece> pieces_;
  std::size_t& bytes_in_use_;
};

struct Node : std::enable_shared_from_this<Node> {
  Node* parent = nullptr;  // Null for a root.
  TokenVector edge;
  std::size_t depth = 0;                            // Tokens from the root to the end of the edge.
  std::map<Token, std::shared_ptr<Node>> children;  // Leases watch them.

  bool is_live = false;
  std::size_t live_children = 0;
  model::Sequence sequence;           // Of a live node without live children.
  std::shared_ptr<SavedCells> saved;  // Covers the whole edge; shared by the parts of a split.

  std::size_t leases = 0;
  std::size_t protected_cells = 0;  // As counted for the cap; 0 where not protected.
  policy::Use use;
  std::string_view tenant;     // The root's name.
  std::size_t live_cells = 0;  // Of a root: tokens below it that are live.

  [[nodiscard]] std::size_t begin() const { return depth - edge.size(); }
  [[nodiscard]] bool owns_sequence() const { return is_live && live_children == 0; }
};

// Where a walk along some tokens ended.
struct Match {
  Node* node = nullptr;       // The last node entered; a root if nothing matched.
  std::size_t length = 0;     // Tokens that agree; ends inside node's edge if below node->depth.
  std::size_t live = 0;       // Of these, tokens whose cells are in the runtime.
  Node* live_node = nullptr;  // The last live node entered.
};

class RadixTree {
 public:
  RadixTree() = default;
  RadixTree(const RadixTree&) = delete;
  RadixTree& operator=(const RadixTree&) = delete;

  // Nothing is shared between tenants: each has a root.
  [[nodiscard]] Match match(std::string_view tenant, TokenSpan tokens);

  // Makes the path and returns its last node, splitting an edge where it ends inside one. New
  // nodes hold nothing yet: the caller makes them live or saved, or calls prune().
  Node& insert(std::string_view tenant, TokenSpan tokens);

  // Any sequence that covers the path of a live node.
  [[nodiscard]] static const model::Sequence& sequence_of(const Node& live);
  [[nodiscard]] static TokenVector path(const Node& node);

  // Gives a node and all above it their cells: `sequence` covers the node's path. Where an
  // ancestor owned a sequence, that one is dropped.
  void make_live(Node& node, model::Sequence sequence);
  // Takes the cells of a live node that owns its sequence; the parent may inherit it.
  // Errors: what truncate() reports.
  void make_not_live(Node& node);

  // Removes the node, and what stands above it, as far as they hold nothing.
  // `on_remove` sees each node before it goes.
  void prune(Node& node, const std::function<void(Node&)>& on_remove);

  // Calls visit on every node but the roots, parents first.
  void visit(const std::function<void(Node&)>& visit);
  // Likewise on every node below one.
  static void visit_below(Node& node, const std::function<void(Node&)>& visit);
  [[nodiscard]] std::size_t live_cells(std::string_view tenant) const {
    const auto found = roots_.find(tenant);
    return found == roots_.end() ? 0 : found->second->live_cells;
  }
  [[nodiscard]] std::vector<std::string> tenants() const;
  [[nodiscard]] std::size_t node_count() const { return node_count_; }
  // Aborts with the place where an invariant is broken. For tests.
  void check_invariants() const;

  // Called when an edge was split: the upper part is new, the lower keeps its address.
  std::function<void(Node& upper, Node& lower)> on_split;
  // Called when a node begins or ceases to own a sequence.
  std::function<void(Node&)> on_owner_changed;

 private:
  Node& root(std::string_view tenant);
  Node& split(Node& node, std::size_t length);
  void changed(Node& node) const {
    if (on_owner_changed) on_owner_changed(node);
  }

  std::map<std::string, std::shared_ptr<Node>, std::less<>> roots_;
  std::size_t node_count_ = 0;
};

}  // namespace incipit::kv
