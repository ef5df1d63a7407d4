// SPDX-License-Identifier: Apache-2.0
#include "model/model_shape.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <string>

#include "base/file.h"
#include "support/gguf_writer.h"
#include "support/temp_dir.h"
#include "support/tiny_model.h"

namespace incipit::model {
namespace {

using test::ByteWriter;
using test::GgufWriter;
using test::tiny_model;

class ModelShapeTest : public testing::Test {
 protected:
  [[nodiscard]] Result<ModelShape> shape(const GgufWriter& file) const {
    EXPECT_TRUE(write_file(path_, file.bytes()));
    const auto gguf = GgufFile::open(path_);
    EXPECT_TRUE(gguf) << gguf.error().message;
    return read_model_shape(**gguf);
  }
  [[nodiscard]] std::string refusal(const GgufWriter& file) const {
    const auto read = shape(file);
    if (read) return "";
    EXPECT_EQ(read.error().code, ErrorCode::kUnavailable);
    EXPECT_TRUE(read.error().message.starts_with(path_)) << read.error().message;
    return read.error().message;
  }
  // A refused file, named by what its message must hold.
  void expect_refused(const GgufWriter& file, const std::string& place) const {
    const std::string message = refusal(file);
    EXPECT_NE(message.find(place), std::string::npos) << "got: " << message;
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::string path_ = test::scratch("model_shape_test.gguf");
};

void add_tensor(GgufWriter& file, const std::string& name, std::vector<std::uint64_t> dimensions,
                float value = 1) {
  std::uint64_t count = 1;
  for (const auto extent : dimensions) count *= extent;
  ByteWriter data;
  for (std::uint64_t i = 0; i < count; ++i) data.put(value);
  file.tensor(name, 0, dimensions, data.bytes());
}

TEST_F(ModelShapeTest, ReadsALlama) {
  const auto read = shape(tiny_model());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->architecture, "llama");
  EXPECT_EQ(read->layers, 2U);
  EXPECT_EQ(read->width, 64U);
  EXPECT_EQ(read->heads, 2U);
  EXPECT_EQ(read->kv_heads, 1U);
  EXPECT_EQ(read->head_size, 32U);
  EXPECT_EQ(read->inner_width, 128U);
  EXPECT_EQ(read->context_tokens, 2048U);
  EXPECT_FLOAT_EQ(static_cast<float>(read->norm_epsilon), 1e-5F);
  EXPECT_TRUE(read->tied_output);
  EXPECT_TRUE(read->interleaved_rope);
  ASSERT_EQ(read->rope_frequencies.size(), 16U);
  EXPECT_FLOAT_EQ(read->rope_frequencies[0], 1);
  EXPECT_FLOAT_EQ(read->rope_frequencies[8], 0.01F);
}

TEST_F(ModelShapeTest, ReadsAQwenWithAnOutputOfItsOwn) {
  const auto read = shape(tiny_model({.architecture = "qwen2", .tied_output = false}));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_FALSE(read->interleaved_rope);
  EXPECT_FALSE(read->tied_output);
}

TEST_F(ModelShapeTest, ReadsAQwenWithNormsOfItsHeads) {
  const auto read = shape(tiny_model({.architecture = "qwen3", .head_size = 64}));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE(read->head_norms);
  EXPECT_FALSE(read->post_norms);
  EXPECT_EQ(read->head_size, 64U);
  EXPECT_EQ(read->window(0), 0U);
}

TEST_F(ModelShapeTest, ReadsAGemma) {
  GgufWriter file =
      tiny_model({.architecture = "gemma3", .layers = 7, .head_size = 64, .window = 24});
  file.text("gemma3.rope.scaling.type", "linear");
  file.real("gemma3.rope.scaling.factor", 8);
  const auto read = shape(file);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_FALSE(read->interleaved_rope);
  EXPECT_TRUE(read->head_norms && read->post_norms && read->gelu);
  EXPECT_DOUBLE_EQ(read->embedding_scale, 8);
  EXPECT_DOUBLE_EQ(read->attention_scale, 0.125);
  for (std::size_t layer = 0; layer < 7; ++layer)
    EXPECT_EQ(read->window(layer), layer == 5 ? 0U : 24U) << layer;
  // Scaling is for the layers that see everything.
  ASSERT_EQ(read->local_rope_frequencies.size(), 32U);
  EXPECT_FLOAT_EQ(read->rope_frequencies[0], 0.125F);
  EXPECT_FLOAT_EQ(read->rope_frequencies[16], 1e-3F / 8);
  EXPECT_FLOAT_EQ(read->local_rope_frequencies[0], 1);
  EXPECT_FLOAT_EQ(read->local_rope_frequencies[16], 0.01F);
}

TEST_F(ModelShapeTest, ReadsWhatAGemmaSaysOfItsWindows) {
  GgufWriter file = tiny_model({.architecture = "gemma3", .window = 16, .window_period = 2});
  file.real("gemma3.rope.freq_base_swa", 100);
  const auto read = shape(file);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->windows, (std::vector<std::size_t>{16, 0}));
  EXPECT_FLOAT_EQ(read->local_rope_frequencies[8], 0.1F);
  const auto open = shape(tiny_model({.architecture = "gemma3"}));
  ASSERT_TRUE(open) << open.error().message;
  EXPECT_TRUE(open->windows.empty());
  EXPECT_TRUE(open->local_rope_frequencies.empty());
}

TEST_F(ModelShapeTest, TheLargestGemmaDividesByItsShareOfTheWidth) {
  const auto read = shape(tiny_model({.architecture = "gemma3", .layers = 62, .head_size = 64}));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_DOUBLE_EQ(read->attention_scale, 1 / std::sqrt(32.0));
}

TEST_F(ModelShapeTest, RefusesAGemmaThatDoesNotFitTogether) {
  const char* const gemma = "gemma3";
  expect_refused(tiny_model({.architecture = gemma, .window = 0}),
                 "\"gemma3.attention.sliding_window\"");
  expect_refused(tiny_model({.architecture = gemma, .window = 1U << 25U}),
                 "\"gemma3.attention.sliding_window\"");
  expect_refused(tiny_model({.architecture = gemma, .window = 8, .window_period = 0}),
                 "\"gemma3.attention.sliding_window_pattern\"");
  expect_refused(tiny_model({.architecture = gemma, .head_size = 33}), "do not fit together");
  expect_refused(tiny_model({.architecture = gemma, .head_size = 24}), "multiple of 32");
  GgufWriter by_layer = tiny_model({.architecture = gemma, .window = 8});
  by_layer.numbers<std::int32_t>("gemma3.attention.sliding_window_pattern",
                                 std::vector<std::int32_t>{1, 0});
  expect_refused(by_layer, "\"gemma3.attention.sliding_window_pattern\"");
  GgufWriter endless = tiny_model({.architecture = gemma, .window = 8});
  endless.real("gemma3.rope.freq_base_swa", 0);
  expect_refused(endless, "\"gemma3.rope.freq_base_swa\"");
  GgufWriter capped = tiny_model({.architecture = gemma});
  capped.real("gemma3.final_logit_softcapping", 30);
  expect_refused(capped, "\"final_logit_softcapping\"");
  GgufWriter factors = tiny_model({.architecture = gemma});
  add_tensor(factors, "rope_freqs.weight", {16});
  expect_refused(factors, "\"rope_freqs.weight\" has no place");
  for (const char* part : {"attn_q_norm", "attn_k_norm", "post_attention_norm", "post_ffw_norm"}) {
    const std::string name = "blk.1." + std::string(part) + ".weight";
    expect_refused(tiny_model({.architecture = gemma, .left_out = name}),
                   "\"" + name + "\" is missing");
  }
}

TEST_F(ModelShapeTest, ScalesTheRope) {
  GgufWriter linear = tiny_model();
  linear.text("llama.rope.scaling.type", "linear");
  linear.real("llama.rope.scaling.factor", 4);
  EXPECT_FLOAT_EQ(shape(linear)->rope_frequencies[0], 0.25F);
  GgufWriter factors = tiny_model();
  add_tensor(factors, "rope_freqs.weight", {16}, 8);
  EXPECT_FLOAT_EQ(shape(factors)->rope_frequencies[8], 0.01F / 8);
}

TEST_F(ModelShapeTest, NamesAnArchitectureThatIsNotSupported) {
  expect_refused(tiny_model({.architecture = "mamba"}), "\"mamba\" is not supported");
  expect_refused(GgufWriter(), "the architecture \"\" is not supported");
}

TEST_F(ModelShapeTest, NamesTheTensorThatIsMissing) {
  for (const char* name : {"token_embd.weight", "output_norm.weight", "blk.1.attn_k.weight",
                           "blk.0.ffn_norm.weight", "blk.1.ffn_down.weight"}) {
    expect_refused(tiny_model({.left_out = name}),
                   "the tensor \"" + std::string(name) + "\" is missing");
  }
}

// What the graph would leave out silently: a bias, an adapter, the norms of another family.
TEST_F(ModelShapeTest, NamesATensorThatHasNoPlace) {
  for (const char* name : {"blk.0.attn_q_norm.weight", "blk.2.attn_q.weight",
                           "blk.0.attn_norm.bias", "output.bias", "extra"}) {
    GgufWriter file = tiny_model();
    add_tensor(file, name, {64});
    expect_refused(file, "the tensor \"" + std::string(name) + "\" has no place");
  }
}

TEST_F(ModelShapeTest, NamesATensorOfTheWrongShape) {
  GgufWriter narrow = tiny_model({.left_out = "blk.0.attn_k.weight"});
  add_tensor(narrow, "blk.0.attn_k.weight", {64, 16});
  expect_refused(narrow, "\"blk.0.attn_k.weight\" has 16 x 64 values, expected 32 x 64");
  GgufWriter long_bias = tiny_model();
  add_tensor(long_bias, "blk.0.attn_k.bias", {33});
  expect_refused(long_bias, "\"blk.0.attn_k.bias\"");
  GgufWriter factors = tiny_model();
  add_tensor(factors, "rope_freqs.weight", {32});
  expect_refused(factors, "\"rope_freqs.weight\"");
}

TEST_F(ModelShapeTest, NamesATensorOfATypeThatCannotBeRead) {
  GgufWriter whole = tiny_model({.left_out = "blk.0.attn_k.weight"});
  whole.tensor("blk.0.attn_k.weight", 26 /* I32 */, std::array<std::uint64_t, 2>{64, 32},
               std::string(64UL * 32 * 4, '\0'));
  expect_refused(whole, "\"blk.0.attn_k.weight\" is of type i32");
  GgufWriter half = tiny_model({.left_out = "output_norm.weight"});
  half.tensor("output_norm.weight", 1 /* F16 */, std::array<std::uint64_t, 1>{64},
              std::string(128, '\0'));
  expect_refused(half, "\"output_norm.weight\" is of type f16");
}

TEST_F(ModelShapeTest, NamesTheKeyThatIsMissingOrOutOfRange) {
  GgufWriter bare;
  bare.text("general.architecture", "llama");
  expect_refused(bare, "\"llama.block_count\" is missing or out of range");
  expect_refused(tiny_model({.layers = 0}), "\"llama.block_count\"");
  expect_refused(tiny_model({.layers = 1, .context = 0}), "\"llama.context_length\"");
  GgufWriter per_layer;  // Head counts by layer are another kind of model.
  per_layer.text("general.architecture", "llama");
  for (const char* key :
       {"block_count", "embedding_length", "feed_forward_length", "context_length"})
    per_layer.number("llama." + std::string(key), 64);
  const std::vector<std::int32_t> counts{2, 4};
  per_layer.numbers<std::int32_t>("llama.attention.head_count", counts);
  expect_refused(per_layer, "\"llama.attention.head_count\"");
}

TEST_F(ModelShapeTest, RefusesWhatTheGraphDoesNotCompute) {
  GgufWriter yarn = tiny_model();
  yarn.text("llama.rope.scaling.type", "yarn");
  expect_refused(yarn, "rope scaling \"yarn\"");
  GgufWriter part = tiny_model();
  part.number("llama.rope.dimension_count", 16);
  expect_refused(part, "rope over a part");
  GgufWriter experts = tiny_model();
  experts.number("llama.expert_count", 8);
  expect_refused(experts, "\"expert_count\"");
  GgufWriter window = tiny_model();
  window.number("llama.attention.sliding_window", 512);
  expect_refused(window, "\"attention.sliding_window\"");
  GgufWriter values = tiny_model();
  values.number("llama.attention.value_length", 16);
  expect_refused(values, "different size");
}

TEST_F(ModelShapeTest, RefusesNumbersThatDoNotFitTogether) {
  expect_refused(tiny_model({.heads = 2, .kv_heads = 3}), "do not fit together");
  expect_refused(tiny_model({.width = 48, .heads = 2, .kv_heads = 1}), "multiple of 32");
  expect_refused(tiny_model({.inner_width = 100}), "multiple of 32");
  GgufWriter endless = tiny_model();
  endless.text("llama.rope.scaling.type", "linear");
  endless.real("llama.rope.scaling.factor", 0);
  expect_refused(endless, "\"llama.rope.scaling.factor\"");
}

// A factor of zero would make an angle infinite and every logit NaN.
TEST_F(ModelShapeTest, RefusesRopeFactorsThatAreNoNumbers) {
  for (const float factor : {0.0F, -1.0F, std::nanf(""), HUGE_VALF}) {
    GgufWriter file = tiny_model();
    add_tensor(file, "rope_freqs.weight", {16}, factor);
    expect_refused(file, "\"rope_freqs.weight\"");
  }
}

TEST_F(ModelShapeTest, RefusesAVocabularyThatDoesNotFit) {
  GgufWriter few = tiny_model({.left_out = "token_embd.weight"});
  add_tensor(few, "token_embd.weight", {64, 10});
  expect_refused(few, "vocabulary");
  // One row would be stored as a vector.
  GgufWriter one;
  one.text("general.architecture", "llama");
  for (const char* key : {"block_count", "attention.head_count"})
    one.number("llama." + std::string(key), 1);
  for (const char* key : {"embedding_length", "feed_forward_length", "context_length"})
    one.number("llama." + std::string(key), 32);
  one.real("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  const std::vector<std::string> token{"a"};
  one.texts("tokenizer.ggml.tokens", token);
  add_tensor(one, "token_embd.weight", {32, 1});
  expect_refused(one, "vocabulary");
}

// A family of ours with wrong numbers is wrong for every runtime; others may know other kinds.
TEST_F(ModelShapeTest, KnowsItsOwnFamiliesFromOthers) {
  const auto is_other = [this](const GgufWriter& file) {
    EXPECT_TRUE(write_file(path_, file.bytes()));
    return is_of_another_kind(*GgufFile::open(path_).value());
  };
  for (const char* family : {"llama", "qwen2", "qwen3"})
    EXPECT_FALSE(is_other(tiny_model({.architecture = family}))) << family;
  EXPECT_FALSE(is_other(tiny_model({.architecture = "gemma3", .window = 8, .window_period = 2})));
  EXPECT_TRUE(is_other(tiny_model({.architecture = "phi3"})));
  EXPECT_TRUE(is_other(tiny_model({.architecture = "llama", .window = 8})));
}

}  // namespace
}  // namespace incipit::model
