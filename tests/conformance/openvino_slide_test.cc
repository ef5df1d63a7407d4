// SPDX-License-Identifier: Apache-2.0
//
// Moved cells are those of their new positions. A key of the first layer depends on its token and
// its position alone, so after any move it must be, up to rounding, the key that a prompt with
// this token at this position has; and its value must be the same to the bit. That proves where
// keys lie in a cell, how they are stored (INT8: scale and zero point before the row), and
// which way they turn.
// Tests src/model/openvino_slide.cc
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "model/type_names.h"
#include "support/must.h"
#include "support/real_runtime.h"
#include "support/temp_dir.h"
#include "support/tiny_model.h"

namespace incipit::test {
namespace {

using model::Sequence;
using model::Step;

// Key and value of one cell in the first layer, of one head (the model has one).
struct FirstLayer {
  std::vector<float> key;
  std::vector<std::byte> value;
  float step = 0;  // How far a stored value may be from the true one.
};

class OpenVinoSlide : public testing::TestWithParam<KvType> {
 protected:
  void SetUp() override {
    const bool bf16 = GetParam() == KvType::kBf16;
    const std::string name = "slide" + std::to_string(static_cast<int>(GetParam()));
    real_ = open_proved_runtime(tiny_model_file(name, {.context = 512}),
                                {.precision = bf16 ? Precision::kBf16 : Precision::kF32,
                                 .kv_type = GetParam(),
                                 .cells = 1024,
                                 .home = scratch("tiny-home")});
  }
  static TokenVector prompt(std::size_t count) {
    TokenVector tokens(count);
    for (std::size_t i = 0; i < count; ++i) tokens[i] = static_cast<Token>(3 + (i * i + 7) % 250);
    return tokens;
  }
  Sequence evaluated(TokenSpan tokens) const {
    Sequence sequence = must(Sequence::create(*real_));
    const Step step{.sequence = sequence.id(), .tokens = tokens};
    must(real_->evaluate({&step, 1}));
    return sequence;
  }
  [[nodiscard]] FirstLayer cell(const Sequence& sequence, std::size_t position) const {
    const auto bytes = must(real_->save(sequence.id(), position, position + 1));
    const std::size_t cell_bytes = real_->limits().cell_bytes;
    const auto payload = std::span(bytes).last(cell_bytes);
    const std::size_t row = cell_bytes / (2 * real_.shape.layers);
    FirstLayer cell;
    cell.value.assign(payload.begin() + static_cast<std::ptrdiff_t>(row),
                      payload.begin() + static_cast<std::ptrdiff_t>(2 * row));
    read_key(payload.first(row), cell);
    return cell;
  }

  RealRuntime real_;

