// SPDX-License-Identifier: Apache-2.0
#include "policy/label_paths.h"

#include <map>

namespace incipit::policy {

LabelPaths::LabelPaths(std::span<const LabelDefinition> labels) {
  std::map<std::string, std::size_t> index_of;
  for (std::size_t label = 0; label < labels.size(); ++label) {
    const std::string& name = labels[label].name;
    std::size_t level = 0;
    for (std::size_t end = 0; end != std::string::npos;) {
      end = name.find('/', end == 0 ? 0 : end + 1);
      ++level;
      const auto [place, fresh] = index_of.emplace(name.substr(0, end), nodes_.size());
      if (fresh)
        nodes_.push_back({.path = place->first, .level = level, .labels = {}, .label = {}});
      nodes_[place->second].labels.push_back(label);
      if (end == std::string::npos) nodes_[place->second].label = label;
    }
  }
}

std::optional<LabelPaths::Choice> LabelPaths::deepest(std::span<const double> probabilities,
                                                      double threshold) const {
  std::optional<Choice> best;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    double probability = 0;
    for (const std::size_t label : nodes_[i].labels) probability += probabilities[label];
    if (probability < threshold) continue;
    const bool is_better =
        !best || nodes_[i].level > nodes_[best->node].level ||
        (nodes_[i].level == nodes_[best->node].level && probability > best->probability);
    if (is_better) best = {.node = i, .probability = probability};
  }
  return best;
}

}  // namespace incipit::policy
