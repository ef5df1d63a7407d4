// SPDX-License-Identifier: Apache-2.0
#include "incipit/html_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string_view>

namespace incipit::app {
namespace {

TEST(HtmlText, WritesNumbersForPeople) {
  EXPECT_EQ(fixed_number(80.071, 2), "80.07");
  EXPECT_EQ(fixed_number(std::nan(""), 1), "n/a");
  EXPECT_EQ(fixed_number(1e300, 1), "n/a");
  EXPECT_EQ(grouped_number(0), "0");
  EXPECT_EQ(grouped_number(999), "999");
  EXPECT_EQ(grouped_number(2000), "2,000");
  EXPECT_EQ(grouped_number(1234567), "1,234,567");
}

TEST(HtmlText, EscapesMarkupAndControlCharactersAndKeepsTheRest) {
  EXPECT_EQ(escape_html("<a b='c' d=\"e\">&"), "&lt;a b=&#39;c&#39; d=&quot;e&quot;&gt;&amp;");
  EXPECT_EQ(escape_html(std::string_view("a\0b\x1b\x7f", 5)), "a&#xFFFD;b&#xFFFD;&#xFFFD;");
  EXPECT_EQ(escape_html("line\n\ttab M\xc3\xbcller"), "line\n\ttab M\xc3\xbcller");
}

}  // namespace
}  // namespace incipit::app
