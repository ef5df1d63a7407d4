// SPDX-License-Identifier: Apache-2.0
#include "model/model_cache.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "base/file.h"
#include "base/hash.h"
#include "support/must.h"
#include "support/temp_dir.h"

namespace incipit::model {
namespace {

using test::must;

// Sets an environment variable for a test, or takes it away, and puts the old value back.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    set(value);
  }
  ~Variable() { set(old_ ? old_->c_str() : nullptr); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  void set(const char* value) {
    if (value == nullptr)
      ::unsetenv(name_);
    else
      ::setenv(name_, value, 1);
  }
  const char* name_;
  std::optional<std::string> old_;
};

TEST(ModelCache, TheMostSpecificHomeWins) {
  const Variable user("HOME", "/users/someone");
  const Variable xdg("XDG_CACHE_HOME", "/xdg");
  const Variable own("INCIPIT_HOME", "/own");
  EXPECT_EQ(cache_home("/asked"), "/asked");
  EXPECT_EQ(cache_home(""), "/own");
  {
    const Variable none("INCIPIT_HOME", nullptr);
    EXPECT_EQ(cache_home(""), "/xdg/incipit");
    const Variable empty("XDG_CACHE_HOME", "");
    EXPECT_EQ(cache_home(""), "/users/someone/.cache/incipit");
  }
}

class RememberedHash : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(home_);
    std::filesystem::create_directories(home_);
    write("the model");
  }
  void TearDown() override { std::filesystem::remove_all(home_); }
  void write(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }
  [[nodiscard]] std::string memory() const {
    const auto folder = std::filesystem::directory_iterator(home_ + "/hashes");
    return folder->path().string();
  }

  std::string home_ = test::scratch("model_cache_test");
  std::string path_ = home_ + "/model.gguf";
};

TEST_F(RememberedHash, IsTheHashOfTheFile) {
  EXPECT_EQ(must(remembered_sha256(path_, home_)), must(sha256_of_file(path_)));
}

TEST_F(RememberedHash, IsNotComputedTwice) {
  must(remembered_sha256(path_, home_));
  std::string kept = must(read_file(memory(), 4096));
  kept.replace(kept.find('\n') + 1, 64, std::string(64, 'f'));
  must(write_file(memory(), kept));
  EXPECT_EQ(must(remembered_sha256(path_, home_)), std::string(64, 'f'));
}

TEST_F(RememberedHash, IsComputedAgainForAFileThatChanged) {
  const std::string before = must(remembered_sha256(path_, home_));
  write("another, longer model");
  const std::string longer = must(remembered_sha256(path_, home_));
  EXPECT_NE(longer, before);
  EXPECT_EQ(longer, must(sha256_of_file(path_)));
  write("another, LONGER model");  // The same size, another time.
  std::filesystem::last_write_time(
      path_, std::filesystem::last_write_time(path_) + std::chrono::seconds(1));
  EXPECT_EQ(must(remembered_sha256(path_, home_)), must(sha256_of_file(path_)));
}

TEST_F(RememberedHash, ADamagedMemoryIsNotBelieved) {
  const std::string want = must(remembered_sha256(path_, home_));
  const std::string kept = must(read_file(memory(), 4096));
  for (const std::string& damaged :
       {std::string(), std::string("\n"), kept.substr(0, kept.size() - 1), kept + "0",
        std::string(5000, 'x'), kept.substr(0, kept.find('\n') + 1) + std::string(64, '?')}) {
    must(write_file(memory(), damaged));
    EXPECT_EQ(must(remembered_sha256(path_, home_)), want) << damaged.substr(0, 80);
  }
}

TEST_F(RememberedHash, AMissingFileIsNamed) {
  const auto hash = remembered_sha256(home_ + "/absent.gguf", home_);
  ASSERT_FALSE(hash);
  EXPECT_EQ(hash.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(hash.error().message.find("absent.gguf"), std::string::npos);
}

TEST_F(RememberedHash, PreparedFoldersAreMade) {
  const std::string folder = must(prepared_folder(home_, "abc"));
  EXPECT_EQ(folder, home_ + "/prepared/abc");
  EXPECT_TRUE(std::filesystem::is_directory(folder));
  EXPECT_EQ(must(prepared_folder(home_, "abc")), folder);
  const auto refused = prepared_folder(path_, "abc");  // A file stands in the way.
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find(path_), std::string::npos);
}

}  // namespace
}  // namespace incipit::model
