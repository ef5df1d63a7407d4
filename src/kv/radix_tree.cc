// SPDX-License-Identifier: Apache-2.0
#include "kv/radix_tree.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "base/check.h"

namespace incipit::kv {
namespace {

std::size_t agreeing(TokenSpan a, TokenSpan b) {
  const auto [end, unused] = std::ranges::mismatch(a, b);
  return static_cast<std::size_t>(end - a.begin());
}

}  // namespace

Node& RadixTree::root(std::string_view tenant) {
  const auto found = roots_.find(tenant);
  if (found != roots_.end()) return *found->second;
  const auto [added, unused] = roots_.emplace(std::string(tenant), std::make_shared<Node>());
  added->second->tenant = added->first;
  return *added->second;
}

Match RadixTree::match(std::string_view tenant, TokenSpan tokens) {
  const auto found = roots_.find(tenant);
  if (found == roots_.end()) return {};
  Match match{.node = found->second.get()};
  while (match.length < tokens.size()) {
    const auto child = match.node->children.find(tokens[match.length]);
    if (child == match.node->children.end()) break;
    Node& next = *child->second;
    const std::size_t length = agreeing(next.edge, tokens.subspan(match.length));
    match.node = &next;
    match.length += length;
    if (next.is_live) {
      match.live = match.length;
      match.live_node = &next;
    }
    if (length < next.edge.size()) break;
  }
  return match;
}

// Cuts `node` into an upper part of `length` tokens, which is returned, and itself.
Node& RadixTree::split(Node& node, std::size_t length) {
  auto upper = std::make_shared<Node>();
  upper->parent = node.parent;
  upper->edge.assign(node.edge.begin(), node.edge.begin() + static_cast<std::ptrdiff_t>(length));
  upper->depth = node.begin() + length;
  upper->is_live = node.is_live;
  upper->live_children = node.is_live ? 1 : 0;
  upper->saved = node.saved;
  upper->use = node.use;
  upper->tenant = node.tenant;
  node.edge.erase(node.edge.begin(), node.edge.begin() + static_cast<std::ptrdiff_t>(length));
  Node& result = *upper;
  auto& place = node.parent->children.at(upper->edge.front());
  std::swap(place, upper);  // `upper` is now `node`.
  node.parent = &result;
  result.children.emplace(node.edge.front(), std::move(upper));
  ++node_count_;
  if (on_split) on_split(result, node);
  return result;
}

Node& RadixTree::insert(std::string_view tenant, TokenSpan tokens) {
  root(tenant);
  const Match match = this->match(tenant, tokens);
  Node* node = match.node;
  if (match.length < node->depth) node = &split(*node, match.length - node->begin());
  if (match.length == tokens.size()) return *node;
  auto leaf = std::make_shared<Node>();
  leaf->parent = node;
  leaf->edge.assign(tokens.begin() + static_cast<std::ptrdiff_t>(match.length), tokens.end());
  leaf->depth = tokens.size();
  leaf->tenant = node->tenant;
  Node& result = *leaf;
  node->children.emplace(result.edge.front(), std::move(leaf));
  ++node_count_;
  return result;
}

const model::Sequence& RadixTree::sequence_of(const Node& live) {
  const Node* node = &live;
  while (node->live_children > 0) {
    const auto child =
        std::ranges::find_if(node->children, [](const auto& it) { return it.second->is_live; });
    INCIPIT_CHECK(child != node->children.end(), "a count of live children without one");
    node = child->second.get();
  }
  return node->sequence;
}

TokenVector RadixTree::path(const Node& node) {
  TokenVector tokens(node.depth);
  for (const Node* at = &node; at->parent != nullptr; at = at->parent) {
    std::ranges::copy(at->edge, tokens.begin() + static_cast<std::ptrdiff_t>(at->begin()));
  }
  return tokens;
}

void RadixTree::make_live(Node& node, model::Sequence sequence) {
  INCIPIT_CHECK(node.parent != nullptr && !node.is_live, "a root or a live node made live");
  INCIPIT_CHECK(sequence.length() == node.depth, "a sequence that is not as long as its path");
  node.sequence = std::move(sequence);
  for (Node* at = &node; at->parent != nullptr && !at->is_live; at = at->parent) {
    at->is_live = true;
    roots_.find(node.tenant)->second->live_cells += at->edge.size();
    if (++at->parent->live_children == 1 && at->parent->is_live) {
      at->parent->sequence = model::Sequence();
      changed(*at->parent);
    }
  }
  changed(node);
}

void RadixTree::make_not_live(Node& node) {
  INCIPIT_CHECK(node.owns_sequence(), "cells taken from a node that does not own them");
  model::Sequence sequence = std::exchange(node.sequence, model::Sequence());
  node.is_live = false;
  roots_.find(node.tenant)->second->live_cells -= node.edge.size();
  changed(node);
  Node& parent = *node.parent;
  if (--parent.live_children > 0 || parent.parent == nullptr) return;
  sequence.truncate(parent.depth);
  parent.sequence = std::move(sequence);
  changed(parent);
}

void RadixTree::prune(Node& node, const std::function<void(Node&)>& on_remove) {
  Node* at = &node;
  while (at->parent != nullptr && at->children.empty() && !at->is_live && !at->saved) {
    INCIPIT_CHECK(at->leases == 0, "a leased node without cells");
    Node* parent = at->parent;
    on_remove(*at);
    parent->children.erase(at->edge.front());
    --node_count_;
    at = parent;
  }
  if (at->parent == nullptr && at->children.empty()) roots_.erase(roots_.find(at->tenant));
}

std::vector<std::string> RadixTree::tenants() const {
  std::vector<std::string> names;
  for (const auto& name : roots_ | std::views::keys) names.push_back(name);
  return names;
}

void RadixTree::visit(const std::function<void(Node&)>& visit) {
  for (const auto& root : roots_ | std::views::values) visit_below(*root, visit);
}

void RadixTree::visit_below(Node& node, const std::function<void(Node&)>& visit) {
  // Not recursive: a path may have as many nodes as tokens.
  std::vector<Node*> open;
  const auto open_children = [&open](Node& parent) {
    for (const auto& child : parent.children | std::views::values) open.push_back(child.get());
  };
  open_children(node);
  while (!open.empty()) {
    Node& next = *open.back();
    open.pop_back();
    visit(next);
    open_children(next);
  }
}

void RadixTree::check_invariants() const {
  std::size_t count = 0;
  for (const auto& root : roots_ | std::views::values) {
    visit_below(*root, [&count](Node& node) {
      ++count;
      INCIPIT_CHECK(!node.edge.empty(), "an empty edge");
      INCIPIT_CHECK(node.parent->children.at(node.edge.front()).get() == &node, "a misplaced node");
      INCIPIT_CHECK(node.begin() == node.parent->depth, "an edge that does not join its parent");
      const auto live = std::ranges::count_if(
          node.children, [](const auto& child) { return child.second->is_live; });
      INCIPIT_CHECK(static_cast<std::size_t>(live) == node.live_children, "live children");
      INCIPIT_CHECK(node.live_children == 0 || node.is_live, "a live node below one that is not");
      INCIPIT_CHECK(node.owns_sequence() == node.sequence.is_open(),
                    "a sequence at the wrong node");
      INCIPIT_CHECK(!node.owns_sequence() || node.sequence.length() == node.depth, "its length");
      INCIPIT_CHECK(!node.children.empty() || node.is_live || node.saved, "a node for nothing");
      INCIPIT_CHECK(
          !node.saved || (node.saved->begin <= node.begin() && node.saved->end >= node.depth),
          "saved cells that do not cover their edge");
    });
  }
  INCIPIT_CHECK(count == node_count_, "the count of nodes");
}

}  // namespace incipit::kv
