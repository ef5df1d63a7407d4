// SPDX-License-Identifier: Apache-2.0
//
// Which files of a folder go first, also after a restart, whatever the clock did.
#include "store/folder_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "store/state_folder.h"
#include "support/must.h"
#include "support/seed.h"
#include "support/states.h"
#include "support/temp_dir.h"

namespace incipit::store {
namespace {

namespace fs = std::filesystem;
using test::must;

class FolderFilesTest : public testing::Test {
 protected:
  void open(std::uint64_t bytes_max = 1'000'000, const std::string& parts = "") {
    folder_.reset();
    folder_ = must(StateFolder::open(
        {.path = path_,
         .fingerprint = parts.empty() ? "f" : "of " + parts,
         .parts = parts,
         .bytes_max = bytes_max,
         .on_event = [this](const std::string& event) { events_.push_back(event); }}));
  }
  std::string write(Token token, std::size_t bytes = 10'000) {
    return must(test::write_state(*folder_, {.tokens = {token}}, std::vector<std::byte>(bytes)));
  }
  void damage(const std::string& id) {
    const std::string file = path_ + "/" + id + ".safetensors";
    fs::resize_file(file, fs::file_size(file) - 1);
    EXPECT_FALSE(folder_->read(id, 0));
  }
  // As if the clock had been there when each was written or used.
  void set_times(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (const auto& file : fs::directory_iterator(path_))
      fs::last_write_time(file, fs::file_time_type(std::chrono::hours(random() % 2'000'000)));
  }
  // In the order in which they would go.
  std::vector<std::string> order() {
    std::vector<std::string> ids;
    for (const StateFacts* facts : folder_->entries()) ids.push_back(facts->id);
    return ids;
  }
  [[nodiscard]] std::uint64_t bytes_there() const {
    std::uint64_t bytes = 0;
    for (const auto& file : fs::directory_iterator(path_)) {
      const std::string name = file.path().filename();
      if (name != "lock" && name != kOrderName) bytes += file.file_size();
    }
    return bytes;
  }
  [[nodiscard]] std::set<std::string> bad() const {
    std::set<std::string> names;
    for (const auto& file : fs::directory_iterator(path_))
      if (file.path().extension() == ".bad") names.insert(file.path().filename());
    return names;
  }

