// SPDX-License-Identifier: Apache-2.0
#include "policy/label_paths.h"

#include <gtest/gtest.h>

namespace incipit::policy {
namespace {

std::vector<LabelDefinition> labels_of(const std::vector<std::string>& names) {
  std::vector<LabelDefinition> labels;
  for (const std::string& name : names) labels.push_back({.name = name});
  return labels;
}

const LabelPaths kPaths(labels_of({"a/x/1", "a/x/2", "a/y", "b", "b/z"}));

std::string path_at(std::vector<double> probabilities, double threshold) {
  const auto choice = kPaths.deepest(probabilities, threshold);
  return choice ? kPaths.nodes()[choice->node].path : "nothing";
}

TEST(LabelPaths, ANodeSumsWhatIsAtAndBelowIt) {
  ASSERT_EQ(kPaths.nodes().size(), 7U);
  EXPECT_EQ(kPaths.nodes()[0].path, "a");
  EXPECT_EQ(kPaths.nodes()[0].labels, (std::vector<std::size_t>{0, 1, 2}));
  EXPECT_FALSE(kPaths.nodes()[0].label);
  EXPECT_EQ(kPaths.nodes()[5].path, "b");
  EXPECT_EQ(kPaths.nodes()[5].label, 3U);
  EXPECT_EQ(kPaths.nodes()[5].labels, (std::vector<std::size_t>{3, 4}));
  const auto choice = kPaths.deepest(std::vector<double>{0.25, 0.25, 0.25, 0.125, 0.125}, 0.5);
  EXPECT_DOUBLE_EQ(choice->probability, 0.5);
}

TEST(LabelPaths, TheDeepestNodeThatReachesTheThresholdIsReported) {
  EXPECT_EQ(path_at({0.6, 0.1, 0.1, 0.1, 0.1}, 0.5), "a/x/1");
  EXPECT_EQ(path_at({0.3, 0.3, 0.2, 0.1, 0.1}, 0.5), "a/x");
  EXPECT_EQ(path_at({0.2, 0.2, 0.2, 0.2, 0.2}, 0.5), "a");
  EXPECT_EQ(path_at({0.1, 0.1, 0.2, 0.5, 0.1}, 0.55), "b");
  EXPECT_EQ(path_at({0.2, 0.2, 0.1, 0.25, 0.25}, 0.7), "nothing");
}

TEST(LabelPaths, EquallyDeepNodesGoByProbabilityThenByDeclaration) {
  EXPECT_EQ(path_at({0.2, 0.4, 0.2, 0.1, 0.1}, 0.1), "a/x/2");
  EXPECT_EQ(path_at({0.25, 0.25, 0.25, 0.25, 0}, 0.2), "a/x/1");
}

}  // namespace
}  // namespace incipit::policy
