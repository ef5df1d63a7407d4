// SPDX-License-Identifier: Apache-2.0
//
// Remembers what was cached once, to tell "evicted" from "never cached".
//
// Holds 64-bit hashes of openings: where each ended, and at every kStride tokens before, so that a
// prompt with another question behind the same opening is recognised. The oldest are forgotten
// first. A collision gives a wrong reason or an early second sight, never a wrong answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "incipit/kv.h"
#include "incipit/types.h"

namespace incipit::kv {

class EvictedOpenings {
 public:
  void add(std::string_view tenant, TokenSpan path, KvMiss reason) {
    std::uint64_t key = seed(tenant);
    for (std::size_t i = 0; i < path.size(); ++i) {
      key = step(key, path[i]);
      if ((i + 1) % kStride == 0 || i + 1 == path.size()) remember(key, reason);
    }
  }

  // How many of the first tokens were pushed out before.
  [[nodiscard]] std::size_t seen(std::string_view tenant, TokenSpan tokens) const {
    std::size_t longest = 0;
    if (reasons_.empty()) return longest;
    std::uint64_t key = seed(tenant);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      key = step(key, tokens[i]);
      const auto found = reasons_.find(key);
      if (found != reasons_.end() && found->second == KvMiss::kEvicted) longest = i + 1;
    }
    return longest;
  }

  // Why an opening of `tokens` that is longer than `matched` is not there any more.
  [[nodiscard]] std::optional<KvMiss> reason(std::string_view tenant, TokenSpan tokens,
                                             std::size_t matched) const {
    if (reasons_.empty()) return std::nullopt;
    std::uint64_t key = seed(tenant);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      key = step(key, tokens[i]);
      if (i < matched) continue;
      if (const auto found = reasons_.find(key); found != reasons_.end()) return found->second;
    }
    return std::nullopt;
  }

 private:
  static constexpr std::size_t kMost = 50'000;
  static constexpr std::size_t kStride = 32;

  void remember(std::uint64_t key, KvMiss reason) {
    if (!reasons_.insert_or_assign(key, reason).second) return;
    order_.push_back(key);
    if (order_.size() <= kMost) return;
    reasons_.erase(order_.front());
    order_.pop_front();
  }
  static std::uint64_t step(std::uint64_t key, Token token) {
    // One round of splitmix64 (Steele, Lea, Flood 2014).
    key += 0x9e3779b97f4a7c15U + static_cast<std::uint32_t>(token);
    key = (key ^ (key >> 30U)) * 0xbf58476d1ce4e5b9U;
    key = (key ^ (key >> 27U)) * 0x94d049bb133111ebU;
    return key ^ (key >> 31U);
  }
  static std::uint64_t seed(std::string_view tenant) {
    std::uint64_t key = 1;
    for (const char c : tenant) key = step(key, c);
    return key;
  }
  std::unordered_map<std::uint64_t, KvMiss> reasons_;
  std::deque<std::uint64_t> order_;
};

}  // namespace incipit::kv
