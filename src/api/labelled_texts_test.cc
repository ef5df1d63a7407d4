// SPDX-License-Identifier: Apache-2.0
#include "incipit/labelled_texts.h"

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace incipit {
namespace {

class LabelledTexts : public ::testing::Test {
 protected:
  // The message of the error that reading gives.
  std::string refused(const std::string& path, std::size_t rows_max = 10) const {
    const auto texts = read_labelled_texts(path, rows_max);
    if (texts) return "not refused";
    EXPECT_EQ(texts.error().code, ErrorCode::kInvalidArgument);
    return texts.error().message;
  }

  test::TempDir dir_;
};

TEST_F(LabelledTexts, ReadsJsonlAndCsv) {
  for (const std::string& path :
       {dir_.file("a.jsonl", "{\"text\":\"one\",\"label\":\"x\"}\n{\"text\":\"two\"}\n"),
        dir_.file("a.csv", "\xef\xbb\xbflabel,text\r\nx,one\r\n,two\r\n")}) {
    const auto texts = read_labelled_texts(path);
    ASSERT_TRUE(texts) << texts.error().message;
    ASSERT_EQ(texts->size(), 2U);
    EXPECT_EQ((*texts)[0].text, "one");
    EXPECT_EQ((*texts)[0].label, "x");
    EXPECT_EQ((*texts)[1].text, "two");
    EXPECT_EQ((*texts)[1].label, "");
  }
}

TEST_F(LabelledTexts, NamesFileAndLineOfABadRow) {
  const std::string path = dir_.file("a.jsonl", "{\"text\":\"one\"}\n{\"txt\":\"two\"}\n");
  const std::string message = refused(path);
  EXPECT_NE(message.find(path), std::string::npos) << message;
  EXPECT_NE(message.find("line 2"), std::string::npos) << message;
}

TEST_F(LabelledTexts, RefusesNoRowsTooManyAndNoFile) {
  EXPECT_NE(refused(dir_.file("a.jsonl", "")).find("no rows"), std::string::npos);
  const std::string two = dir_.file("b.jsonl", "{\"text\":\"1\"}\n{\"text\":\"2\"}\n");
  EXPECT_NE(refused(two, 1).find("more than 1 row"), std::string::npos);
  EXPECT_EQ(refused(two, 2), "not refused");
  EXPECT_NE(refused(dir_.path("none.jsonl")).find("none.jsonl"), std::string::npos);
}

}  // namespace
}  // namespace incipit
