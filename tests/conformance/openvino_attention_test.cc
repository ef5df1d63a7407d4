// SPDX-License-Identifier: Apache-2.0
//
// The attention that the OpenVINO runtime shows is the model's: libllama, which shares nothing with
// it but the file, attends alike. And showing it changes no bit of logits or cells.
// Tests src/model/openvino_attention.cc
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "model/type_names.h"
#include "support/llama_oracle.h"
#include "support/must.h"
#include "support/real_runtime.h"
#include "support/temp_dir.h"
#include "support/tiny_model.h"

namespace incipit::test {
namespace {

using model::Logits;
using model::Sequence;
using model::Step;

struct Family {
  const char* name;
  TinyModelOptions options;
};

void PrintTo(const Family& family, std::ostream* out) { *out << family.name; }

// Random weights attend to everything alike; larger ones make a difference.
void sharpen(const std::string& name, std::vector<float>& values) {
  if (name.find("attn_q.weight") == std::string::npos &&
      name.find("attn_k.weight") == std::string::npos)
    return;
  for (float& value : values) value *= 4;
}

const Family kFamilies[] = {
    {"llama", {.heads = 4, .kv_heads = 2}},
    {"qwen2", {.architecture = "qwen2", .edit = sharpen}},
    {"qwen3", {.architecture = "qwen3", .head_size = 64}},
    {"gemma3", {.architecture = "gemma3", .head_size = 64, .window = 16, .window_period = 2}}};

constexpr std::size_t kTokens = 60;

TokenVector prompt() {
  TokenVector tokens;
  for (std::size_t i = 0; i < kTokens; ++i)
    tokens.push_back(static_cast<Token>((i * 7919 + i * i * 31 + 3) % 256));
  return tokens;
}

std::string file_of(const Family& family) {
  return tiny_model_file(std::string("attention-") + family.name, family.options);
}

RealRuntime opened(const Family& family, KvType kv_type, bool shows_attention = true) {
  const bool bf16 = kv_type == KvType::kBf16;
  return open_runtime(file_of(family), {.precision = bf16 ? Precision::kBf16 : Precision::kF32,
                                        .kv_type = kv_type,
                                        .cells = 256,
                                        .threads = 1,
                                        .shows_attention = shows_attention,
                                        .home = scratch("tiny-home")});
}

// Every row's logits of `tokens`, run in pieces.
std::vector<float> run(model::Runtime& runtime, const Sequence& sequence, TokenSpan tokens,
                       std::size_t piece) {
  std::vector<float> all;
  for (std::size_t begin = 0; begin < tokens.size(); begin += piece) {
    const TokenSpan part = tokens.subspan(begin, std::min(piece, tokens.size() - begin));
    std::vector<std::uint32_t> rows(part.size());
    std::iota(rows.begin(), rows.end(), 0U);
    const Step step{.sequence = sequence.id(), .tokens = part, .logits_rows = rows};
    const Logits logits = must(runtime.evaluate({&step, 1}));
    all.insert(all.end(), logits.values.begin(), logits.values.end());
  }
  return all;
}

class OpenVinoAttention : public testing::TestWithParam<std::tuple<Family, KvType>> {};

TEST_P(OpenVinoAttention, IsThatOfLibllama) {
  const auto& [family, kv_type] = GetParam();
  const RealRuntime real = opened(family, kv_type);
  const LlamaOracle oracle(file_of(family));
  ASSERT_EQ(real->limits().attention_layers, real.shape.layers);
  const TokenVector tokens = prompt();
  const Sequence sequence = must(Sequence::create(*real));
  run(*real, sequence, tokens, kTokens);
  for (std::size_t layer = 0; layer < real.shape.layers; ++layer) {
    const std::vector<float> want = oracle.attention(tokens, layer);
    ASSERT_EQ(want.size(), real.shape.heads * kTokens);
    double apart = 0;  // Mean over the heads of the total variation distance.
    double flat = 0;   // The same of weights that are all equal.
    for (std::size_t i = 0; i < want.size(); ++i) {
      const auto got = must(real->attention(kTokens - 1, {layer, i / kTokens}));
      ASSERT_EQ(got.size(), kTokens);
      apart += std::abs(got[i % kTokens] - want[i]) / 2 / static_cast<double>(real.shape.heads);
      flat += std::abs(1.0F / kTokens - want[i]) / 2 / static_cast<double>(real.shape.heads);
    }
    EXPECT_LT(apart, flat / 4) << "layer " << layer;
    EXPECT_GT(flat, 0.2) << "layer " << layer << ": any weights would have passed";
  }
}

// The keys may come from other passes, and the row may be one of many.
TEST_P(OpenVinoAttention, OfARowIsTheSameHoweverItsPromptWasCut) {
  const auto& [family, kv_type] = GetParam();
  const RealRuntime real = opened(family, kv_type);
  const TokenVector tokens = prompt();
  const Sequence whole = must(Sequence::create(*real));
  run(*real, whole, tokens, kTokens);
  const AttentionHead head{.layer = 1, .head = real.shape.heads - 1};
  const std::vector<float> expected[] = {must(real->attention(40, head)),
                                         must(real->attention(41, head))};
  const Sequence cut = must(Sequence::create(*real));
  run(*real, cut, TokenSpan(tokens).first(40), 40);
  const Sequence other = must(Sequence::create(*real));
  const std::uint32_t rows[] = {0, 1};
  const TokenVector strange{5, 6, 7};
  const Step steps[] = {
      {.sequence = other.id(), .tokens = strange, .logits_rows = rows},
      {.sequence = cut.id(), .tokens = TokenSpan(tokens).subspan(40, 2), .logits_rows = rows}};
  must(real->evaluate(steps));
  EXPECT_EQ(must(real->attention(0, head)), std::vector<float>{1});
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(must(real->attention(2 + i, head)), expected[i]);
}

TEST_P(OpenVinoAttention, ChangesNoBitByBeingShown) {
  const auto& [family, kv_type] = GetParam();
  const RealRuntime shown = opened(family, kv_type);
  const RealRuntime hidden = opened(family, kv_type, false);
  EXPECT_EQ(shown->fingerprint(), hidden->fingerprint());
  EXPECT_EQ(hidden->limits().attention_layers, 0U);
  const TokenVector tokens = prompt();
  for (const std::size_t piece : {kTokens, std::size_t{7}, std::size_t{1}}) {
    const Sequence a = must(Sequence::create(*shown));
    const Sequence b = must(Sequence::create(*hidden));
    EXPECT_EQ(run(*shown, a, tokens, piece), run(*hidden, b, tokens, piece));
    EXPECT_EQ(must(shown->save(a.id(), 0, kTokens)), must(hidden->save(b.id(), 0, kTokens)));
  }
}

TEST_P(OpenVinoAttention, IsRefusedWhereItIsNot) {
  const auto& [family, kv_type] = GetParam();
  const RealRuntime real = opened(family, kv_type);
  EXPECT_EQ(real->attention(0, {}).error().code, ErrorCode::kInvalidArgument) << "no pass yet";
  const TokenVector tokens = prompt();
  Sequence sequence = must(Sequence::create(*real));
  run(*real, sequence, tokens, kTokens);
  EXPECT_TRUE(real->attention(kTokens - 1, {.layer = 1}));
  EXPECT_EQ(real->attention(kTokens, {}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(real->attention(0, {.layer = 2}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(real->attention(0, {.head = real.shape.heads}).error().code,
            ErrorCode::kInvalidArgument);
  sequence.truncate(20);
  EXPECT_TRUE(real->attention(19, {}));
  EXPECT_EQ(real->attention(20, {}).error().code, ErrorCode::kInvalidArgument);
  sequence = {};
  EXPECT_EQ(real->attention(19, {}).error().code, ErrorCode::kInvalidArgument);
  const RealRuntime hidden = opened(family, kv_type, false);
  EXPECT_EQ(hidden->attention(0, {}).error().code, ErrorCode::kUnavailable);
}

std::vector<KvType> kinds() {
  std::vector<KvType> kinds{KvType::kF32, KvType::kInt8};
  if (has_bf16()) kinds.push_back(KvType::kBf16);
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Tiny, OpenVinoAttention,
                         testing::Combine(testing::ValuesIn(kFamilies), testing::ValuesIn(kinds())),
                         [](const auto& each) {
                           return std::string(std::get<0>(each.param).name) + "_" +
                                  model::name_of(std::get<1>(each.param));
                         });

// A key's scale by channel is that of a whole block.
TEST(OpenVinoAttentionByChannel, IsDeclined) {
  RealRuntimeOptions options{.kv_type = KvType::kInt8,
                             .cells = 256,
                             .shows_attention = true,
                             .home = scratch("tiny-home")};
  options.law.int8_by_token = false;
  const RealRuntime real = open_runtime(tiny_model_file("by_channel"), options);
  EXPECT_EQ(real->limits().attention_layers, 0U);
  EXPECT_EQ(real->attention(0, {}).error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace incipit::test
