// SPDX-License-Identifier: Apache-2.0
#include "policy/retention.h"

#include <algorithm>
#include <limits>

namespace incipit::policy {

double recompute_cost(std::size_t begin, std::size_t end, double tokens_per_doubling) {
  const auto from = static_cast<double>(begin);
  const auto to = static_cast<double>(end);
  return (to - from) * (1 + (from + to) / 2 / tokens_per_doubling);
}

double value_of(const Use& use, double cost, std::size_t cells, double floor) {
  const auto size = static_cast<double>(std::max<std::size_t>(cells, 1));
  return floor + static_cast<double>(use.hits + 1) * cost / size;
}

bool is_protected(const Use& use, std::int64_t now_ms) {
  return use.priority > 0 && (use.protected_until_ms == kNever || now_ms < use.protected_until_ms);
}

bool is_expired(const Use& use, std::int64_t now_ms) {
  return use.expires_at_ms != kNever && now_ms >= use.expires_at_ms;
}

Rank rank_of(const Use& use, std::int64_t now_ms, bool admits_protection) {
  if (is_expired(use, now_ms)) return {.priority = std::numeric_limits<int>::min()};
  const bool counts = use.priority < 0 || (admits_protection && is_protected(use, now_ms));
  return {.priority = counts ? use.priority : 0, .value = use.value};
}

namespace {

// "Never" is later than any time.
std::int64_t later(std::int64_t a, std::int64_t b) {
  return a == kNever || b == kNever ? kNever : std::max(a, b);
}

}  // namespace

void inherit(Use& parent, const Use& child) {
  parent.expires_at_ms = later(parent.expires_at_ms, child.expires_at_ms);
  if (child.priority < parent.priority) return;
  parent.protected_until_ms = child.priority > parent.priority
                                  ? child.protected_until_ms
                                  : later(parent.protected_until_ms, child.protected_until_ms);
  parent.priority = child.priority;
}

}  // namespace incipit::policy
