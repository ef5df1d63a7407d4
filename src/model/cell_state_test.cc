// SPDX-License-Identifier: Apache-2.0
#include "model/cell_state.h"

#include <gtest/gtest.h>

#include <string>

namespace incipit::model {
namespace {

const std::string kOwn(64, 'a');
const std::string kForeign(64, 'b');

std::vector<std::byte> sealed(std::size_t payload, std::size_t begin = 4, std::size_t end = 7) {
  std::vector<std::byte> framed = cells_frame(payload);
  std::size_t next = 0;
  for (std::byte& each : cells_payload(framed)) each = static_cast<std::byte>(next++ * 7);
  seal_cells(framed, kOwn, begin, end);
  return framed;
}

ErrorCode code_of(std::span<const std::byte> framed, const std::string& fingerprint = kOwn) {
  const auto opened = open_cells(framed, fingerprint);
  EXPECT_FALSE(opened);
  if (opened) return ErrorCode::kInternal;
  EXPECT_FALSE(opened.error().message.empty());
  return opened.error().code;
}

TEST(CellState, ReadsBackWhatWasSealed) {
  const auto framed = sealed(33);
  const auto state = open_cells(framed, kOwn);
  ASSERT_TRUE(state) << state.error().message;
  EXPECT_EQ(state->begin, 4U);
  EXPECT_EQ(state->end, 7U);
  ASSERT_EQ(state->payload.size(), 33U);
  EXPECT_EQ(state->payload[5], std::byte{35});
  EXPECT_EQ(state->payload.data() + 33, framed.data() + framed.size());
}

TEST(CellState, HoldsNoCells) {
  const auto framed = sealed(0, 9, 9);
  const auto state = open_cells(framed, kOwn);
  ASSERT_TRUE(state);
  EXPECT_TRUE(state->payload.empty());
}

TEST(CellState, RefusesEveryFlippedBit) {
  const auto good = sealed(40);
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      auto flipped = good;
      flipped[i] ^= std::byte{1} << bit;
      EXPECT_EQ(code_of(flipped), ErrorCode::kCorruption) << "byte " << i << " bit " << bit;
    }
  }
}

TEST(CellState, RefusesEveryShorterAndALongerFrame) {
  auto framed = sealed(40);
  for (std::size_t size = 0; size < framed.size(); ++size) {
    EXPECT_EQ(code_of(std::span(framed).first(size)), ErrorCode::kCorruption) << size;
  }
  framed.push_back(std::byte{0});
  EXPECT_EQ(code_of(framed), ErrorCode::kCorruption);
}

// Damage is told from strangeness: a foreign state is whole, and no fault of the disk.
TEST(CellState, RefusesAnotherFingerprintAsInvalid) {
  EXPECT_EQ(code_of(sealed(8), kForeign), ErrorCode::kInvalidArgument);
}

TEST(CellState, RefusesRangesThatRunBackwards) {
  EXPECT_EQ(code_of(sealed(8, 7, 4)), ErrorCode::kCorruption);
}

TEST(CellStateDeathTest, AFingerprintHas64Digits) {
  std::vector<std::byte> framed = cells_frame(1);
  EXPECT_DEATH(seal_cells(framed, "short", 0, 1), "64 hexadecimal digits");
}

}  // namespace
}  // namespace incipit::model
