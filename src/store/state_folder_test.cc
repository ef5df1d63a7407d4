// SPDX-License-Identifier: Apache-2.0
#include "store/state_folder.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <thread>

#include "incipit/kv.h"
#include "support/must.h"
#include "support/own_process.h"
#include "support/seed.h"
#include "support/states.h"
#include "support/temp_dir.h"

namespace incipit::store {
namespace {

namespace fs = std::filesystem;
using test::must;
using test::TempDir;

constexpr std::uint64_t kPlenty = std::uint64_t{1} << 30U;

// Quick to make: the writer that is killed must spend its time writing.
std::vector<std::byte> cells_of(const TokenVector& tokens, std::size_t count) {
  std::vector<std::byte> cells(count, static_cast<std::byte>(tokens.back() * 31));
  cells.front() = static_cast<std::byte>(tokens.size());
  return cells;
}

class StateFolderTest : public testing::Test {
 protected:
  std::unique_ptr<StateFolder> open(std::uint64_t bytes_max = kPlenty,
                                    const std::string& fingerprint = "f") {
    return must(StateFolder::open(
        {.path = path_,
         .fingerprint = fingerprint,
         .bytes_max = bytes_max,
         .on_event = [this](const std::string& event) { events_.push_back(event); }}));
  }
  static Result<std::string> write(StateFolder& folder, const TokenVector& tokens,
                                   std::size_t count = 100) {
    return test::write_state(folder, {.tokens = tokens}, cells_of(tokens, count));
  }
  [[nodiscard]] std::size_t files(const std::string& extension) const {
    std::size_t count = 0;
    for (const auto& file : fs::directory_iterator(path_))
      count += file.path().extension() == extension ? 1 : 0;
    return count;
  }

