// SPDX-License-Identifier: Apache-2.0
//
// Whether to restore cells or to compute them: what was measured to be faster.
//
// Both rates are moving averages. Until both are known, restoring is tried. A level that loses is
// tried again after every kRetry lookups, since its files may be in the page cache by then.
#pragma once

#include <cstddef>
#include <cstdint>

namespace incipit::kv {

class BreakEven {
 public:
  void learn_compute(std::size_t tokens, double ms) { learn(ms_per_token_computed_, tokens, ms); }
  void learn_restore(std::size_t tokens, double ms) { learn(ms_per_token_restored_, tokens, ms); }

  [[nodiscard]] bool restore_wins() {
    if (ms_per_token_computed_ == 0 || ms_per_token_restored_ <= ms_per_token_computed_)
      return true;
    return ++refusals_ % kRetry == 0;
  }

 private:
  static constexpr std::uint64_t kRetry = 16;
  static constexpr double kWeight = 0.2;

  static void learn(double& rate, std::size_t tokens, double ms) {
    if (tokens == 0) return;
    const double now = ms / static_cast<double>(tokens);
    rate = rate == 0 ? now : rate + kWeight * (now - rate);
  }

  double ms_per_token_computed_ = 0;
  double ms_per_token_restored_ = 0;
  std::uint64_t refusals_ = 0;
};

}  // namespace incipit::kv
