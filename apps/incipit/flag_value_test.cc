// SPDX-License-Identifier: Apache-2.0
#include "incipit/flag_value.h"

#include <gtest/gtest.h>

namespace incipit::app {
namespace {

TEST(FlagValue, TakesACountOrAWord) {
  EXPECT_EQ(count_or_word("--n", "12", "all", 99).value(), 12U);
  EXPECT_EQ(count_or_word("--n", "all", "all", 99).value(), 99U);
  for (const char* text : {"", "0", "-1", "1.5", "12x", "al"}) {
    EXPECT_FALSE(count_or_word("--n", text, "all", 99)) << text;
  }
}

TEST(FlagValue, Unescapes) { EXPECT_EQ(unescape("a\\n\\t\\\\n\\x\\"), "a\n\t\\n\\x\\"); }

TEST(FlagValue, NamesWhatCanBeChosen) {
  EXPECT_EQ(choose<int>("--f", "c", {{"a", 1}, {"b", 2}}).error().message,
            "--f: expected a|b, not 'c'");
}

}  // namespace
}  // namespace incipit::app
