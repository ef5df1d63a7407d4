// SPDX-License-Identifier: Apache-2.0
#include "api/output_file.h"

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace incipit::api {
namespace {

TEST(OutputFile, TakesWhatARenameWouldReplaceForAStream) {
  test::TempDir dir;
  EXPECT_TRUE(OutputFile::is_stream("-"));
  EXPECT_TRUE(OutputFile::is_stream("/dev/null"));
  // Wherever this test's own standard output leads to.
  EXPECT_TRUE(OutputFile::is_stream("/dev/stdout"));
  EXPECT_TRUE(OutputFile::is_stream("/proc/self/fd/1"));
  EXPECT_FALSE(OutputFile::is_stream(dir.file("old.jsonl", "x")));
  EXPECT_FALSE(OutputFile::is_stream(dir.path("new.jsonl")));
}

TEST(OutputFile, GetsItsNameWhenItIsWhole) {
  test::TempDir dir;
  dir.file("out.jsonl", "old\n");
  auto output = OutputFile::open(dir.path("out.jsonl"));
  ASSERT_TRUE(output) << output.error().message;
  ASSERT_TRUE(output->write("new\n"));
  EXPECT_EQ(dir.read("out.jsonl"), "old\n");
  EXPECT_EQ(dir.read("out.jsonl.part"), "new\n");
  ASSERT_TRUE(output->finish());
  EXPECT_EQ(dir.read("out.jsonl"), "new\n");
  EXPECT_FALSE(dir.has("out.jsonl.part"));
}

}  // namespace
}  // namespace incipit::api
