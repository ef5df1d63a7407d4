// SPDX-License-Identifier: Apache-2.0
//
// The token sequences of all labels as one tree, so that what they share is computed once.
//
// The root stands after the last token of the prompt. An edge is one token; the log
// probability of an edge is read from the logits of the node that it leaves. A surface is a path
// to a leaf, and its log probability is the sum along the path:
//
//     root --account-- . --ing-- . --END-- leaf: accounting
//                       \--s---- . --END-- leaf: accounts
//
// In sequence mode the end-of-turn token closes every path, so no surface is a part of another
// and "time" competes fairly with "timer". In first mode the tree is one level deep: the first
// tokens alone decide, which is allowed only if no two labels share one.
//
// Nodes in a row of which each has one inner child are one segment, evaluated in one step: the
// number of passes is the number of forks in a path, not the number of its tokens.
// Immutable.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "incipit/result.h"
#include "incipit/task.h"
#include "incipit/types.h"
#include "policy/normalisation.h"

namespace incipit::decode {

// One thing that the model may say for a label; `tokens` as they follow the prompt.
struct Surface {
  std::size_t label = 0;
  std::string text;
  TokenVector tokens;
};

struct LabelTreeOptions {
  Scoring scoring = Scoring::kAuto;
  Normalise normalise = Normalise::kNone;
  bool end_token = true;  // Sequence mode: close every surface with `end`.
  Token end = 0;          // The end-of-turn token.
};

class LabelTree {
 public:
  enum class EdgeKind { kSurface, kNextRow, kSegment };
  struct Edge {
    Token token = 0;
    EdgeKind kind = EdgeKind::kSurface;
    std::size_t target = 0;  // Index of the surface that is complete, or of the segment.
  };
  struct Segment {
    TokenVector tokens;                    // Evaluated together; none in the root segment.
    std::vector<std::vector<Edge>> edges;  // Of each row; the root's row is the prompt's last.
  };

  // Errors: kInvalidArgument for labels whose surfaces are missing or equal, for colliding first
  // tokens in first mode, for a prefix without the end token, for "mean" and "char" in first
  // mode. The message names the labels.
  static Result<LabelTree> build(std::span<const std::string> label_names,
                                 std::span<const Surface> surfaces,
                                 const LabelTreeOptions& options);

  [[nodiscard]] Scoring scoring() const { return scoring_; }  // kFirst or kSequence.
  [[nodiscard]] Normalise normalise() const { return normalise_; }
  [[nodiscard]] std::size_t labels() const { return labels_; }
  // What is scored, in order of declaration; in first mode one entry for each first token.
  [[nodiscard]] std::span<const policy::SurfaceFacts> surfaces() const { return facts_; }
  // Segment 0 is the root.
  [[nodiscard]] std::span<const Segment> segments() const { return segments_; }
  // For each of surfaces(): which of the root's edges it begins with.
  [[nodiscard]] std::span<const std::size_t> first_edges() const { return first_edges_; }
  // Cells that the longest path takes behind a prompt.
  [[nodiscard]] std::size_t tokens_deepest() const { return tokens_deepest_; }

 private:
  struct Node {
    Token token = 0;
    std::vector<std::size_t> children;   // In order of declaration.
    std::optional<std::size_t> surface;  // Of a leaf.
  };
  using Nodes = std::vector<Node>;

  void add_path(Nodes& nodes, TokenSpan path, std::size_t surface);
  std::size_t add_segment(const Nodes& nodes, std::size_t node, std::size_t tokens_above);
  void fill_first(std::span<const Surface> surfaces);
  Result<void> fill_sequence(std::span<const std::string> label_names,
                             std::span<const Surface> surfaces, const LabelTreeOptions& options);

  Scoring scoring_ = Scoring::kFirst;
  Normalise normalise_ = Normalise::kNone;
  std::size_t labels_ = 0;
  std::size_t tokens_deepest_ = 0;
  std::vector<policy::SurfaceFacts> facts_;
  std::vector<Segment> segments_;
  std::vector<std::size_t> first_edges_;
};

}  // namespace incipit::decode
