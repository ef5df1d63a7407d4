// SPDX-License-Identifier: Apache-2.0
#include "model/channel_scales.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "support/llama_oracle.h"
#include "support/must.h"
#include "support/real_runtime.h"
#include "support/temp_dir.h"
#include "support/tiny_model.h"

namespace incipit::model {
namespace {

using test::must;

constexpr std::size_t kHeadSize = 32;
constexpr std::size_t kWideKey = 3;
constexpr std::size_t kWideValue = 7;
constexpr std::uint32_t kTokens = 60;

// One channel of the keys is as wide as Qwen2.5 has them, and one of the values.
std::string wide_model(const std::string& name) {
  return test::tiny_model_file(
      name, {.architecture = "qwen2", .edit = [](const std::string& tensor, auto& values) {
               if (tensor == "blk.0.attn_k.bias") values[kWideKey] = 100;
               if (tensor == "blk.0.attn_v.bias") values[kWideValue] = -40;
             }});
}

TEST(ChannelScales, AreThoseOfTheWidestChannel) {
  const std::string file = wide_model("scales");
  const auto gguf = must(GgufFile::open(file));
  const ModelShape shape = must(read_model_shape(*gguf));
  const test::TempDir dir;
  const auto weights = must(PreparedWeights::open(*gguf, shape, dir.path("weights"), 1, {}));
  const ChannelScales scales = channel_scales(shape, *weights, 0);
  ASSERT_EQ(scales.keys.size(), kHeadSize);
  ASSERT_EQ(scales.values.size(), kHeadSize);
  for (std::size_t i = 0; i < kHeadSize; ++i) {
    int exponent = 0;
    EXPECT_EQ(std::frexp(scales.keys[i], &exponent), 0.5) << "not a power of two";
    EXPECT_EQ(scales.keys[i], scales.keys[(i + kHeadSize / 2) % kHeadSize])
        << "the rope mixes them";
    const bool is_wide = i % (kHeadSize / 2) == kWideKey;
    EXPECT_EQ(scales.keys[i] == 1, is_wide) << i;
    EXPECT_EQ(scales.values[i] == 1, i == kWideValue) << i;
  }
  // The other layer has no such channel.
  const ChannelScales even = channel_scales(shape, *weights, 1);
  EXPECT_GT(*std::ranges::min_element(even.keys), 1.0 / 16);
}

// Mean divergence, in nats, of the logits over INT8 cells from those over f32 cells.
TEST(ChannelScales, LoseLittleToAWideChannel) {
  const std::string file = wide_model("int8");
  std::vector<std::vector<float>> logits;
  std::size_t vocabulary = 0;
  for (const KvType kv_type : {KvType::kF32, KvType::kInt8}) {
    const test::RealRuntime real = test::open_runtime(
        file,
        {.kv_type = kv_type, .cells = 256, .threads = 1, .home = test::scratch("scales-home")});
    vocabulary = real->limits().vocabulary;
    TokenVector tokens;
    for (std::uint32_t i = 0; i < kTokens; ++i)
      tokens.push_back(static_cast<Token>((i * 7919 + i * i * 31 + 3) % vocabulary));
    std::vector<std::uint32_t> rows(kTokens);
    std::iota(rows.begin(), rows.end(), 0U);
    const Sequence sequence = must(Sequence::create(*real));
    const Step step{.sequence = sequence.id(), .tokens = tokens, .logits_rows = rows};
    const Logits got = must(real->evaluate({&step, 1}));
    logits.emplace_back(got.values.begin(), got.values.end());
  }
  double sum = 0;
  for (std::size_t row = 0; row < kTokens; ++row) {
    const auto row_of = [&](const std::vector<float>& all) {
      return std::span(all).subspan(row * vocabulary, vocabulary);
    };
    sum += test::compare_logits(row_of(logits[0]), row_of(logits[1])).nats;
  }
  EXPECT_LT(sum / kTokens, 5e-4) << "8e-4 with a step that the wide channel alone decides";
}

}  // namespace
}  // namespace incipit::model