 private:
  void read_key(std::span<const std::byte> row, FirstLayer& cell) const {
    cell.key.resize(real_.shape.head_size);
    if (GetParam() == KvType::kF32) {
      ASSERT_EQ(row.size(), cell.key.size() * sizeof(float));
      std::memcpy(cell.key.data(), row.data(), row.size());
      cell.step = 1e-5F;
    } else if (GetParam() == KvType::kBf16) {
      ASSERT_EQ(row.size(), cell.key.size() * 2);
      for (std::size_t i = 0; i < cell.key.size(); ++i)
        std::memcpy(reinterpret_cast<std::byte*>(&cell.key[i]) + 2, row.data() + 2 * i, 2);
      const float most = std::abs(
          *std::ranges::max_element(cell.key, {}, [](float value) { return std::abs(value); }));
      cell.step = most / 128;
    } else {
      ASSERT_EQ(row.size(), cell.key.size() + 2 * sizeof(float));
      float scale_and_zero[2] = {};
      std::memcpy(scale_and_zero, row.data(), sizeof(scale_and_zero));
      for (std::size_t i = 0; i < cell.key.size(); ++i) {
        const auto stored = std::to_integer<int>(row[sizeof(scale_and_zero) + i]);
        cell.key[i] = (static_cast<float>(stored) - scale_and_zero[1]) * scale_and_zero[0];
      }
      cell.step = scale_and_zero[0];
    }
  }
};

float distance(const FirstLayer& a, const FirstLayer& b) {
  float most = 0;
  for (std::size_t i = 0; i < a.key.size(); ++i)
    most = std::max(most, std::abs(a.key[i] - b.key[i]));
  return most;
}

TEST_P(OpenVinoSlide, CellsAreThoseOfTheirNewPositions) {
  ASSERT_TRUE(real_->limits().can_move);
  const TokenVector tokens = prompt(100);
  for (const std::size_t dropped : {std::size_t{1}, std::size_t{32}, std::size_t{45}}) {
    const Sequence slid = evaluated(tokens);
    std::vector<FirstLayer> before;
    for (std::size_t i = 0; i < tokens.size(); ++i) before.push_back(cell(slid, i));
    must(real_->slide(slid.id(), {.sink = 4, .dropped = dropped}));
    TokenVector kept(tokens.begin(), tokens.begin() + 4);
    kept.insert(kept.end(), tokens.begin() + static_cast<std::ptrdiff_t>(4 + dropped),
                tokens.end());
    const Sequence fresh = evaluated(kept);
    float moved_most = 0;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      const FirstLayer got = cell(slid, i);
      const FirstLayer want = cell(fresh, i);
      EXPECT_EQ(got.value, want.value) << i;
      EXPECT_LE(distance(got, want), 2 * std::max(got.step, want.step)) << i;
      if (i < 4) continue;
      moved_most = std::max(moved_most, distance(got, before[i + dropped]) / got.step);
    }
    EXPECT_GT(moved_most, 20) << "a key that was left unturned would have passed";
  }
}

TEST_P(OpenVinoSlide, TenSlidesStayNearTheTruth) {
  const TokenVector tokens = prompt(200);
  const Sequence slid = evaluated(tokens);
  for (int i = 0; i < 10; ++i) must(real_->slide(slid.id(), {.sink = 4, .dropped = 10}));
  TokenVector kept(tokens.begin(), tokens.begin() + 4);
  kept.insert(kept.end(), tokens.begin() + 104, tokens.end());
  const Sequence fresh = evaluated(kept);
  ASSERT_EQ(slid.length(), fresh.length());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const FirstLayer want = cell(fresh, i);
    EXPECT_LE(distance(cell(slid, i), want), 6 * want.step) << i;
  }
}

TEST_P(OpenVinoSlide, RestoredCellsAreThoseOfTheirNewPositions) {
  const TokenVector tokens = prompt(100);
  const Sequence source = evaluated(tokens);
  const auto bytes = must(real_->save(source.id(), 20, 90));
  for (const std::size_t place : {std::size_t{3}, std::size_t{64}, std::size_t{150}}) {
    TokenVector all = prompt(place);
    const Sequence target = evaluated(all);
    must(real_->restore_moved(target.id(), bytes));
    all.insert(all.end(), tokens.begin() + 20, tokens.begin() + 90);
    const Sequence fresh = evaluated(all);
    ASSERT_EQ(target.length(), fresh.length());
    for (std::size_t i = 0; i < all.size(); ++i) {
      const FirstLayer got = cell(target, i);
      const FirstLayer want = cell(fresh, i);
      EXPECT_EQ(got.value, want.value) << i;
      EXPECT_LE(distance(got, want), 2 * std::max(got.step, want.step)) << i;
    }
  }
}

std::vector<KvType> kinds() {
  std::vector<KvType> kinds{KvType::kF32, KvType::kInt8};
  if (has_bf16()) kinds.push_back(KvType::kBf16);
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Kinds, OpenVinoSlide, testing::ValuesIn(kinds()),
                         [](const auto& kind) { return model::name_of(kind.param); });

// Scales by channel are those of a whole block: no cell of it can be moved alone.
TEST(OpenVinoSlideByChannel, IsDeclined) {
  RealRuntimeOptions options{.kv_type = KvType::kInt8, .cells = 256, .home = scratch("tiny-home")};
  options.law.int8_by_token = false;
  const RealRuntime real = open_runtime(tiny_model_file("by_channel"), options);
  EXPECT_FALSE(real->limits().can_move);
  const Sequence sequence = must(Sequence::create(*real));
  const auto slid = real->slide(sequence.id(), {});
  ASSERT_FALSE(slid);
  EXPECT_EQ(slid.error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace incipit::test
