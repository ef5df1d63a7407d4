// SPDX-License-Identifier: Apache-2.0
#include "incipit/progress_line.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/temp_dir.h"

namespace incipit::app {
namespace {

Progress at(std::uint64_t rows) {
  return {.rows = rows, .rows_in_all = 600, .ok = rows, .review = 0, .errors = 0};
}

std::string drawn(ProgressLine::Style style,
                  const std::vector<std::pair<std::uint64_t, double>>& steps) {
  const test::TempDir dir;
  std::FILE* err = std::fopen(dir.path("err").c_str(), "w");
  ProgressLine line(err, style);
  for (const auto& [rows, elapsed_s] : steps) line.update(at(rows), elapsed_s);
  line.finish(steps.back().second);
  std::fclose(err);
  return dir.read("err");
}

TEST(ProgressLine, SaysWhatWasAgreed) {
  EXPECT_EQ(
      progress_text({.rows = 240, .rows_in_all = 600, .ok = 231, .review = 8, .errors = 1}, 32),
      "classify 240/600 40% [00:32<00:48, 7.5 tickets/s] ok 231 review 8 err 1");
  EXPECT_EQ(progress_text({.rows = 240, .ok = 240}, 3700),
            "classify 240 [1:01:40, 0.1 tickets/s] ok 240 review 0 err 0");
  EXPECT_EQ(progress_bar(0.5, 4), "##--");
}

TEST(ProgressLine, WritesALineNowAndThenWhereThereIsNoTerminal) {
  const std::string text = drawn({}, {{10, 1}, {20, 2}, {40, 3}, {41, 4}, {42, 14}, {600, 15}});
  EXPECT_EQ(std::ranges::count(text, '\n'), 3);  // 5 %, ten seconds, the end.
  EXPECT_EQ(text.find('\r'), std::string::npos);
}

TEST(ProgressLine, RedrawsABarOnATerminal) {
  const std::string plain = drawn({.is_terminal = true}, {{10, 1}, {20, 1.01}, {600, 2}});
  EXPECT_NE(plain.find("\r\x1b[K[------------------------] classify 10/600"), std::string::npos);
  EXPECT_EQ(plain.find("20/600"), std::string::npos);
  EXPECT_EQ(plain.find("\x1b[32m"), std::string::npos);
  EXPECT_TRUE(plain.ends_with("\n"));
  EXPECT_NE(drawn({.is_terminal = true, .has_colour = true}, {{10, 1}}).find("\x1b[32m"),
            std::string::npos);
}

}  // namespace
}  // namespace incipit::app
