// SPDX-License-Identifier: Apache-2.0
#include "decode/label_scorer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "decode/log_softmax.h"
#include "policy/normalisation.h"

namespace incipit::decode {
namespace {

constexpr double kUnknown = -std::numeric_limits<double>::infinity();

}  // namespace

// Branches are segments: the root segment has the prompt's id.
LabelScorer::LabelScorer(const LabelTree& tree) : tree_(tree), sums_(tree.segments().size()) {
  scores_.surfaces.assign(tree.surfaces().size(), kUnknown);
  scores_.first_tokens.assign(tree.surfaces().size(), kUnknown);
}

void LabelScorer::read(std::size_t id, const model::Logits& logits, std::size_t first_row) {
  double sum = sums_[id];
  const auto& edges = tree_.segments()[id].edges;
  for (std::size_t row = 0; row < edges.size(); ++row) {
    const std::span<const float> values = logits.row(first_row + row);
    const double total = log_sum_exp(values);
    if (std::isnan(total)) {
      scores_.error = "nonfinite";
      return;
    }
    if (id == kPrompt) read_first_tokens(values, total);
    double sum_of_next = sum;
    for (const LabelTree::Edge& edge : edges[row]) {
      const double here = sum + (values[static_cast<std::size_t>(edge.token)] - total);
      switch (edge.kind) {
        case LabelTree::EdgeKind::kSurface:
          scores_.surfaces[edge.target] = here;
          break;
        case LabelTree::EdgeKind::kSegment:
          sums_[edge.target] = here;
          break;
        case LabelTree::EdgeKind::kNextRow:
          sum_of_next = here;
          break;
      }
    }
    sum = sum_of_next;
  }
}

void LabelScorer::read_first_tokens(std::span<const float> values, double total) {
  const auto& edges = tree_.segments()[kPrompt].edges[0];
  for (std::size_t i = 0; i < tree_.surfaces().size(); ++i) {
    const Token token = edges[tree_.first_edges()[i]].token;
    scores_.first_tokens[i] = values[static_cast<std::size_t>(token)] - total;
  }
}

// Segments follow from a segment's last row only.
std::vector<Branch> LabelScorer::below(std::size_t id) const {
  std::vector<Branch> branches;
  if (!scores_.error.empty()) return branches;
  const auto is_segment = [](const LabelTree::Edge& edge) {
    return edge.kind == LabelTree::EdgeKind::kSegment;
  };
  for (const LabelTree::Edge& edge : tree_.segments()[id].edges.back()) {
    if (!is_segment(edge)) continue;
    const LabelTree::Segment& segment = tree_.segments()[edge.target];
    branches.push_back({.id = edge.target,
                        .tokens = segment.tokens,
                        .logits_rows = segment.tokens.size(),
                        .has_more = std::ranges::any_of(segment.edges.back(), is_segment)});
  }
  return branches;
}

LabelScores LabelScorer::take() {
  if (!scores_.error.empty()) return {.error = std::move(scores_.error)};
  scores_.raw = policy::label_log_probabilities(tree_.surfaces(), scores_.surfaces, tree_.labels());
  for (const double log_probability : scores_.raw) scores_.mass += std::exp(log_probability);
  return std::move(scores_);
}

}  // namespace incipit::decode
