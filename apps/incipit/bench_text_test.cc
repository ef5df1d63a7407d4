// SPDX-License-Identifier: Apache-2.0
//
// What benchmarks read. What they measure needs a model: tests/cli.
// Tests apps/incipit/bench_window.cc
#include "incipit/bench_text.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "support/temp_dir.h"

namespace incipit::app {
namespace {

TEST(BenchText, IsThatOfFilesAndOfFoldersInOrder) {
  const test::TempDir dir;
  std::filesystem::create_directories(dir.path("docs/deeper"));
  dir.file("docs/b.md", "two");
  dir.file("docs/a.md", "one");
  dir.file("docs/deeper/c.md", "three");
  dir.file("docs/picture.svg", "no text");
  const std::string plain = dir.file("plain.txt", "zero");
  const auto text = text_of({plain, dir.path("docs")});
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(*text, "zero\none\ntwo\nthree\n");
}

TEST(BenchText, OfNothingIsAnError) {
  const test::TempDir dir;
  std::filesystem::create_directories(dir.path("empty"));
  EXPECT_EQ(text_of({dir.path("empty")}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(text_of({dir.path("missing")}));
}

}  // namespace
}  // namespace incipit::app
