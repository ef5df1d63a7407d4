// SPDX-License-Identifier: Apache-2.0
#include "model/prepared_weights.h"

#include <ggml.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <bit>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <limits>
#include <vector>

#include "base/file.h"
#include "support/must.h"
#include "support/temp_dir.h"
#include "support/tiny_model.h"

namespace incipit::model {
namespace {

using test::GgufWriter;
using test::must;
using test::TinyModelOptions;

// A tiny model's file and its prepared weights, in a folder that goes with the test.
class PreparedWeightsTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Writes a model; open() works on the last one written.
  void use(const GgufWriter& file) {
    gguf_.reset();
    must(write_file(folder_ + "/model.gguf", file.bytes()));
    gguf_ = must(GgufFile::open(folder_ + "/model.gguf"));
    shape_ = must(read_model_shape(*gguf_));
  }
  Result<std::unique_ptr<PreparedWeights>> open(std::size_t threads = 1) {
    return PreparedWeights::open(*gguf_, shape_, path_, threads,
                                 [this](const std::string& event) { events_.push_back(event); });
  }
  [[nodiscard]] std::string kept() const { return must(read_file(path_, 1 << 24)); }
  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

  std::string folder_ = test::scratch("prepared_weights_test");
  std::string path_ = folder_ + "/weights";
  std::unique_ptr<GgufFile> gguf_;
  ModelShape shape_;
  std::vector<std::string> events_;
};

std::vector<float> row_of(const Int8Matrix& matrix, std::size_t row) {
  std::vector<float> values(matrix.columns);
  for (std::size_t c = 0; c < matrix.columns; ++c) {
    std::uint16_t half = 0;
    std::memcpy(
        &half,
        matrix.scales.data() + (row * (matrix.columns / matrix.group) + c / matrix.group) * 2, 2);
    const auto value = static_cast<std::int8_t>(matrix.values[row * matrix.columns + c]);
    values[c] = static_cast<float>(value) * ggml_fp16_to_fp32(half);
  }
  return values;
}

std::vector<float> floats_of(const GgufTensor& tensor) {
  std::vector<float> values(tensor.data.size() / sizeof(float));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

TEST_F(PreparedWeightsTest, RoundsEachGroupToAHalfOfItsStep) {
  use(test::tiny_model({.architecture = "qwen2"}));
  const auto weights = must(open());
  for (const char* name : {"token_embd.weight", "blk.0.attn_q.weight", "blk.1.ffn_down.weight"}) {
    const Int8Matrix matrix = weights->matrix(name);
    const std::vector<float> want = floats_of(*gguf_->tensor(name));
    ASSERT_EQ(want.size(), matrix.rows * matrix.columns);
    for (std::size_t r = 0; r < matrix.rows; ++r) {
      const std::vector<float> got = row_of(matrix, r);
      for (std::size_t g = 0; g < matrix.columns; g += matrix.group) {
        float most = 0;
        for (std::size_t c = g; c < g + matrix.group; ++c)
          most = std::max(most, std::fabs(want[r * matrix.columns + c]));
        // Half a step, and the scale's own rounding to f16 (2^-11) at the far end.
        const float bound = most / 127.0F * 0.5F + most * 0x1p-11F;
        for (std::size_t c = g; c < g + matrix.group; ++c)
          ASSERT_LE(std::fabs(got[c] - want[r * matrix.columns + c]), bound) << name << " " << r;
      }
    }
  }
}

TEST_F(PreparedWeightsTest, TakesTheLargestGroupThatDividesEveryMatrix) {
  const auto group_of = [this](std::uint32_t width, std::uint32_t inner_width) {
    use(test::tiny_model({.width = width, .inner_width = inner_width}));
    const auto weights = must(open());
    EXPECT_EQ(weights->matrix("blk.0.ffn_down.weight").group, weights->group());
    EXPECT_EQ(weights->recipe(), "int8-sym-g" + std::to_string(weights->group()) + "-f16/2");
    return weights->group();
  };
  EXPECT_EQ(group_of(256, 384), 128U);
  EXPECT_EQ(group_of(64, 384), 64U);
  EXPECT_EQ(group_of(128, 192), 64U);
  EXPECT_EQ(group_of(96, 384), 32U);
}

TEST_F(PreparedWeightsTest, KeepsVectorsAsTheyAre) {
  use(test::tiny_model({.architecture = "qwen2"}));
  const auto weights = must(open());
  for (const char* name : {"blk.1.attn_norm.weight", "output_norm.weight", "blk.0.attn_q.bias"}) {
    const auto got = weights->vector(name);
    EXPECT_EQ(std::vector<float>(got.begin(), got.end()), floats_of(*gguf_->tensor(name))) << name;
  }
  EXPECT_TRUE(weights->vector("blk.0.attn_output.bias").empty());
}

// The llama family stores a rotary pair side by side: row 2i and 2i + 1 of a head become rows i
// and i + half. Other parts keep their order.
TEST_F(PreparedWeightsTest, TurnsTheRowsOfALlamaBack) {
  const auto by_row = [](const std::string& name, std::vector<float>& values) {
    if (name.find("attn_q") == std::string::npos && name.find("attn_v") == std::string::npos)
      return;
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i / 64 + 1);
  };
  use(test::tiny_model({.architecture = "llama", .edit = by_row}));
  const auto llama = must(open());
  const auto source = [&](const char* part, std::size_t row) {
    return std::lround(row_of(llama->matrix(part), row)[0]) - 1;
  };
  for (const std::size_t head : {0U, 32U}) {
    for (std::size_t i = 0; i < 16; ++i) {
      EXPECT_EQ(source("blk.0.attn_q.weight", head + i), head + 2 * i);
      EXPECT_EQ(source("blk.0.attn_q.weight", head + 16 + i), head + 2 * i + 1);
    }
  }
  EXPECT_EQ(source("blk.0.attn_v.weight", 1), 1);
  std::filesystem::remove(path_);
  use(test::tiny_model({.architecture = "qwen2", .edit = by_row}));
  EXPECT_EQ(std::lround(row_of(must(open())->matrix("blk.0.attn_q.weight"), 1)[0]), 2);
}

TEST_F(PreparedWeightsTest, ThreadsMakeTheSameFile) {
  use(test::tiny_model());
  must(open(1));
  const std::string alone = kept();
  std::filesystem::remove(path_);
  must(open(3));
  EXPECT_EQ(kept(), alone);
}

TEST_F(PreparedWeightsTest, ReadsAKeptFileAndSaysWhenItMadeOne) {
  use(test::tiny_model());
  must(open());
  ASSERT_EQ(events_.size(), 1U);
  EXPECT_NE(events_[0].find(path_), std::string::npos);
  const auto before = std::filesystem::last_write_time(path_);
  must(open());
  EXPECT_EQ(events_.size(), 1U);
  EXPECT_EQ(std::filesystem::last_write_time(path_), before);
  EXPECT_EQ(files(), 2U) << "no draft is left behind";
}

TEST_F(PreparedWeightsTest, MakesADamagedFileAgain) {
  use(test::tiny_model());
  must(open());
  const std::string good = kept();
  const auto expect_made_again = [&](const std::string& bytes, const char* what) {
    must(write_file(path_, bytes));
    events_.clear();
    const auto weights = open();
    ASSERT_TRUE(weights) << weights.error().message;
    EXPECT_EQ(events_.size(), 1U) << what;
    EXPECT_EQ(kept(), good) << what;
  };
  expect_made_again("", "empty");
  expect_made_again(good.substr(0, 63), "less than a header");
  expect_made_again(good.substr(0, good.size() - 1), "cut short");
  expect_made_again(good + "x", "too long");
  expect_made_again(std::string(good.size(), '\0'), "zeros, as after a crash");
  for (const std::size_t place : {std::size_t{0}, std::size_t{8}, std::size_t{16}, std::size_t{24},
                                  std::size_t{64}, good.size() / 2, good.size() - 1}) {
    std::string flipped = good;
    flipped[place] = static_cast<char>(flipped[place] ^ 1);
    expect_made_again(flipped, ("flipped at " + std::to_string(place)).c_str());
  }
}

TEST_F(PreparedWeightsTest, NamesTheTensorThatIsNotFinite) {
  for (const float bad : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
    for (const std::string name : {"blk.1.ffn_up.weight", "blk.0.attn_norm.weight"}) {
      use(test::tiny_model({.edit = [&](const std::string& each, std::vector<float>& values) {
        if (each == name) values[values.size() / 2] = bad;
      }}));
      const auto weights = open();
      ASSERT_FALSE(weights);
      EXPECT_EQ(weights.error().code, ErrorCode::kCorruption);
      EXPECT_NE(weights.error().message.find("\"" + name + "\""), std::string::npos)
          << weights.error().message;
      EXPECT_EQ(files(), 1U) << "no draft is left behind";
    }
  }
}

// A scale beyond f16 is infinite, and zero times it is not a number.
TEST_F(PreparedWeightsTest, NamesTheTensorWhoseScaleIsBeyondF16) {
  use(test::tiny_model({.edit = [](const std::string& name, std::vector<float>& values) {
    if (name == "blk.0.ffn_up.weight") values[7] = 1e7F;
  }}));
  const auto weights = open();
  ASSERT_FALSE(weights);
  EXPECT_NE(weights.error().message.find("\"blk.0.ffn_up.weight\""), std::string::npos);
}

TEST_F(PreparedWeightsTest, HoldsRowsOfZerosAndOfTinyValues) {
  use(test::tiny_model({.edit = [](const std::string& name, std::vector<float>& values) {
    if (name == "blk.0.ffn_up.weight") std::fill(values.begin(), values.end(), 0.0F);
    if (name == "blk.0.ffn_gate.weight") std::fill(values.begin(), values.end(), 1e-30F);
  }}));
  const auto weights = must(open());
  for (const float value : row_of(weights->matrix("blk.0.ffn_up.weight"), 3)) EXPECT_EQ(value, 0);
  for (const float value : row_of(weights->matrix("blk.0.ffn_gate.weight"), 3)) EXPECT_EQ(value, 0);
}

TEST_F(PreparedWeightsTest, AFullDiskIsSaidWithThePlace) {
  use(test::tiny_model());
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 4096;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto weights = open();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(weights);
  EXPECT_EQ(weights.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(weights.error().message.find(path_), std::string::npos) << weights.error().message;
  EXPECT_EQ(files(), 1U) << "no draft is left behind";
}

TEST_F(PreparedWeightsTest, AFolderThatCannotBeWrittenIsSaid) {
  use(test::tiny_model());
  path_ = folder_ + "/absent/weights";
  const auto weights = open();
  ASSERT_FALSE(weights);
  EXPECT_NE(weights.error().message.find(path_), std::string::npos) << weights.error().message;
}

// One block of each quantisation that the default models use, made by hand; the expected values
// are worked out here from the format, not by ggml.
struct HandBlock {
  const char* name;
  std::uint32_t type;
  std::string bytes;
  std::vector<float> values;
};

void PrintTo(const HandBlock& block, std::ostream* out) { *out << block.name; }

std::string half(float value) {
  const ggml_fp16_t bits = ggml_fp32_to_fp16(value);
  return {reinterpret_cast<const char*>(&bits), sizeof(bits)};
}

HandBlock f32_block() {
  HandBlock block{"F32", 0, "", {}};
  for (int i = 0; i < 32; ++i) {
    const float value = static_cast<float>(i) * 0.37F - 3;
    block.values.push_back(value);
    block.bytes.append(reinterpret_cast<const char*>(&value), 4);
  }
  return block;
}

HandBlock f16_block() {
  HandBlock block{"F16", 1, "", {}};
  for (int i = 0; i < 32; ++i) {
    block.values.push_back(static_cast<float>(i - 16) / 8);
    block.bytes += half(block.values.back());
  }
  return block;
}

HandBlock bf16_block() {
  HandBlock block{"BF16", 30, "", {}};
  for (int i = 0; i < 32; ++i) {
    const auto high = static_cast<std::uint16_t>(0x3f00 + i * 3);
    block.bytes.append(reinterpret_cast<const char*>(&high), 2);
    block.values.push_back(std::bit_cast<float>(std::uint32_t{high} << 16U));
  }
  return block;
}

// 32 values: f16 scale, then int8.
HandBlock q8_0_block() {
  HandBlock block{"Q8_0", 8, half(0.25F), {}};
  for (int i = 0; i < 32; ++i) {
    const int value = i * 8 - 127;
    block.bytes += static_cast<char>(value);
    block.values.push_back(0.25F * static_cast<float>(value));
  }
  return block;
}

// 32 values: f16 scale and minimum, then 16 bytes with value i low and value i + 16 high.
HandBlock q4_1_block() {
  HandBlock block{"Q4_1", 3, half(0.5F) + half(-2.0F), std::vector<float>(32)};
  for (unsigned i = 0; i < 16; ++i) {
    const unsigned low = i;
    const unsigned high = (i * 5 + 3) % 16;
    block.bytes += static_cast<char>(low | high << 4U);
    block.values[i] = 0.5F * static_cast<float>(low) - 2;
    block.values[i + 16] = 0.5F * static_cast<float>(high) - 2;
  }
  return block;
}

// 32 values: f16 scale, 32 fifth bits, then 16 bytes as above; centred on 16.
HandBlock q5_0_block() {
  std::uint32_t fifth = 0;
  std::string low_bits;
  HandBlock block{"Q5_0", 6, half(0.125F), std::vector<float>(32)};
  std::array<unsigned, 32> values{};
  for (unsigned i = 0; i < 32; ++i) {
    values[i] = (i * 11 + 5) % 32;
    fifth |= (values[i] >> 4U) << i;
    block.values[i] = 0.125F * (static_cast<float>(values[i]) - 16);
  }
  for (unsigned i = 0; i < 16; ++i)
    low_bits += static_cast<char>((values[i] & 15U) | (values[i + 16] & 15U) << 4U);
  block.bytes.append(reinterpret_cast<const char*>(&fifth), 4);
  block.bytes += low_bits;
  return block;
}

// 256 values in 8 groups of 32: f16 d and dmin, 12 bytes of 6-bit scales and minima, 128 bytes of
// nibbles (groups 2k low and 2k + 1 high). value = d * scale * q - dmin * minimum.
HandBlock q4_k_block() {
  HandBlock block{"Q4_K", 12, half(0.0625F) + half(0.5F), std::vector<float>(256)};
  const std::array<unsigned, 8> scales{1, 2, 33, 63, 5, 38, 47, 60};
  const std::array<unsigned, 8> minima{0, 3, 17, 62, 9, 35, 50, 63};
  std::array<unsigned char, 12> packed{};
  for (unsigned g = 0; g < 4; ++g) {
    packed[g] = static_cast<unsigned char>(scales[g] | (scales[g + 4] >> 4U) << 6U);
    packed[g + 4] = static_cast<unsigned char>(minima[g] | (minima[g + 4] >> 4U) << 6U);
    packed[g + 8] = static_cast<unsigned char>((scales[g + 4] & 15U) | (minima[g + 4] & 15U) << 4U);
  }
  block.bytes.append(reinterpret_cast<const char*>(packed.data()), packed.size());
  const auto q = [](unsigned group, unsigned i) { return (group * 7 + i * 3) % 16; };
  for (unsigned pair = 0; pair < 4; ++pair)
    for (unsigned i = 0; i < 32; ++i)
      block.bytes += static_cast<char>(q(2 * pair, i) | q(2 * pair + 1, i) << 4U);
  for (unsigned g = 0; g < 8; ++g)
    for (unsigned i = 0; i < 32; ++i)
      block.values[g * 32 + i] =
          0.0625F * static_cast<float>(scales[g] * q(g, i)) - 0.5F * static_cast<float>(minima[g]);
  return block;
}

// 256 values in two halves of 128: low nibbles (128 bytes), high pairs of bits (64 bytes), 16 int8
// scales (one per 16 values), f16 d. value = d * scale * (q - 32).
HandBlock q6_k_block() {
  HandBlock block{"Q6_K", 14, "", std::vector<float>(256)};
  std::array<unsigned char, 128> low{};
  std::array<unsigned char, 64> high{};
  const auto q = [](unsigned i) { return (i * 13 + i / 64) % 64; };
  const auto scale = [](unsigned group) { return static_cast<int>(group * 9) - 60; };
  for (unsigned i = 0; i < 256; ++i) {
    const unsigned side = i / 128;
    const unsigned quarter = i % 128 / 32;  // Which 32 of the half.
    const unsigned l = i % 32;
    low[side * 64 + quarter % 2 * 32 + l] |=
        static_cast<unsigned char>((q(i) & 15U) << (quarter / 2 * 4));
    high[side * 32 + l] |= static_cast<unsigned char>((q(i) >> 4U) << (quarter * 2));
    block.values[i] =
        0.03125F * static_cast<float>(scale(i / 16)) * (static_cast<float>(q(i)) - 32);
  }
  block.bytes.append(reinterpret_cast<const char*>(low.data()), low.size());
  block.bytes.append(reinterpret_cast<const char*>(high.data()), high.size());
  for (unsigned g = 0; g < 16; ++g) block.bytes += static_cast<char>(scale(g));
  block.bytes += half(0.03125F);
  return block;
}

class Quantisation : public PreparedWeightsTest, public testing::WithParamInterface<HandBlock> {};

INSTANTIATE_TEST_SUITE_P(Formats, Quantisation,
                         testing::Values(f32_block(), f16_block(), bf16_block(), q8_0_block(),
                                         q4_1_block(), q5_0_block(), q4_k_block(), q6_k_block()),
                         [](const auto& block) { return block.param.name; });

// Every row of a matrix holds the block; int8 adds half a step of its group's largest value.
TEST_P(Quantisation, IsReadAsItsFormatSays) {
  const HandBlock& block = GetParam();
  GgufWriter file = test::tiny_model({.width = 256, .heads = 2, .left_out = "blk.0.ffn_up.weight"});
  std::string data;
  for (std::size_t i = 0; i < std::size_t{128} * 256 / block.values.size(); ++i)
    data += block.bytes;
  file.tensor("blk.0.ffn_up.weight", block.type, std::array<std::uint64_t, 2>{256, 128}, data);
  use(file);
  const auto weights = must(open());
  for (const std::size_t row : {std::size_t{0}, std::size_t{77}, std::size_t{127}}) {
    const std::vector<float> got = row_of(weights->matrix("blk.0.ffn_up.weight"), row);
    for (std::size_t g = 0; g < 256; g += weights->group()) {
      float most = 0;
      for (std::size_t c = g; c < g + weights->group(); ++c)
        most = std::max(most, std::fabs(block.values[c % block.values.size()]));
      for (std::size_t c = g; c < g + weights->group(); ++c)
        ASSERT_NEAR(got[c], block.values[c % block.values.size()], most / 254.0F + most * 0x1p-11F)
            << "value " << c << " of row " << row;
    }
  }
}

}  // namespace
}  // namespace incipit::model
