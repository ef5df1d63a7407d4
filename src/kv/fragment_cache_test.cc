// SPDX-License-Identifier: Apache-2.0
#include "kv/fragment_cache.h"

#include <gtest/gtest.h>

namespace incipit::kv {
namespace {

std::vector<std::byte> cells(std::size_t count, int value) {
  return std::vector<std::byte>(count, static_cast<std::byte>(value));
}

const TokenVector kOne{1, 2, 3};
const TokenVector kTwo{1, 2, 4};
const TokenVector kThree{9};

TEST(FragmentCache, FindsWhatWasInsertedAndNothingElse) {
  FragmentCache cache(100);
  cache.insert({.tenant = "a", .tokens = kOne, .head = 1}, cells(10, 7));
  const auto* found = cache.find({.tenant = "a", .tokens = kOne, .head = 1});
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(*found, cells(10, 7));
  for (const FragmentKey& other :
       {FragmentKey{.tenant = "b", .tokens = kOne, .head = 1},
        FragmentKey{.tenant = "a", .tokens = kTwo, .head = 1},
        FragmentKey{.tenant = "a", .tokens = kOne, .head = 2},
        FragmentKey{.tenant = "a", .tokens = TokenSpan(kOne).first(2), .head = 1}}) {
    EXPECT_EQ(cache.find(other), nullptr);
    EXPECT_FALSE(cache.contains(other));
  }
}

TEST(FragmentCache, TheLeastRecentlyUsedGoesFirst) {
  FragmentCache cache(100);
  cache.insert({.tokens = kOne}, cells(40, 1));
  cache.insert({.tokens = kTwo}, cells(40, 2));
  ASSERT_NE(cache.find({.tokens = kOne}), nullptr);
  cache.insert({.tokens = kThree}, cells(40, 3));
  EXPECT_EQ(cache.bytes(), 80U);
  EXPECT_TRUE(cache.contains({.tokens = kOne}));
  EXPECT_FALSE(cache.contains({.tokens = kTwo}));
  EXPECT_TRUE(cache.contains({.tokens = kThree}));
}

TEST(FragmentCache, ForgetsATenant) {
  FragmentCache cache(100);
  for (const char* tenant : {"a", "b"}) {
    cache.insert({.tenant = tenant, .tokens = kOne}, cells(10, 1));
    cache.insert({.tenant = tenant, .tokens = kTwo}, cells(10, 2));
  }
  cache.drop("a");
  EXPECT_FALSE(cache.contains({.tenant = "a", .tokens = kOne}));
  EXPECT_FALSE(cache.contains({.tenant = "a", .tokens = kTwo}));
  EXPECT_TRUE(cache.contains({.tenant = "b", .tokens = kOne}));
  EXPECT_TRUE(cache.contains({.tenant = "b", .tokens = kTwo}));
  EXPECT_EQ(cache.bytes(), 20U);
}

TEST(FragmentCache, NeverHoldsMoreThanItMay) {
  FragmentCache cache(100);
  cache.insert({.tokens = kOne}, cells(60, 1));
  cache.insert({.tokens = kTwo}, cells(101, 2));
  EXPECT_TRUE(cache.contains({.tokens = kOne})) << "what cannot enter pushes nobody out";
  EXPECT_EQ(cache.size(), 1U);
  cache.insert({.tokens = kOne}, cells(90, 9));
  EXPECT_EQ(cache.bytes(), 60U) << "the first cells stay";
  cache.insert({.tokens = kTwo}, cells(100, 2));
  EXPECT_EQ(cache.bytes(), 100U);
  EXPECT_EQ(cache.size(), 1U);
  FragmentCache off(0);
  off.insert({.tokens = kOne}, cells(1, 1));
  EXPECT_EQ(off.size(), 0U);
}

TEST(FragmentCache, ErasedCellsAreGone) {
  FragmentCache cache(100);
  cache.insert({.tokens = kOne}, cells(60, 1));
  cache.erase({.tokens = kTwo});
  cache.erase({.tokens = kOne});
  EXPECT_EQ(cache.bytes(), 0U);
  EXPECT_FALSE(cache.contains({.tokens = kOne}));
}

}  // namespace
}  // namespace incipit::kv
