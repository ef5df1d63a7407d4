// SPDX-License-Identifier: Apache-2.0
//
// What the benchmark asks about. What it measures needs a model: tests/cli.
#include "incipit/bench_fragments.h"

#include <gtest/gtest.h>

namespace incipit::app {
namespace {

TEST(BenchFragmentsText, ParagraphsAreJoinedUntilTheyAreLongEnough) {
  EXPECT_EQ(passages_of("one\n\ntwo\n\n\n\nthree\n\nfour", 7),
            (std::vector<std::string>{"one\ntwo", "three\nfour"}));
  EXPECT_TRUE(passages_of("too short", 100).empty());
  EXPECT_TRUE(passages_of("", 1).empty());
}

TEST(BenchFragmentsText, AQuoteIsFromTheMiddle) {
  EXPECT_EQ(quote_of("a b c d e f g h i j k l m n o p"), "e f g h i j k l");
  EXPECT_EQ(quote_of("a b c d e f g h i j k l m n o"), "");
}

}  // namespace
}  // namespace incipit::app
