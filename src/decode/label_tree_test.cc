// SPDX-License-Identifier: Apache-2.0
#include "decode/label_tree.h"

#include <gtest/gtest.h>

namespace incipit::decode {
namespace {

constexpr Token kEnd = 9;
using Kind = LabelTree::EdgeKind;

const std::vector<std::string> kNames{"accounting", "accounts", "access"};
const std::vector<Surface> kAcc{
    {0, "accounting", {1, 2}}, {1, "accounts", {1, 3}}, {2, "access", {4}}};

Result<LabelTree> build(const std::vector<std::string>& names, const std::vector<Surface>& surfaces,
                        LabelTreeOptions options) {
  options.end = kEnd;
  return LabelTree::build(names, surfaces, options);
}

// Public report (C10): labels that begin with one token ended in an arbitrary one of them.
TEST(LabelTree, AutoTakesSequencesWhereFirstTokensCollide) {
  const auto tree = build(kNames, kAcc, {});
  ASSERT_TRUE(tree) << tree.error().message;
  EXPECT_EQ(tree->scoring(), Scoring::kSequence);
  const std::vector<Surface> distinct{{0, "a", {1, 2}}, {1, "b", {3, 2}}, {2, "c", {4}}};
  EXPECT_EQ(build(kNames, distinct, {})->scoring(), Scoring::kFirst);
}

TEST(LabelTree, FirstModeRefusesACollisionAndNamesBothLabels) {
  const auto tree = build(kNames, kAcc, {.scoring = Scoring::kFirst});
  ASSERT_FALSE(tree);
  EXPECT_EQ(tree.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(tree.error().message.contains("\"accounting\"")) << tree.error().message;
  EXPECT_TRUE(tree.error().message.contains("\"accounts\"")) << tree.error().message;
}

TEST(LabelTree, FirstModeIsOneRowWhateverTheNumberOfLabels) {
  std::vector<std::string> names;
  std::vector<Surface> surfaces;
  for (Token i = 0; i < 77; ++i) {
    names.push_back("label " + std::to_string(i));
    surfaces.push_back({static_cast<std::size_t>(i), names.back(), {100 + i, 5}});
  }
  const auto tree = build(names, surfaces, {.scoring = Scoring::kFirst});
  ASSERT_TRUE(tree);
  ASSERT_EQ(tree->segments().size(), 1U);
  EXPECT_EQ(tree->segments()[0].edges[0].size(), 77U);
  EXPECT_EQ(tree->tokens_deepest(), 0U);
}

TEST(LabelTree, FirstModeCountsSynonymsWithOneStartOnce) {
  const std::vector<Surface> surfaces{{0, "bill", {1}}, {0, "bills", {1, 2}}, {1, "other", {3}}};
  const auto tree = build({"billing", "other"}, surfaces, {});
  ASSERT_TRUE(tree);
  EXPECT_EQ(tree->scoring(), Scoring::kFirst);
  EXPECT_EQ(tree->surfaces().size(), 2U);
}

// Public report (C49): a token that labels share has one row of logits.
TEST(LabelTree, SharesNodesAndRunsOnWhereThereIsNoChoice) {
  // 1 2 3 | 1 2 4 5 6 | 7
  const std::vector<Surface> surfaces{
      {0, "x", {1, 2, 3}}, {1, "y", {1, 2, 4, 5, 6}}, {2, "z", {7}}};
  const auto tree = build({"x", "y", "z"}, surfaces, {.scoring = Scoring::kSequence});
  ASSERT_TRUE(tree);
  const auto segments = tree->segments();
  ASSERT_EQ(segments.size(), 5U);  // root, [1 2], [3], [4 5 6], [7]
  EXPECT_TRUE(segments[0].tokens.empty());
  EXPECT_EQ(segments[1].tokens, (TokenVector{1, 2}));
  EXPECT_EQ(segments[1].edges[0][0].kind, Kind::kNextRow);
  EXPECT_EQ(segments[1].edges[1].size(), 2U);
  EXPECT_EQ(segments[2].tokens, (TokenVector{3}));
  EXPECT_EQ(segments[3].tokens, (TokenVector{4, 5, 6}));
  EXPECT_EQ(segments[3].edges[2][0].token, kEnd);
  EXPECT_EQ(segments[3].edges[2][0].kind, Kind::kSurface);
  EXPECT_EQ(tree->tokens_deepest(), 5U);
}

TEST(LabelTree, ALabelThatBeginsAnotherStaysInOneSegment) {
  const std::vector<Surface> surfaces{{0, "time", {1}}, {1, "timer", {1, 2}}};
  const auto tree = build({"time", "timer"}, surfaces, {});
  ASSERT_TRUE(tree);
  ASSERT_EQ(tree->segments().size(), 2U);
  const LabelTree::Segment& segment = tree->segments()[1];
  EXPECT_EQ(segment.tokens, (TokenVector{1, 2}));
  EXPECT_EQ(segment.edges[0].size(), 2U);
  EXPECT_EQ(tree->surfaces()[1].tokens, 3U);
}

TEST(LabelTree, WithoutTheEndTokenNoSurfaceMayBeginAnother) {
  const std::vector<Surface> surfaces{{0, "timer", {1, 2}}, {1, "time", {1}}};
  const auto tree = build({"timer", "time"}, surfaces, {.end_token = false});
  ASSERT_FALSE(tree);
  EXPECT_TRUE(tree.error().message.contains("labels.time")) << tree.error().message;
  const auto disjoint = build(kNames, kAcc, {.end_token = false});
  ASSERT_TRUE(disjoint);
  EXPECT_EQ(disjoint->segments().size(), 2U);
  EXPECT_EQ(disjoint->tokens_deepest(), 1U);
}

TEST(LabelTree, NormalisationByLengthNeedsSequences) {
  const std::vector<Surface> surfaces{{0, "a", {1, 2}}, {1, "b", {3}}};
  for (const Normalise kind : {Normalise::kMean, Normalise::kChar}) {
    const auto first = build({"a", "b"}, surfaces, {.scoring = Scoring::kFirst, .normalise = kind});
    ASSERT_FALSE(first);
    EXPECT_TRUE(first.error().message.contains("normalise")) << first.error().message;
    EXPECT_EQ(build({"a", "b"}, surfaces, {.normalise = kind})->scoring(), Scoring::kSequence);
  }
}

TEST(LabelTree, RefusesSurfacesThatCannotBeScored) {
  const auto message = [](const std::vector<Surface>& surfaces) {
    const auto tree = build({"a", "b"}, surfaces, {});
    return tree ? "" : tree.error().message;
  };
  EXPECT_TRUE(message({{0, "x", {1}}, {1, "x", {1}}}).contains("\"a\""));
  EXPECT_TRUE(message({{0, "x", {1}}, {0, "y", {1}}, {1, "z", {2}}}).contains("distinct"));
  EXPECT_TRUE(message({{0, "x", {}}, {1, "y", {1}}}).contains("labels.a"));
  EXPECT_TRUE(message({{0, "x", {1, kEnd}}, {1, "y", {1}}}).contains("end-of-turn"));
  EXPECT_TRUE(message({{0, "x", {1}}}).contains("labels.b"));
}

}  // namespace
}  // namespace incipit::decode
