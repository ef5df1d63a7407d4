// SPDX-License-Identifier: Apache-2.0
//
// Seeds of tests on random operations: the same in every run, others in every round of a soak.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace incipit::test {

// `number` is the test's own. INCIPIT_SEED, which ./dev soak sets and prints, gives all of them
// other seeds; without it number is the seed.
inline std::uint64_t seed_of(std::uint64_t number) {
  constexpr std::uint64_t kStride = 1'000'003;  // Seeds of a soak do not meet those of a test.
  const char* soak = std::getenv("INCIPIT_SEED");
  return number + (soak == nullptr ? 0 : kStride * std::strtoull(soak, nullptr, 10));
}

}  // namespace incipit::test
