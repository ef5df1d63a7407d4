// SPDX-License-Identifier: Apache-2.0
#include "store/state_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "base/file.h"
#include "support/must.h"
#include "support/temp_dir.h"

namespace incipit::store {
namespace {

using test::must;
using test::TempDir;

std::vector<std::byte> cells_of(std::size_t count, unsigned seed) {
  std::vector<std::byte> cells(count);
  for (std::size_t i = 0; i < count; ++i) cells[i] = static_cast<std::byte>(i * 7 + seed);
  return cells;
}

StateFacts some_facts() {
  return {
      .fingerprint = "f1", .tenant = std::string("a\0\"b", 4), .tokens = {5, -1, 7, 9}, .begin = 2};
}

class StateFileTest : public testing::Test {
 protected:
  // Header length, header and data, as a hostile hand may write them.
  std::string file(const std::string& json, const std::string& data,
                   std::optional<std::uint64_t> length = {}) {
    const std::uint64_t size = length.value_or(json.size());
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &size, 8);
    return dir_.file("x.safetensors", bytes + json + data);
  }
  static void expect_refused(const std::string& path) {
    const auto facts = read_state_facts(path);
    ASSERT_FALSE(facts);
    EXPECT_NE(facts.error().message.find(path), std::string::npos) << facts.error().message;
  }

  TempDir dir_;
};

TEST_F(StateFileTest, ReadsWhatItWrote) {
  StateFacts facts = some_facts();
  const auto cells = cells_of(1000, 1);
  must(write_state(dir_.path("s"), facts, cells));
  const StateFacts read = must(read_state_facts(dir_.path("s")));
  EXPECT_EQ(read.id, facts.id);
  EXPECT_EQ(read.tokens, facts.tokens);
  EXPECT_EQ(read.tenant, facts.tenant);
  EXPECT_EQ(read.begin, 2U);
  EXPECT_EQ(must(read_state_cells(dir_.path("s"), read)), cells);
}

TEST_F(StateFileTest, TheIdTellsFieldsApart) {
  const StateFacts facts = some_facts();
  StateFacts other = facts;
  other.fingerprint = "f1" + other.tenant;
  other.tenant.clear();
  EXPECT_NE(state_id(facts), state_id(other));
  other = facts;
  other.begin = 1;
  EXPECT_NE(state_id(facts), state_id(other));
}

// Whatever byte is flipped: the file is refused, or it says what it said before.
TEST_F(StateFileTest, NoFlippedByteGivesOtherCellsOrTokens) {
  StateFacts facts = some_facts();
  const auto cells = cells_of(64, 3);
  must(write_state(dir_.path("s"), facts, cells));
  const std::string good = dir_.read("s");
  std::size_t refused = 0;
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const int bit : {0, 1, 5, 7}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      const std::string path = dir_.file("bad", bad);
      const auto read = read_state_facts(path);
      const auto read_cells = read ? read_state_cells(path, *read) : std::unexpected(read.error());
      if (!read_cells) {
        ++refused;
        continue;
      }
      EXPECT_EQ(read->id, facts.id);
      EXPECT_EQ(read->tokens, facts.tokens);
      EXPECT_EQ(read->tenant, facts.tenant);
      EXPECT_EQ(*read_cells, cells);
    }
  }
  EXPECT_GT(refused, good.size() * 3);
}

TEST_F(StateFileTest, NoTruncationIsRead) {
  StateFacts facts = some_facts();
  must(write_state(dir_.path("s"), facts, cells_of(64, 3)));
  const std::string good = dir_.read("s");
  for (std::size_t size = 0; size < good.size(); ++size) {
    expect_refused(dir_.file("cut", good.substr(0, size)));
  }
  expect_refused(dir_.file("more", good + "x"));
}

TEST_F(StateFileTest, HostileHeadersAreRefused) {
  const std::string meta =
      R"("__metadata__":{"format":"incipit-kv/1","id":"x","fingerprint":"f","tenant":"","begin":"0","cells_xxh3":"0"})";
  const auto with = [&](const std::string& tensors) {
    return file("{" + meta + tensors + "}", "12345678");
  };
  expect_refused(file("", "", std::uint64_t{1} << 63U));
  expect_refused(file("{}", "", 100'000));
  expect_refused(file("{}", ""));
  expect_refused(file("[1]", ""));
  expect_refused(file(std::string(60'000, '['), ""));
  expect_refused(file(R"({"__metadata__":{"format":"incipit-kv/9"}})", ""));
  expect_refused(file(R"({"__metadata__":{"format":"incipit-kv/1"}})", ""));
  expect_refused(with(""));
  for (
      const char* tensors :
      {R"(,"tokens":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"cells":{"dtype":"U8","shape":[4],"data_offsets":[4,8]})",
       R"(,"tokens":{"dtype":"I32","shape":[1,1],"data_offsets":[0,4]},"cells":{"dtype":"U8","shape":[4],"data_offsets":[4,8]})",
       R"(,"tokens":{"dtype":"I32","shape":[4611686018427387904],"data_offsets":[0,4]},"cells":{"dtype":"U8","shape":[4],"data_offsets":[4,8]})",
       R"(,"tokens":{"dtype":"I32","shape":[1],"data_offsets":[0,18446744073709551612]},"cells":{"dtype":"U8","shape":[4],"data_offsets":[4,8]})",
       R"(,"tokens":{"dtype":"I32","shape":[1],"data_offsets":[4,8]},"cells":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})",
       R"(,"tokens":{"dtype":"I32","shape":[1],"data_offsets":[0,4]},"cells":{"dtype":"U8","shape":[4],"data_offsets":[0,8]})",
       R"(,"tokens":{"dtype":"I32","shape":[1],"data_offsets":[0,4]},"cells":{"dtype":"U8","shape":[99],"data_offsets":[4,103]})",
       R"(,"tokens":{"dtype":"I32","shape":[0],"data_offsets":[0,0]},"cells":{"dtype":"U8","shape":[8],"data_offsets":[0,8]})",
       R"(,"tokens":{"dtype":"I32","shape":[-1],"data_offsets":[0,4]},"cells":{"dtype":"U8","shape":[4],"data_offsets":[4,8]})",
       R"(,"tokens":7,"cells":{"dtype":"U8","shape":[4],"data_offsets":[4,8]})",
       R"(,"tokens":{"dtype":"I32","shape":[1],"data_offsets":[0,4]},"cells":{"dtype":"U8","shape":[4],"data_offsets":[4,8]})"}) {
    expect_refused(with(tensors));  // The last one: all is well but the id.
  }
}

}  // namespace
}  // namespace incipit::store
