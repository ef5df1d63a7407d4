// SPDX-License-Identifier: Apache-2.0
#include "decode/label_tree.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/check.h"

namespace incipit::decode {
namespace {

std::string quoted(std::string_view text) {
  std::string result(1, '"');
  return result.append(text).append(1, '"');
}

// Two labels that begin with one token, if there are any.
std::optional<std::pair<std::size_t, std::size_t>> first_token_collision(
    std::span<const Surface> surfaces) {
  std::map<Token, std::size_t> owner;
  for (const Surface& surface : surfaces) {
    const auto [place, fresh] = owner.emplace(surface.tokens.front(), surface.label);
    if (!fresh && place->second != surface.label) return {{place->second, surface.label}};
  }
  return {};
}

Result<void> check_surfaces(std::span<const std::string> label_names,
                            std::span<const Surface> surfaces, const LabelTreeOptions& options) {
  std::vector<bool> has_surface(label_names.size(), false);
  std::map<TokenVector, std::size_t> seen;
  for (const Surface& surface : surfaces) {
    INCIPIT_CHECK(surface.label < label_names.size(), "a surface of a label that does not exist");
    has_surface[surface.label] = true;
    const std::string place =
        "labels." + label_names[surface.label] + ": surface " + quoted(surface.text);
    if (surface.tokens.empty()) {
      return failure(ErrorCode::kInvalidArgument, place + " has no tokens; give it a text");
    }
    if (options.end_token &&
        std::ranges::find(surface.tokens, options.end) != surface.tokens.end()) {
      return failure(ErrorCode::kInvalidArgument,
                     place + " contains the end-of-turn token; remove it from the text");
    }
    const auto [other, fresh] = seen.emplace(surface.tokens, surface.label);
    if (!fresh) {
      return failure(ErrorCode::kInvalidArgument,
                     place + " has the same tokens as a surface of label " +
                         quoted(label_names[other->second]) + "; every surface must be distinct");
    }
  }
  const auto bare = std::ranges::find(has_surface, false);
  if (label_names.empty() || bare != has_surface.end()) {
    const auto index = static_cast<std::size_t>(bare - has_surface.begin());
    return failure(ErrorCode::kInvalidArgument,
                   label_names.empty() ? "labels: there is none; declare at least one"
                                       : "labels." + label_names[index] + ": has no surface");
  }
  return {};
}

bool is_by_length(Normalise kind) { return kind == Normalise::kMean || kind == Normalise::kChar; }

// Auto prefers the cheaper first tokens where they tell the labels apart; a normalisation by
// length has a meaning for whole surfaces only.
Result<Scoring> choose_scoring(std::span<const std::string> label_names,
                               std::span<const Surface> surfaces, const LabelTreeOptions& options) {
  if (options.scoring == Scoring::kSequence) return Scoring::kSequence;
  const auto collision = first_token_collision(surfaces);
  if (options.scoring == Scoring::kAuto) {
    return collision || is_by_length(options.normalise) ? Scoring::kSequence : Scoring::kFirst;
  }
  if (collision) {
    return failure(ErrorCode::kInvalidArgument,
                   "options.scoring: \"first\" cannot tell the labels " +
                       quoted(label_names[collision->first]) + " and " +
                       quoted(label_names[collision->second]) +
                       " apart, their first tokens are equal; use \"auto\" or \"sequence\"");
  }
  if (is_by_length(options.normalise)) {
    return failure(ErrorCode::kInvalidArgument,
                   "options.normalise: \"mean\" and \"char\" have no meaning for first tokens; "
                   "use \"none\", or \"sequence\" as options.scoring");
  }
  return Scoring::kFirst;
}

}  // namespace

void LabelTree::add_path(Nodes& nodes, TokenSpan path, std::size_t surface) {
  std::size_t at = 0;
  for (const Token token : path) {
    const auto found = std::ranges::find_if(
        nodes[at].children, [&](std::size_t child) { return nodes[child].token == token; });
    if (found != nodes[at].children.end()) {
      at = *found;
      continue;
    }
    nodes.push_back({.token = token, .children = {}, .surface = {}});
    nodes[at].children.push_back(nodes.size() - 1);
    at = nodes.size() - 1;
  }
  nodes[at].surface = surface;
  const auto first = std::ranges::find_if(
      nodes[0].children, [&](std::size_t child) { return nodes[child].token == path.front(); });
  first_edges_.push_back(static_cast<std::size_t>(first - nodes[0].children.begin()));
}

// Makes the segment that begins at `node` and all below it; returns its index.
std::size_t LabelTree::add_segment(const Nodes& nodes, std::size_t node, std::size_t tokens_above) {
  const std::size_t index = segments_.size();
  segments_.emplace_back();
  Segment segment;
  if (node != 0) segment.tokens.push_back(nodes[node].token);
  for (bool continues = true; continues;) {
    const auto is_inner = [&](std::size_t child) { return !nodes[child].surface; };
    // The root ends after its row: what follows must fork from the prompt.
    const bool runs_on = node != 0 && std::ranges::count_if(nodes[node].children, is_inner) == 1;
    continues = false;
    std::vector<Edge>& edges = segment.edges.emplace_back();
    const std::size_t tokens_here = tokens_above + segment.tokens.size();
    for (const std::size_t child : nodes[node].children) {
      if (nodes[child].surface) {
        edges.push_back({nodes[child].token, EdgeKind::kSurface, *nodes[child].surface});
      } else if (runs_on) {
        edges.push_back({nodes[child].token, EdgeKind::kNextRow, 0});
        segment.tokens.push_back(nodes[child].token);
        continues = true;
      } else {
        const std::size_t below = add_segment(nodes, child, tokens_here);
        edges.push_back({nodes[child].token, EdgeKind::kSegment, below});
      }
    }
    if (!continues) break;
    node = *std::ranges::find_if(nodes[node].children, is_inner);
  }
  tokens_deepest_ = std::max(tokens_deepest_, tokens_above + segment.tokens.size());
  segments_[index] = std::move(segment);
  return index;
}

void LabelTree::fill_first(std::span<const Surface> surfaces) {
  Nodes nodes(1);
  std::set<Token> seen;
  for (const Surface& surface : surfaces) {
    if (!seen.insert(surface.tokens.front()).second) continue;  // A synonym with the same start.
    facts_.push_back({.label = surface.label,
                      .tokens = 1,
                      .characters = policy::count_characters(surface.text)});
    add_path(nodes, TokenSpan(surface.tokens).first(1), facts_.size() - 1);
  }
  add_segment(nodes, 0, 0);
}

Result<void> LabelTree::fill_sequence(std::span<const std::string> label_names,
                                      std::span<const Surface> surfaces,
                                      const LabelTreeOptions& options) {
  Nodes nodes(1);
  for (const Surface& surface : surfaces) {
    TokenVector path = surface.tokens;
    if (options.end_token) path.push_back(options.end);
    facts_.push_back({.label = surface.label,
                      .tokens = path.size(),
                      .characters = policy::count_characters(surface.text)});
    add_path(nodes, path, facts_.size() - 1);
  }
  for (const Node& node : nodes) {
    if (!node.surface || node.children.empty()) continue;
    const Surface& shorter = surfaces[*node.surface];
    return failure(ErrorCode::kInvalidArgument,
                   "labels." + label_names[shorter.label] + ": surface " + quoted(shorter.text) +
                       " is the beginning of another surface; score with the end-of-turn token "
                       "(without --no-end-token) so that they can be told apart");
  }
  add_segment(nodes, 0, 0);
  return {};
}

Result<LabelTree> LabelTree::build(std::span<const std::string> label_names,
                                   std::span<const Surface> surfaces,
                                   const LabelTreeOptions& options) {
  INCIPIT_TRY_VOID(check_surfaces(label_names, surfaces, options));
  LabelTree tree;
  INCIPIT_TRY(tree.scoring_, choose_scoring(label_names, surfaces, options));
  tree.normalise_ = options.normalise;
  tree.labels_ = label_names.size();
  if (tree.scoring_ == Scoring::kFirst) {
    tree.fill_first(surfaces);
  } else {
    INCIPIT_TRY_VOID(tree.fill_sequence(label_names, surfaces, options));
  }
  return tree;
}

}  // namespace incipit::decode
