// SPDX-License-Identifier: Apache-2.0
//
// Labels with paths ("billing/refund/status") as a tree of nodes: an unsure answer can still
// name the parent. A node's probability is the sum of the labels at and below it.
// Immutable.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "incipit/task.h"

namespace incipit::policy {

class LabelPaths {
 public:
  struct Node {
    std::string path;
    std::size_t level = 0;             // 1 for the first part of a path.
    std::vector<std::size_t> labels;   // At and below the node.
    std::optional<std::size_t> label;  // The label that has exactly this path.
  };
  struct Choice {
    std::size_t node = 0;
    double probability = 0;
  };

  explicit LabelPaths(std::span<const LabelDefinition> labels);

  // The deepest node whose probability reaches `threshold`; among equally deep ones the most
  // probable, then the one declared first. Empty if none reaches it.
  [[nodiscard]] std::optional<Choice> deepest(std::span<const double> probabilities,
                                              double threshold) const;
  [[nodiscard]] std::span<const Node> nodes() const { return nodes_; }

 private:
  std::vector<Node> nodes_;  // In order of declaration.
};

}  // namespace incipit::policy