  test::TempDir dir_;
  std::string path_ = dir_.path("states");
  std::unique_ptr<StateFolder> folder_;
  std::vector<std::string> events_;
};

TEST_F(FolderFilesTest, TheOrderOfUseOutlivesARestartAndAnyClock) {
  std::mt19937_64 random(test::seed_of(31));
  open();
  std::vector<std::string> ids;
  for (Token i = 0; i < 12; ++i) ids.push_back(write(i));
  for (std::uint64_t round = 0; round < 20; ++round) {
    for (int i = 0; i < 7; ++i) folder_->touch(ids[random() % ids.size()]);
    const auto before = order();
    folder_.reset();
    set_times(round);
    open();
    ASSERT_EQ(order(), before);
  }
  const auto before = order();
  folder_.reset();
  open(5 * 11'000);
  EXPECT_EQ(order(), std::vector(before.end() - 5, before.end())) << "the latest used stay";
}

// A process that is killed has noted no order: the order of writing is in the files.
TEST_F(FolderFilesTest, WithoutANoteTheOrderOfWritingHolds) {
  open();
  std::vector<std::string> ids;
  for (Token i = 0; i < 12; ++i) ids.push_back(write(i));
  folder_->touch(ids[0]);
  for (const std::string& note :
       {std::string(), std::string("\0\xff garbage\n\n7\n8 \n", 18),
        "99999999999999999999 " + ids[3] + ".safetensors\n1152921504606846977 " + ids[4] +
            ".safetensors\n"}) {
    folder_.reset();
    fs::remove(path_ + "/" + std::string(kOrderName));
    if (!note.empty()) std::ofstream(path_ + "/" + std::string(kOrderName)) << note;
    set_times(3);
    open();
    const auto found = order();
    if (note.find(ids[4]) == std::string::npos) {
      EXPECT_EQ(found, ids);
    } else {
      EXPECT_EQ(found.front(), ids[4]) << "a count that nobody reached counts as none";
    }
    EXPECT_EQ(std::set(found.begin(), found.end()), std::set(ids.begin(), ids.end()));
  }
}

TEST_F(FolderFilesTest, ManyUsesAreNotedBeforeTheEnd) {
  open();
  std::vector<std::string> ids;
  for (Token i = 0; i < 3; ++i) ids.push_back(write(i));
  for (int i = 0; i < 2000; ++i) folder_->touch(ids[0]);
  folder_->wait();
  const auto files = must(folder_files(path_, false));
  ASSERT_EQ(files.size(), 3U);
  EXPECT_EQ(files.back().name, ids[0] + ".safetensors");
}

TEST_F(FolderFilesTest, SetAsideFilesCountAndGoOldestFirst) {
  open(60'000);
  std::vector<std::string> ids;
  for (Token i = 0; i < 4; ++i) ids.push_back(write(i));
  damage(ids[2]);
  damage(ids[0]);
  EXPECT_EQ(folder_->bytes(), bytes_there() + 2) << "two bytes were cut off";
  const auto old = ids[2] + ".safetensors.bad";
  const auto later = ids[0] + ".safetensors.bad";
  EXPECT_EQ(bad(), (std::set{old, later}));
  folder_.reset();
  set_times(5);
  open(60'000);
  EXPECT_EQ(folder_->bytes(), bytes_there());
  write(10);
  EXPECT_EQ(bad().size(), 2U);
  write(11);
  EXPECT_EQ(bad(), (std::set{later})) << "the older one went for it";
  write(12);
  EXPECT_TRUE(bad().empty());
  EXPECT_TRUE(folder_->holds(ids[1])) << "whole states go last";
  EXPECT_LE(bytes_there(), 60'000U);
}

TEST_F(FolderFilesTest, SetAsideFilesAreFew) {
  open();
  for (Token i = 0; i < 40; ++i) damage(write(i));
  folder_->wait();
  EXPECT_EQ(bad().size(), 16U);
  EXPECT_LE(folder_->bytes() - bytes_there(), 40U);
  damage(write(39));
  damage(write(39));
  folder_->wait();
  EXPECT_EQ(bad().size(), 16U) << "one name is one file";
}

TEST_F(FolderFilesTest, AStrangersFileSaysWhatDiffers) {
  open(1'000'000, "model=m;precision=bf16");
  write(1);
  open(1'000'000, "model=m;precision=f32");
  ASSERT_EQ(events_.size(), 1U);
  EXPECT_NE(events_[0].find("of another precision (bf16; here f32)"), std::string::npos)
      << events_[0];
}

// Names that could be ours, and things that are no files.
TEST_F(FolderFilesTest, LinksPipesAndFoldersAreLeftAlone) {
  open();
  const std::string id = write(1);
  folder_.reset();
  const auto name = [this](char c, const std::string& ending) {
    return path_ + "/" + std::string(64, c) + ending;
  };
  fs::rename(path_ + "/" + id + ".safetensors", dir_.path("elsewhere"));
  fs::create_symlink(dir_.path("elsewhere"), path_ + "/" + id + ".safetensors");
  fs::create_symlink(dir_.path("nowhere"), name('a', ".safetensors"));
  ASSERT_EQ(::mkfifo(name('b', ".safetensors").c_str(), 0600), 0);
  fs::create_directories(name('c', ".safetensors.draft") + "/x");
  open(100);
  EXPECT_TRUE(folder_->entries().empty());
  EXPECT_TRUE(events_.empty());
  EXPECT_TRUE(fs::exists(dir_.path("elsewhere")));
  EXPECT_TRUE(fs::is_symlink(name('a', ".safetensors")));
  EXPECT_TRUE(fs::is_fifo(name('b', ".safetensors")));
  EXPECT_TRUE(fs::exists(name('c', ".safetensors.draft") + "/x"));
}

TEST_F(FolderFilesTest, AFolderThatIsGoneIsSaidOnce) {
  open();
  const std::string id = write(1);
  fs::remove_all(path_);
  for (Token i = 2; i < 5; ++i)
    EXPECT_FALSE(test::write_state(*folder_, {.tokens = {i}}, std::vector<std::byte>(10)));
  EXPECT_EQ(events_.size(), 1U);
  EXPECT_EQ(folder_->read(id, 0).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(folder_->bytes(), 0U);
  folder_.reset();
  EXPECT_FALSE(fs::exists(path_)) << "nobody owns what would be made again";
}

}  // namespace
}  // namespace incipit::store
