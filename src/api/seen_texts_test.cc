// SPDX-License-Identifier: Apache-2.0
#include "api/seen_texts.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <string>

namespace incipit::api {
namespace {

RC_GTEST_PROP(SeenTexts, AgreesWithAMap, (const std::vector<std::uint8_t>& numbers)) {
  SeenTexts seen;
  std::map<std::string, std::uint64_t> oracle;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::string text = std::to_string(numbers[i]);
    const auto found = seen.find(text_key(text));
    RC_ASSERT(found.has_value() == oracle.contains(text));
    if (found) {
      RC_ASSERT(*found == oracle[text]);
    } else {
      seen.insert(text_key(text), i);
      oracle[text] = i;
    }
  }
  RC_ASSERT(seen.size() == oracle.size());
}

TEST(SeenTexts, StaysUnder64BytesAText) {
  SeenTexts seen;
  std::uint64_t state = 7;
  const auto random = [&state] {  // splitmix64
    state += 0x9E3779B97F4A7C15U;
    std::uint64_t z = (state ^ (state >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  };
  for (std::uint64_t i = 0; i < 200'000; ++i) {
    seen.insert({.high = random(), .low = random()}, i);
    if (i > 10'000 && i % 997 == 0) {
      ASSERT_LT(seen.bytes(), 60 * seen.size());
    }
  }
}

}  // namespace
}  // namespace incipit::api
