// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace incipit {
namespace {

// A fresh folder for each test, gone afterwards.
class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "incipit_file_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name) const { return folder_ / name; }
  [[nodiscard]] std::ptrdiff_t entry_count() const {
    return std::distance(std::filesystem::directory_iterator(folder_), {});
  }

 private:
  std::filesystem::path folder_;
};

TEST_F(FileTest, ReadsWhatWasWritten) {
  const std::string content("a\0b\n\xff", 5);
  ASSERT_TRUE(write_file(path("x"), content));
  EXPECT_EQ(read_file(path("x"), 5).value(), content);
}

TEST_F(FileTest, WriteReplacesTheWholeFileAndLeavesNothingAside) {
  ASSERT_TRUE(write_file(path("x"), "a long first version"));
  ASSERT_TRUE(write_file(path("x"), "short"));
  EXPECT_EQ(read_file(path("x"), 100).value(), "short");
  EXPECT_EQ(entry_count(), 1);
}

TEST_F(FileTest, WritersOfOneFileDoNotMeet) {
  constexpr std::size_t kBytes = 200'000;
  std::atomic<int> failed = 0;
  const auto write_often = [&](char letter) {
    for (int i = 0; i < 50; ++i) {
      if (!write_file(path("x"), std::string(kBytes, letter))) ++failed;
      const auto seen = read_file(path("x"), 2 * kBytes);
      if (!seen || *seen != std::string(kBytes, seen->front())) ++failed;
    }
  };
  {
    std::vector<std::jthread> writers;
    for (const char letter : {'a', 'b', 'c', 'd'}) writers.emplace_back(write_often, letter);
  }
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(entry_count(), 1);
}

TEST_F(FileTest, WriteLeavesAloneWhatAnotherOneLeftAside) {
  const std::string process = std::to_string(::getpid());
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(File::create(path("x.tmp" + process + "-" + std::to_string(i))));
  }
  ASSERT_TRUE(write_file(path("x"), "bytes"));
  EXPECT_EQ(read_file(path("x"), 10).value(), "bytes");
  EXPECT_EQ(entry_count(), 301);
}

TEST_F(FileTest, FailedWriteKeepsTheOldFileAndLeavesNothingAside) {
  ASSERT_TRUE(make_directories(path("x/y")));
  const auto written = write_file(path("x"), "bytes");  // A folder cannot be replaced by a file.
  ASSERT_FALSE(written);
  EXPECT_TRUE(written.error().message.contains(path("x")));
  EXPECT_EQ(entry_count(), 1);
}

TEST_F(FileTest, WriteGoesThroughALinkAndLeavesIt) {
  std::filesystem::create_symlink("/dev/full", path("full"));
  const auto written = write_file(path("full"), "bytes");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kResourceExhausted);
  EXPECT_TRUE(std::filesystem::is_symlink(path("full")));
  ASSERT_TRUE(write_file(path("x"), "old"));
  std::filesystem::create_symlink(path("x"), path("link"));
  ASSERT_TRUE(write_file(path("link"), "new"));
  EXPECT_EQ(read_file(path("x"), 10).value(), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
}

TEST_F(FileTest, MissingFileIsTheCallersMistakeAndNamed) {
  const auto content = read_file(path("gone"), 10);
  ASSERT_FALSE(content);
  EXPECT_EQ(content.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(content.error().message.contains(path("gone")));
}

TEST_F(FileTest, FolderIsNotAFile) {
  const auto file = File::open_read(path(""));
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::kInvalidArgument);
}

TEST_F(FileTest, FileOverTheLimitIsRefused) {
  ASSERT_TRUE(write_file(path("x"), "123456"));
  const auto content = read_file(path("x"), 5);
  ASSERT_FALSE(content);
  EXPECT_EQ(content.error().code, ErrorCode::kInvalidArgument);
}

TEST_F(FileTest, FullDiskIsExhaustion) {
  const auto file = File::create("/dev/full");
  ASSERT_TRUE(file);
  const auto written = file->write("x");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kResourceExhausted);
}

TEST_F(FileTest, ClosedPipeIsExhaustion) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  ::close(ends[0]);
  auto* const before = std::signal(SIGPIPE, SIG_IGN);
  const auto written = File::borrow(ends[1], "standard output").write("x");
  static_cast<void>(std::signal(SIGPIPE, before));
  ::close(ends[1]);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kResourceExhausted);
  EXPECT_TRUE(written.error().message.contains("standard output"));
}

TEST_F(FileTest, BorrowedDescriptorStaysOpen) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  {
    const File file = File::borrow(ends[1], "pipe");
  }
  EXPECT_EQ(::write(ends[1], "x", 1), 1);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(FileTest, MovedFileClosesOnce) {
  auto file = File::create(path("x"));
  ASSERT_TRUE(file);
  const int descriptor = file->descriptor();
  {
    const File taken = std::move(*file);
    EXPECT_EQ(taken.descriptor(), descriptor);
  }
  EXPECT_LT(file->descriptor(), 0);
  EXPECT_LT(::lseek(descriptor, 0, SEEK_CUR), 0);
}

TEST_F(FileTest, AppendGoesOnAndTruncateCuts) {
  ASSERT_TRUE(write_file(path("x"), "abc"));
  {
    auto file = File::open_append(path("x"));
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->write("def"));
    EXPECT_EQ(file->size().value(), 6U);
    ASSERT_TRUE(file->truncate(4));
    ASSERT_TRUE(file->close());
  }
  EXPECT_EQ(read_file(path("x"), 10).value(), "abcd");
}

}  // namespace
}  // namespace incipit
