// SPDX-License-Identifier: Apache-2.0
#include "model/kv_blocks.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>
#include <vector>

namespace incipit::model {
namespace {

TEST(KvBlocks, GivesEveryBlockOnceAndThenNone) {
  KvBlocks blocks(3);
  EXPECT_EQ(blocks.count(), 3U);
  std::set<BlockIndex> given;
  for (int i = 0; i < 3; ++i) given.insert(blocks.take().value());
  EXPECT_EQ(given, (std::set<BlockIndex>{0, 1, 2}));
  EXPECT_FALSE(blocks.take());
  EXPECT_EQ(blocks.free_count(), 0U);
}

TEST(KvBlocks, FreesASharedBlockWithItsLastOwner) {
  KvBlocks blocks(1);
  const BlockIndex block = blocks.take().value();
  EXPECT_FALSE(blocks.is_shared(block));
  blocks.share(block);
  EXPECT_TRUE(blocks.is_shared(block));
  blocks.release(block);
  EXPECT_FALSE(blocks.is_shared(block));
  EXPECT_EQ(blocks.free_count(), 0U);
  blocks.release(block);
  EXPECT_EQ(blocks.free_count(), 1U);
}

TEST(KvBlocks, OfNothingHasNothing) {
  KvBlocks blocks(0);
  EXPECT_FALSE(blocks.take());
}

TEST(KvBlocksDeathTest, AFreeBlockIsNeitherSharedNorReleased) {
  KvBlocks blocks(1);
  EXPECT_DEATH(blocks.share(0), "a free block cannot be shared");
  EXPECT_DEATH(blocks.release(0), "a free block cannot be released");
}

// The oracle is a plain map from a block to the number of its owners.
RC_GTEST_PROP(KvBlocks, AgreeWithAMapOfOwners, ()) {
  const auto count = *rc::gen::inRange<std::size_t>(1, 12);
  KvBlocks blocks(count);
  std::map<BlockIndex, int> owners;
  const auto operations = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 300));
  for (const int operation : operations) {
    const auto held =
        owners.empty() ? owners.end()
                       : std::next(owners.begin(), operation / 3 % static_cast<int>(owners.size()));
    if (operation % 3 == 0 || held == owners.end()) {
      const auto block = blocks.take();
      RC_ASSERT(block.has_value() == (owners.size() < count));
      if (block) {
        RC_ASSERT(!owners.contains(*block));
        owners[*block] = 1;
      }
    } else if (operation % 3 == 1) {
      blocks.share(held->first);
      ++held->second;
    } else {
      blocks.release(held->first);
      if (--held->second == 0) owners.erase(held);
    }
    RC_ASSERT(blocks.free_count() == count - owners.size());
    for (const auto& [block, number] : owners) RC_ASSERT(blocks.is_shared(block) == (number > 1));
  }
}

}  // namespace
}  // namespace incipit::model
