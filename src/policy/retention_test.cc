// SPDX-License-Identifier: Apache-2.0
#include "policy/retention.h"

#include <gtest/gtest.h>

namespace incipit::policy {
namespace {

TEST(Retention, DeeperTokensCostMore) {
  EXPECT_NEAR(recompute_cost(0, 10, 1e12), 10, 1e-6);
  EXPECT_GT(recompute_cost(1000, 1010, 1000), 1.9 * recompute_cost(0, 10, 1000));
  EXPECT_DOUBLE_EQ(recompute_cost(0, 500, 1000) + recompute_cost(500, 900, 1000),
                   recompute_cost(0, 900, 1000));
}

TEST(Retention, UsesAndCostAndAgeMakeTheValue) {
  const Use once{.hits = 0};
  const Use often{.hits = 9};
  EXPECT_GT(value_of(often, 100, 10, 0), value_of(once, 100, 10, 0));
  EXPECT_GT(value_of(once, 200, 10, 0), value_of(once, 100, 10, 0));
  EXPECT_GT(value_of(once, 100, 10, 500), value_of(often, 100, 10, 0))
      << "what is new wins at last";
}

TEST(Retention, ASoftPinRunsOut) {
  const Use pinned{.value = 1, .priority = 5, .protected_until_ms = 100};
  const Use other{.value = 2};
  EXPECT_GT(rank_of(pinned, 99, true), rank_of(other, 99, true));
  EXPECT_LT(rank_of(pinned, 100, true), rank_of(other, 100, true));
  EXPECT_LT(rank_of(pinned, 99, false), rank_of(other, 99, true)) << "beyond the cap";
}

TEST(Retention, WhatHasExpiredGoesFirst) {
  const Use expired{.value = 9, .priority = 5, .expires_at_ms = 10};
  EXPECT_LT(rank_of(expired, 10, true), rank_of({.priority = -3}, 10, true));
  EXPECT_GT(rank_of(expired, 9, true), rank_of({.value = 20}, 9, true));
}

TEST(Retention, AParentOutlivesItsChildren) {
  Use parent{.priority = 1, .protected_until_ms = 50, .expires_at_ms = 60};
  inherit(parent, {.priority = 1, .protected_until_ms = 80, .expires_at_ms = 40});
  EXPECT_EQ(parent.protected_until_ms, 80);
  EXPECT_EQ(parent.expires_at_ms, 60);
  inherit(parent, {.priority = 2, .protected_until_ms = 10});
  EXPECT_EQ(parent.priority, 2);
  EXPECT_EQ(parent.protected_until_ms, 10);
  EXPECT_EQ(parent.expires_at_ms, kNever);
}

}  // namespace
}  // namespace incipit::policy