  TempDir dir_;
  std::string path_ = dir_.path("states");
  std::vector<std::string> events_;
};

TEST_F(StateFolderTest, KeepsStatesOverARestart) {
  auto folder = open();
  const std::string one = must(write(*folder, {1, 2, 3}));
  const std::string two = must(write(*folder, {1, 2, 4}));
  EXPECT_EQ(must(write(*folder, {1, 2, 3})), one) << "once only";
  folder.reset();
  folder = open();
  EXPECT_EQ(folder->entries().size(), 2U);
  EXPECT_EQ(must(test::read_state(*folder, one)), cells_of({1, 2, 3}, 100));
  EXPECT_EQ(must(test::read_state(*folder, two)), cells_of({1, 2, 4}, 100));
  EXPECT_TRUE(events_.empty());
  EXPECT_EQ(must(list_kv_folder(path_)).size(), 2U) << "a look from outside needs no lock";
}

TEST_F(StateFolderTest, ASecondProcessIsRefusedByName) {
  constexpr const char* kTaken = "INCIPIT_TEST_TAKEN_FOLDER";
  if (const char* taken = std::getenv(kTaken)) {
    const auto second =
        StateFolder::open({.path = taken, .fingerprint = "f", .bytes_max = kPlenty});
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
    EXPECT_NE(second.error().message.find(std::to_string(::getppid())), std::string::npos);
    return;
  }
  const auto folder = open();
  test::OwnProcess second("StateFolderTest.ASecondProcessIsRefusedByName",
                          {std::string(kTaken) + "=" + path_});
  EXPECT_TRUE(second.passed());
}

TEST_F(StateFolderTest, AnotherModelsStatesAreNamedAndGoFirst) {
  auto folder = open();
  must(write(*folder, {1, 2, 3}, 10'000));
  folder.reset();
  folder = open(16'000, "g");
  EXPECT_TRUE(folder->entries().empty());
  ASSERT_EQ(events_.size(), 1U);
  EXPECT_NE(events_[0].find("another model"), std::string::npos) << events_[0];
  must(write(*folder, {4, 5}, 9'000));
  EXPECT_EQ(files(".safetensors"), 1U) << "there was no room for both";
  EXPECT_EQ(folder->entries().size(), 1U);
}

TEST_F(StateFolderTest, DamageIsSetAside) {
  auto folder = open();
  const std::string id = must(write(*folder, {1, 2, 3}));
  const std::string file = path_ + "/" + id + ".safetensors";
  {
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(-40, std::ios::end);  // The list of pieces, of 32 bytes, is read at the start only.
    bytes.put('!');
  }
  EXPECT_EQ(test::read_state(*folder, id).error().code, ErrorCode::kCorruption);
  EXPECT_FALSE(folder->holds(id));
  EXPECT_EQ(files(".bad"), 1U);
  EXPECT_NE(events_.at(0).find(file), std::string::npos);
  must(write(*folder, {1, 2, 3}));
  EXPECT_EQ(must(test::read_state(*folder, id)), cells_of({1, 2, 3}, 100));
}

TEST_F(StateFolderTest, GarbageUnderItsOwnNamesDoesNotStopTheStart) {
  const std::string one(64, 'a');
  const std::string two(64, 'b');
  auto folder = open();
  const std::string id = must(write(*folder, {1}));
  folder.reset();
  std::ofstream(path_ + "/" + one + ".safetensors") << "garbage";
  std::ofstream(path_ + "/" + one + ".safetensors.draft") << "half";
  fs::create_directories(path_ + "/" + std::string(64, 'c') + ".safetensors");
  fs::copy_file(path_ + "/" + id + ".safetensors", path_ + "/" + two + ".safetensors");
  folder = open();
  EXPECT_EQ(folder->entries().size(), 1U);
  EXPECT_EQ(files(".draft"), 0U);
  EXPECT_EQ(files(".bad"), 2U);
}

// A user may point it at a folder of models.
TEST_F(StateFolderTest, FilesOfOtherNamesAreNeverTouched) {
  fs::create_directories(path_);
  fs::permissions(path_, fs::perms(0755));
  std::vector<std::string> names{"thesis.draft", "notes.txt", "old.bad"};
  for (int i = 0; i < 20; ++i) names.push_back("model-" + std::to_string(i) + ".safetensors");
  for (int i = 0; i < 20; ++i) names.push_back("model-" + std::to_string(i) + ".safetensors.bad");
  for (const std::string& name : names) std::ofstream(path_ + "/" + name) << name;
  for (int start = 0; start < 2; ++start) {
    const auto folder = open(20'000);
    for (Token i = 0; i < 20; ++i) must(write(*folder, {i}, 5'000));
  }
  for (const std::string& name : names) EXPECT_EQ(must(read_file(path_ + "/" + name, 1000)), name);
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms(0755));
}

TEST_F(StateFolderTest, AFileThatCannotBeOpenedNowIsKept) {
  const auto folder = open();
  const std::string id = must(write(*folder, {1, 2, 3}));
  rlimit old{};
  ::getrlimit(RLIMIT_NOFILE, &old);
  const rlimit none{.rlim_cur = 3, .rlim_max = old.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &none);
  const auto refused = test::read_state(*folder, id);
  ::setrlimit(RLIMIT_NOFILE, &old);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(must(test::read_state(*folder, id)), cells_of({1, 2, 3}, 100));
}

TEST_F(StateFolderTest, AVanishedFileIsGoneNotDamaged) {
  auto folder = open();
  const std::string id = must(write(*folder, {1, 2, 3}));
  fs::remove(path_ + "/" + id + ".safetensors");
  EXPECT_EQ(test::read_state(*folder, id).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(test::read_state(*folder, id).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(folder->bytes(), 0U);
}

TEST_F(StateFolderTest, AFullDiskIsSaidOnceAndServingGoesOn) {
  auto folder = open();
  const std::string before = must(write(*folder, {1}));
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  ::getrlimit(RLIMIT_FSIZE, &old);
  const rlimit small{.rlim_cur = 20'000, .rlim_max = old.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_EQ(write(*folder, {2}, 100'000).error().code, ErrorCode::kResourceExhausted);
  EXPECT_FALSE(write(*folder, {3}, 100'000));
  ::setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_EQ(events_.size(), 1U);
  EXPECT_EQ(files(".draft"), 0U);
  EXPECT_TRUE(test::read_state(*folder, before));
  EXPECT_TRUE(write(*folder, {2}, 100'000));
}

TEST_F(StateFolderTest, AFolderThatCannotBeMadeIsAnError) {
  const std::string file = dir_.file("plain", "x");
  const auto opened = StateFolder::open({.path = file + "/states", .fingerprint = "f"});
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message.find(file), std::string::npos);
}

TEST_F(StateFolderTest, StaysWithinItsCapacityAndKeepsWhatIsUsed) {
  std::mt19937_64 random(test::seed_of(9));
  auto folder = open(100'000);
  const std::string kept = must(write(*folder, {7, 7}, 5'000));
  for (Token i = 0; i < 300; ++i) {
    const auto id = write(*folder, {1, i}, 100 + random() % 20'000);
    ASSERT_TRUE(id);
    folder->touch(kept);
    std::uint64_t bytes = 0;
    for (const auto& file : fs::directory_iterator(path_))
      bytes += file.path().extension() == ".safetensors" ? file.file_size() : 0;
    ASSERT_LE(bytes, 100'000U);
    ASSERT_EQ(bytes, folder->bytes());
    if (i % 50 == 0) {
      folder.reset();
      folder = open(100'000);
    }
  }
  EXPECT_TRUE(test::read_state(*folder, kept));
  EXPECT_EQ(write(*folder, {9}, 200'000).error().code, ErrorCode::kResourceExhausted);
}

// Kills a writer at random moments, in every second round while it writes.
// INCIPIT_KILL_ROUNDS makes it longer (./dev soak).
class KilledWriter : public StateFolderTest {
 protected:
  static constexpr std::size_t kCells = std::size_t{4} << 20U;

  [[nodiscard]] ::pid_t start(int round) const {
    const ::pid_t child = ::fork();
    if (child != 0) return child;
    auto folder = StateFolder::open({.path = path_, .fingerprint = "f", .bytes_max = kPlenty});
    if (!folder) ::_exit(1);
    for (Token i = 0;; ++i) {
      if (!write(**folder, {static_cast<Token>(round), i}, kCells)) ::_exit(1);
      if (i > 20) (*folder)->erase(state_id({.fingerprint = "f", .tokens = {round, i - 20}}));
    }
  }
  [[nodiscard]] bool is_writing() const {
    std::error_code gone;
    for (fs::directory_iterator it(path_, gone), end; !gone && it != end; it.increment(gone)) {
      if (it->path().extension() == ".draft") return true;
    }
    return false;
  }
  void wait_for_a_write() const {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!is_writing() && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  void check_what_is_left() {
    const auto folder = open();
    EXPECT_FALSE(is_writing());
    for (const StateFacts* facts : folder->entries())
      EXPECT_EQ(must(test::read_state(*folder, facts->id)), cells_of(facts->tokens, kCells));
    while (!folder->entries().empty()) folder->erase(std::string(folder->entries().front()->id));
  }
};

TEST_F(KilledWriter, LeavesWholeStatesOnly) {
  const char* wanted = std::getenv("INCIPIT_KILL_ROUNDS");
  const int rounds = wanted == nullptr ? 40 : std::atoi(wanted);
  std::mt19937_64 random(test::seed_of(13));
  int partial = 0;
  for (int round = 0; round < rounds; ++round) {
    const ::pid_t child = start(round);
    if (round % 2 == 0) wait_for_a_write();
    std::this_thread::sleep_for(
        std::chrono::microseconds(random() % (round % 2 == 0 ? 500 : 30'000)));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself";
    partial += is_writing() ? 1 : 0;
    check_what_is_left();
  }
  EXPECT_TRUE(events_.empty()) << events_.front();
  EXPECT_GE(partial, rounds / 4) << "few rounds left a partial file: the test proves little";
}

}  // namespace
}  // namespace incipit::store
