// SPDX-License-Identifier: Apache-2.0
#include "base/counted.h"

#include <gtest/gtest.h>

namespace incipit {
namespace {

TEST(Counted, OnlyOneIsSingular) {
  EXPECT_EQ(counted(0, "row"), "0 rows");
  EXPECT_EQ(counted(1, "row"), "1 row");
  EXPECT_EQ(counted(2, "row"), "2 rows");
  EXPECT_EQ(counted(21, "row"), "21 rows");
}

TEST(Counted, APluralThatIsNotAnSIsGiven) {
  EXPECT_EQ(counted(1, "pass", "passes"), "1 pass");
  EXPECT_EQ(counted(18'446'744'073'709'551'615U, "prefix", "prefixes"),
            "18446744073709551615 prefixes");
}

}  // namespace
}  // namespace incipit
