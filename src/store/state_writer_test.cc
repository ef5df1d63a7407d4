// SPDX-License-Identifier: Apache-2.0
//
// A disk that hangs is a pipe in the place of a draft: opening it waits until somebody reads.
#include "store/state_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "store/state_folder.h"
#include "support/must.h"
#include "support/states.h"
#include "support/temp_dir.h"

namespace incipit::store {
namespace {

using test::must;
using test::piece_of;

constexpr std::size_t kPieceBytes = std::size_t{1} << 20U;

class StateWriterTest : public testing::Test {
 protected:
  StateFacts facts() const { return {.fingerprint = "f", .tokens = {1, 2, 3}}; }
  std::string hang(const std::string& state) {
    const std::string draft = dir_.path(state + std::string(kDraftEnding));
    EXPECT_EQ(::mkfifo(draft.c_str(), 0600), 0);
    return draft;
  }
  // Reading lets the writer go on; a pipe takes no writes at a place, so the state fails.
  static void let_go(const std::string& draft) {
    const int reader = ::open(draft.c_str(), O_RDONLY);
    EXPECT_GE(reader, 0);
    ::close(reader);
  }
  test::TempDir dir_;
};

TEST_F(StateWriterTest, WritesPieceByPiece) {
  StateWriter writer;
  writer.begin(dir_.path("s"), facts());
  writer.append(piece_of(2, std::vector<std::byte>(100)));
  writer.append(piece_of(3, std::vector<std::byte>(50)));
  writer.wait();
  EXPECT_FALSE(writer.outcome()) << "it was not finished";
  EXPECT_TRUE(dir_.has("s.draft"));
  writer.finish();
  writer.wait();
  const auto outcome = writer.outcome();
  ASSERT_TRUE(outcome && *outcome);
  EXPECT_EQ((*outcome)->pieces.size(), 2U);
  EXPECT_FALSE(writer.outcome()) << "said once";
  EXPECT_FALSE(dir_.has("s.draft"));
  EXPECT_EQ(must(read_state_facts(dir_.path("s"))).id, (*outcome)->id);
  EXPECT_EQ(writer.waiting_bytes(), 0U);
}

TEST_F(StateWriterTest, WhatIsAbandonedLeavesNothingAndSaysNothing) {
  StateWriter writer;
  for (const bool fails : {false, true}) {
    writer.begin(dir_.path(fails ? "no/where" : "s"), facts());
    writer.append(piece_of(3, std::vector<std::byte>(100)));
    writer.abandon();
    writer.wait();
    EXPECT_FALSE(writer.outcome());
    EXPECT_TRUE(std::filesystem::is_empty(dir_.path("")));
  }
}

TEST_F(StateWriterTest, AFailureIsSaidBeforeTheEnd) {
  StateWriter writer;
  writer.begin(dir_.path("no/where"), facts());
  writer.wait();
  const auto outcome = writer.outcome();
  ASSERT_TRUE(outcome);
  EXPECT_NE(outcome->error().message.find("no/where"), std::string::npos);
  writer.append(piece_of(3, std::vector<std::byte>(100)));
  writer.finish();
  writer.wait();
  EXPECT_FALSE(writer.outcome());
  writer.begin(dir_.path("s"), facts());
  writer.append(piece_of(3, std::vector<std::byte>(100)));
  writer.finish();
  writer.wait();
  EXPECT_TRUE(writer.outcome().value()) << "the next begins afresh";
}

TEST_F(StateWriterTest, TheEndDoesWhatWasToldAndNoMore) {
  {
    StateWriter writer;
    writer.begin(dir_.path("s"), facts());
    writer.append(piece_of(3, std::vector<std::byte>(kPieceBytes)));
    writer.finish();
    writer.begin(dir_.path("t"), facts());
    writer.append(piece_of(3, std::vector<std::byte>(kPieceBytes)));
  }
  EXPECT_TRUE(read_state_facts(dir_.path("s")));
  EXPECT_FALSE(dir_.has("s.draft"));
  EXPECT_FALSE(dir_.has("t"));
  EXPECT_FALSE(dir_.has("t.draft"));
}

TEST_F(StateWriterTest, AHangingDiskHoldsNobodyUp) {
  const std::string draft = hang("s");
  StateWriter writer;
  const auto start = std::chrono::steady_clock::now();
  writer.begin(dir_.path("s"), facts());
  for (std::size_t i = 0; i < 4; ++i)
    writer.append(piece_of(3, std::vector<std::byte>(kPieceBytes)));
  writer.abandon();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_GE(writer.waiting_bytes(), 4 * kPieceBytes) << "memory that waits is counted";
  let_go(draft);
  writer.wait();
  EXPECT_EQ(writer.waiting_bytes(), 0U);
}

TEST_F(StateWriterTest, AFolderTakesNoMoreThanItsShareForAHangingDisk) {
  const auto folder = must(StateFolder::open(
      {.path = dir_.path("."), .fingerprint = "f", .bytes_max = std::uint64_t{1} << 30U}));
  const std::string draft = hang(state_id(facts()) + ".safetensors");
  must(folder->begin(facts(), 0));
  std::size_t pieces = 0;
  for (; folder->takes_more() && pieces < 100; ++pieces)
    must(folder->append(piece_of(pieces + 1, std::vector<std::byte>(kPieceBytes))));
  EXPECT_EQ(pieces, 8U);
  EXPECT_FALSE(folder->collect());
  let_go(draft);
  folder->wait();
  EXPECT_TRUE(folder->takes_more());
  const auto outcome = folder->collect();
  ASSERT_TRUE(outcome);
  EXPECT_FALSE(*outcome);
  EXPECT_EQ(folder->bytes(), 0U);
  EXPECT_TRUE(test::write_state(*folder, facts(), std::vector<std::byte>(100)));
}

}  // namespace
}  // namespace incipit::store
