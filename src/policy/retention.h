// SPDX-License-Identifier: Apache-2.0
//
// What stays when room is short: pure functions of what was used, when, and at which cost.
//
// The order is Greedy-Dual-Size-Frequency (Cherkasova 1998, after Cao and Irani, USITS 1997): the
// value of a prefix is the milliseconds that one of its cells saves, times its uses, plus the
// value of what was evicted last. So what was not used for a while loses against what is new,
// and the order changes only for what is touched: a set keeps it in O(log n).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace incipit::policy {

inline constexpr std::int64_t kNever = 0;

// What is remembered of a prefix. Times are milliseconds of a steady clock.
struct Use {
  std::uint64_t hits = 0;
  double value = 0;                          // Set by value_of() at each use.
  int priority = 0;                          // Higher stays longer.
  std::int64_t protected_until_ms = kNever;  // After that the priority is 0 again: a soft pin.
  std::int64_t expires_at_ms = kNever;
};

// The order of eviction: the least goes first.
struct Rank {
  int priority = 0;
  double value = 0;

  auto operator<=>(const Rank&) const = default;
};

// Cost of computing a token at a depth, in units of one token at the start: attention reads every
// cell before it. `tokens_per_doubling` is the depth at which a token costs twice as much.
[[nodiscard]] double recompute_cost(std::size_t begin, std::size_t end, double tokens_per_doubling);

// `floor`: the value of what was evicted last.
[[nodiscard]] double value_of(const Use& use, double cost, std::size_t cells, double floor);

// What has expired goes first. A priority that has run out, or that the cap on protected cells does
// not admit, counts as 0.
[[nodiscard]] Rank rank_of(const Use& use, std::int64_t now_ms, bool admits_protection);

[[nodiscard]] bool is_protected(const Use& use, std::int64_t now_ms);
[[nodiscard]] bool is_expired(const Use& use, std::int64_t now_ms);

// A prefix is used by what continues it: it stays at least as long and as well protected.
void inherit(Use& parent, const Use& child);

}  // namespace incipit::policy
