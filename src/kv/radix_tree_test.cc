// SPDX-License-Identifier: Apache-2.0
#include "kv/radix_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "support/fake_runtime.h"
#include "support/must.h"
#include "support/seed.h"

namespace incipit::kv {
namespace {

using test::FakeRuntime;
using test::must;

class RadixTreeTest : public testing::Test {
 protected:
  model::Sequence computed(const TokenVector& tokens) {
    model::Sequence sequence = must(model::Sequence::create(runtime_));
    const model::Step step{.sequence = sequence.id(), .tokens = tokens, .logits_rows = {}};
    must(runtime_.evaluate({&step, 1}));
    return sequence;
  }
  Node& add(const TokenVector& tokens, std::string_view tenant = "") {
    Node& node = tree_.insert(tenant, tokens);
    if (!node.is_live) tree_.make_live(node, computed(tokens));
    tree_.check_invariants();
    return node;
  }
  void remove(Node& node) {
    tree_.make_not_live(node);
    tree_.prune(node, [](Node&) {});
    tree_.check_invariants();
  }

  FakeRuntime runtime_{{.cells = 100'000}};
  RadixTree tree_;
};

TEST_F(RadixTreeTest, MatchesSingleTokens) {
  add({1, 2, 3, 4});
  for (std::size_t length = 0; length <= 4; ++length) {
    const TokenVector all{1, 2, 3, 4};
    EXPECT_EQ(tree_.match("", TokenSpan(all).first(length)).live, length);
  }
  EXPECT_EQ(tree_.match("", TokenVector{1, 2, 9}).length, 2U);
  EXPECT_EQ(tree_.match("", TokenVector{9}).length, 0U);
  EXPECT_EQ(tree_.match("other", TokenVector{1, 2}).node, nullptr);
}

TEST_F(RadixTreeTest, SplitsAnEdgeWhereAMatchEndsInside) {
  Node& first = add({1, 2, 3, 4});
  Node& second = add({1, 2, 7});
  EXPECT_EQ(tree_.node_count(), 3U);
  EXPECT_EQ(first.parent, second.parent);
  EXPECT_EQ(first.parent->depth, 2U);
  EXPECT_EQ(RadixTree::path(first), (TokenVector{1, 2, 3, 4}));
  EXPECT_EQ(RadixTree::path(second), (TokenVector{1, 2, 7}));
  EXPECT_EQ(tree_.live_cells(""), 5U);
}

TEST_F(RadixTreeTest, TheLastChildHandsItsCellsUp) {
  Node& first = add({1, 2, 3, 4});
  Node& second = add({1, 2, 7});
  Node& parent = *first.parent;
  remove(first);
  EXPECT_FALSE(parent.owns_sequence());
  remove(second);
  EXPECT_TRUE(parent.owns_sequence());
  EXPECT_EQ(parent.sequence.length(), 2U);
  remove(parent);
  EXPECT_EQ(tree_.node_count(), 0U);
  EXPECT_EQ(runtime_.sequence_count(), 0U);
}

TEST_F(RadixTreeTest, ALongerPathTakesTheSequenceOver) {
  Node& shorter = add({1, 2});
  add({1, 2, 3});
  EXPECT_FALSE(shorter.owns_sequence());
  EXPECT_EQ(runtime_.sequence_count(), 1U);
}

// Against a set of all openings of all inserted prompts.
TEST_F(RadixTreeTest, AgreesWithAPlainSetOfOpenings) {
  std::mt19937_64 random(test::seed_of(7));
  std::set<TokenVector> kept;  // Paths of nodes that own a sequence.
  for (int round = 0; round < 3000; ++round) {
    TokenVector tokens(1 + random() % 12);
    for (Token& token : tokens) token = static_cast<Token>(random() % 3);
    std::size_t longest = 0;
    for (const TokenVector& path : kept) {
      const auto [end, unused] = std::ranges::mismatch(tokens, path);
      longest = std::max(longest, static_cast<std::size_t>(end - tokens.begin()));
    }
    const Match match = tree_.match("", tokens);
    ASSERT_EQ(match.length, longest);
    ASSERT_EQ(match.live, longest);
    if (random() % 3 != 0 || kept.empty()) {
      add(tokens);
    } else {
      std::vector<Node*> owners;
      tree_.visit([&](Node& node) {
        if (node.owns_sequence()) owners.push_back(&node);
      });
      remove(*owners[random() % owners.size()]);
    }
    kept.clear();
    tree_.visit([&](Node& node) {
      if (node.owns_sequence()) kept.insert(RadixTree::path(node));
    });
  }
}

}  // namespace
}  // namespace incipit::kv
