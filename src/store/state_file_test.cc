// SPDX-License-Identifier: Apache-2.0
#include "store/state_file.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "support/must.h"
#include "support/states.h"
#include "support/temp_dir.h"

namespace incipit::store {
namespace {

using test::must;
using test::TempDir;

// XXH3-128 of "cells of four tokens".
constexpr const char* kCellsOfFourTokens = "d60383537796f2609ba3f39d8ca2da04";

std::vector<std::byte> cells_of(std::size_t count, unsigned seed) {
  std::vector<std::byte> cells(count);
  for (std::size_t i = 0; i < count; ++i) cells[i] = static_cast<std::byte>(i * 7 + seed);
  return cells;
}

StateFacts some_facts() {
  return {.fingerprint = "f1",
          .parts = "model=m;precision=bf16",
          .tenant = std::string("a\0\"b", 4),
          .tokens = {5, -1, 7, 9},
          .begin = 2,
          .use = 77};
}

// Two pieces, so that each has neighbours.
StateFacts write_two(const std::string& path, const std::vector<std::byte>& cells) {
  const auto split = static_cast<std::ptrdiff_t>(cells.size() / 3);
  StateDraft draft = must(StateDraft::create(path, some_facts()));
  must(draft.append(test::piece_of(3, {cells.begin(), cells.begin() + split})));
  must(draft.append(test::piece_of(4, {cells.begin() + split, cells.end()})));
  return must(draft.finish());
}

Result<std::vector<std::byte>> read_all(const std::string& path, const StateFacts& facts) {
  std::vector<std::byte> cells;
  for (std::size_t i = 0; i < facts.pieces.size(); ++i) {
    INCIPIT_TRY(const auto piece, read_state_piece(path, facts, i));
    cells.insert(cells.end(), piece.begin(), piece.end());
  }
  return cells;
}

// The file as the format before this one had it: one piece, no parts, no count of uses.
std::string one_piece_file(StateFacts facts, const std::string& cells) {
  facts.id = state_id(facts);
  const std::string json =
      R"({"__metadata__":{"format":"incipit-kv/1","id":")" + facts.id +
      R"(","fingerprint":"f1","tenant":"61002262","begin":"2","cells_xxh3":")" +
      kCellsOfFourTokens +
      R"("},"tokens":{"dtype":"I32","shape":[4],"data_offsets":[0,16]},"cells":{"dtype":"U8","shape":[)" +
      std::to_string(cells.size()) + R"(],"data_offsets":[16,)" +
      std::to_string(16 + cells.size()) + "]}}";
  const std::uint64_t length = json.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + json +
         std::string(reinterpret_cast<const char*>(facts.tokens.data()), 16) + cells;
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
  // Whatever byte of the file is flipped: it is refused, or it says what it said before.
  void expect_no_flip_matters(const std::string& good, const std::vector<std::byte>& cells) {
    const StateFacts facts = must(read_state_facts(dir_.file("good", good)));
    std::size_t refused = 0;
    for (std::size_t i = 0; i < good.size(); ++i) {
      for (const int bit : {0, 1, 5, 7}) {
        std::string bad = good;
        bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
        const std::string path = dir_.file("bad", bad);
        const auto read = read_state_facts(path);
        const auto read_cells = read ? read_all(path, *read) : std::unexpected(read.error());
        if (!read_cells) {
          ++refused;
          continue;
        }
        EXPECT_EQ(read->id, facts.id);
        EXPECT_EQ(read->tokens, facts.tokens);
        EXPECT_EQ(read->tenant, facts.tenant);
        EXPECT_EQ(read->pieces.size(), facts.pieces.size());
        EXPECT_EQ(read->pieces.front().end, facts.pieces.front().end);
        EXPECT_EQ(*read_cells, cells);
      }
    }
    EXPECT_GT(refused, good.size() * 5 / 2);
  }

  TempDir dir_;
};

TEST_F(StateFileTest, ReadsWhatItWrote) {
  const auto cells = cells_of(1000, 1);
  const StateFacts facts = write_two(dir_.path("s"), cells);
  EXPECT_FALSE(dir_.has("s.draft"));
  const StateFacts read = must(read_state_facts(dir_.path("s")));
  EXPECT_EQ(read.id, facts.id);
  EXPECT_EQ(read.id, state_id(facts));
  EXPECT_EQ(read.parts, "model=m;precision=bf16");
  EXPECT_EQ(read.tokens, facts.tokens);
  EXPECT_EQ(read.tenant, facts.tenant);
  EXPECT_EQ(read.begin, 2U);
  EXPECT_EQ(read.use, 77U);
  EXPECT_EQ(read.file_bytes, facts.file_bytes);
  EXPECT_EQ(read.file_bytes, std::filesystem::file_size(dir_.path("s")));
  EXPECT_EQ(read.file_bytes, bytes_beside_pieces(facts) + 1000 + 2 * kBytesBesideCells);
  ASSERT_EQ(read.pieces.size(), 2U);
  EXPECT_EQ(read.pieces[0].end, 3U);
  EXPECT_EQ(must(read_all(dir_.path("s"), read)), cells);
}

TEST_F(StateFileTest, ADraftThatIsNotFinishedLeavesNothing) {
  dir_.file("s", "what was there");
  {
    StateDraft draft = must(StateDraft::create(dir_.path("s"), some_facts()));
    must(draft.append(test::piece_of(4, cells_of(100, 1))));
    EXPECT_TRUE(dir_.has("s.draft"));
  }
  EXPECT_FALSE(dir_.has("s.draft"));
  EXPECT_EQ(dir_.read("s"), "what was there");
}

TEST_F(StateFileTest, ALinkIsNotReplaced) {
  std::filesystem::create_symlink(dir_.file("target", "t"), dir_.path("link"));
  EXPECT_EQ(StateDraft::create(dir_.path("link"), some_facts()).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_TRUE(std::filesystem::is_symlink(dir_.path("link")));
}

TEST_F(StateFileTest, ReadsTheFormatBeforeThisOne) {
  const std::string text = "cells of four tokens";
  const std::string path = dir_.file("s", one_piece_file(some_facts(), text));
  const StateFacts read = must(read_state_facts(path));
  EXPECT_EQ(read.tokens, some_facts().tokens);
  EXPECT_EQ(read.parts, "");
  EXPECT_EQ(read.use, 0U);
  ASSERT_EQ(read.pieces.size(), 1U);
  EXPECT_EQ(read.pieces[0].end, 4U);
  const auto cells = must(read_state_piece(path, read, 0));
  EXPECT_TRUE(std::ranges::equal(cells, std::as_bytes(std::span(text))));
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

TEST_F(StateFileTest, NoFlippedByteGivesOtherCellsOrTokens) {
  const auto cells = cells_of(64, 3);
  write_two(dir_.path("s"), cells);
  expect_no_flip_matters(dir_.read("s"), cells);
  const std::string text = "cells of four tokens";
  const auto bytes = std::as_bytes(std::span(text));
  expect_no_flip_matters(one_piece_file(some_facts(), text), {bytes.begin(), bytes.end()});
}

TEST_F(StateFileTest, NoTruncationIsRead) {
  write_two(dir_.path("s"), cells_of(64, 3));
  const std::string good = dir_.read("s");
  for (std::size_t size = 0; size < good.size(); ++size) {
    expect_refused(dir_.file("cut", good.substr(0, size)));
  }
  expect_refused(dir_.file("more", good + "x"));
}

// A list of pieces with a right checksum that does not fit its cells: as a hostile hand writes it.
TEST_F(StateFileTest, HostilePiecesAreRefused) {
  constexpr std::uint64_t kMax = ~std::uint64_t{0};
  using Rows = std::vector<std::array<std::uint64_t, 4>>;
  const auto with = [&](const Rows& rows) {
    StateFacts facts = some_facts();
    facts.id = state_id(facts);
    const auto list = std::as_bytes(std::span(rows));
    const XXH128_hash_t hash = XXH3_128bits(list.data(), list.size());
    std::array<char, 33> digits{};
    std::snprintf(digits.data(), digits.size(), "%016llx%016llx",
                  static_cast<unsigned long long>(hash.high64),
                  static_cast<unsigned long long>(hash.low64));
    const std::string end = std::to_string(26 + list.size());
    const std::string json =
        R"({"__metadata__":{"format":"incipit-kv/2","id":")" + facts.id +
        R"(","fingerprint":"f1","tenant":"61002262","begin":"2","pieces_xxh3":")" + digits.data() +
        R"("},"tokens":{"dtype":"I32","shape":[4],"data_offsets":[0,16]},"cells":{"dtype":"U8","shape":[10],"data_offsets":[16,26]},"pieces":{"dtype":"U64","shape":[)" +
        std::to_string(4 * rows.size()) + R"(],"data_offsets":[26,)" + end + "]}}";
    return file(json, std::string(reinterpret_cast<const char*>(facts.tokens.data()), 16) +
                          "ten bytes!" +
                          std::string(reinterpret_cast<const char*>(list.data()), list.size()));
  };
  EXPECT_TRUE(read_state_facts(with({{3, 4, 0, 0}, {4, 6, 0, 0}}))) << "the others fail by this";
  const std::string path = with({{3, 4, 0, 0}, {4, 6, 0, 0}});
  EXPECT_FALSE(read_state_piece(path, must(read_state_facts(path)), 0));
  for (const Rows& rows :
       {Rows{}, Rows{{4, 9, 0, 0}}, Rows{{4, 11, 0, 0}}, Rows{{4, kMax, 0, 0}}, Rows{{3, 10, 0, 0}},
        Rows{{5, 10, 0, 0}}, Rows{{kMax, 10, 0, 0}}, Rows{{3, 4, 0, 0}, {3, 6, 0, 0}},
        Rows{{2, 4, 0, 0}, {4, 6, 0, 0}}, Rows{{3, 11, 0, 0}, {4, kMax, 0, 0}},
        Rows{{4, 10, 0, 0}, {5, 0, 0, 0}}}) {
    expect_refused(with(rows));
  }
}

TEST_F(StateFileTest, HostileHeadersAreRefused) {
  const std::string meta =
      R"("__metadata__":{"format":"incipit-kv/1","id":"x","fingerprint":"f","tenant":"","begin":"0","cells_xxh3":"00000000000000000000000000000000"})";
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
