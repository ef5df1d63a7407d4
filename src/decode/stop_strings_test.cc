// SPDX-License-Identifier: Apache-2.0
#include "decode/stop_strings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/utf8.h"
#include "support/seed.h"

namespace incipit::decode {
namespace {

TEST(StopStrings, HoldsBackWhatMayBecomeAStop) {
  StopStrings stops({"###"});
  EXPECT_EQ(stops.push("a#"), "a");
  EXPECT_EQ(stops.push("#b"), "##b");
  EXPECT_EQ(stops.push("c##"), "c");
  EXPECT_EQ(stops.push("#d"), "");
  EXPECT_TRUE(stops.is_stopped());
  EXPECT_EQ(stops.push("e") + stops.flush(), "");
}

TEST(StopStrings, GivesWholeCharacters) {
  StopStrings stops({});
  EXPECT_EQ(stops.push("caf\xC3"), "caf");
  EXPECT_EQ(stops.push("\xA9 \xF0\x9F"), "\u00e9 ");
  EXPECT_EQ(stops.push("\x98\x80"), "\U0001F600");
  EXPECT_EQ(stops.push("\xE2\x82"), "");
  EXPECT_EQ(stops.flush(), "\uFFFD") << "a character that never ended";
}

// The oracle sees the whole text at once.
TEST(StopStrings, AnySplitGivesTheTextBeforeTheFirstStop) {
  std::mt19937_64 random(test::seed_of(3));
  const auto letters = [&](std::size_t most) {
    std::string text(1 + random() % most, 'a');
    for (char& c : text) c = "ab\xC3\xA9\xE2"[random() % 5];
    return text;
  };
  std::size_t stopped = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::string> stops;
    for (std::size_t i = random() % 3; i > 0; --i) stops.push_back(letters(4));
    const std::string text = letters(30);
    StopStrings stream(stops);
    std::string got;
    std::size_t at = 0;
    std::size_t seen = 0;
    while (at < text.size() && !stream.is_stopped()) {
      const std::size_t size = 1 + random() % 5;
      got += stream.push(text.substr(at, size));
      at = seen = std::min(at + size, text.size());
    }
    got += stream.flush();
    // What came in pieces is judged as far as it came; the first stop that was complete by then.
    std::size_t first = std::string::npos;
    for (const std::string& stop : stops) first = std::min(first, text.substr(0, seen).find(stop));
    EXPECT_EQ(stream.is_stopped(), first != std::string::npos);
    stopped += stream.is_stopped() ? 1 : 0;
    EXPECT_TRUE(is_valid_utf8(got));
    const std::string expected = repair_utf8(text.substr(0, std::min(first, seen)), nullptr);
    EXPECT_EQ(got, expected) << "round " << round;
  }
  EXPECT_GT(stopped, 1000U);
}

}  // namespace
}  // namespace incipit::decode
