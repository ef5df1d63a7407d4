// SPDX-License-Identifier: Apache-2.0
//
// Tests the graphs of all families against libllama, on models of two layers. A graph that left a
// norm out or ignored a window would still agree with itself to the bit: only something else that
// reads the same file can tell. Each part of Gemma's graph has a twin that goes without it or has
// it slightly wrong, and must be seen to.
#include "model/graph_builder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <ostream>
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
using test::TinyModelOptions;

using Edit = std::function<void(ModelShape&)>;

constexpr std::uint32_t kTokens = 60;
constexpr std::uint32_t kWindow = 16;

// Mean divergence of our logits from libllama's over all positions of a prompt. The graph may be
// changed by `edit`; libllama reads the file as it is.
double mean_nats(const std::string& name, const TinyModelOptions& options, const Edit& edit = {}) {
  const std::string file = test::tiny_model_file("graph-" + name, options);
  const test::RealRuntime real = test::open_runtime(
      file, {.cells = 256, .threads = 1, .edit = edit, .home = test::scratch("graph-home")});
  const std::size_t vocabulary = real->limits().vocabulary;
  TokenVector tokens;
  for (std::uint32_t i = 0; i < kTokens; ++i)
    tokens.push_back(static_cast<Token>((i * 7919 + i * i * 31 + 3) % vocabulary));
  std::vector<std::uint32_t> rows(kTokens);
  std::iota(rows.begin(), rows.end(), 0U);
  const std::vector<float> want = test::LlamaOracle(file).logits(tokens, rows);
  const Sequence sequence = must(Sequence::create(*real));
  const Step step{.sequence = sequence.id(), .tokens = tokens, .logits_rows = rows};
  const Logits got = must(real->evaluate({&step, 1}));
  double sum = 0;
  for (const std::uint32_t row : rows) {
    const auto expected = std::span(want).subspan(row * vocabulary, vocabulary);
    sum += test::compare_logits(expected, got.row(row)).nats;
  }
  return sum / kTokens;
}

// Ours has its weights in int8, libllama in f32: at random weights that is 0.001 to 0.005 nats.
struct FamilyCase {
  const char* name;
  TinyModelOptions options;
  double nats_most;
};

void PrintTo(const FamilyCase& each, std::ostream* out) { *out << each.name; }

class GraphOfFamily : public testing::TestWithParam<FamilyCase> {};

const TinyModelOptions kGemma{
    .architecture = "gemma3", .head_size = 64, .window = kWindow, .window_period = 2};

INSTANTIATE_TEST_SUITE_P(
    Tiny, GraphOfFamily,
    testing::Values(FamilyCase{"llama", {}, 0.01},
                    FamilyCase{"qwen2", {.architecture = "qwen2"}, 0.01},
                    FamilyCase{"qwen3", {.architecture = "qwen3", .head_size = 64}, 0.005},
                    FamilyCase{"gemma3", kGemma, 0.001}),
    [](const auto& each) { return each.param.name; });

TEST_P(GraphOfFamily, AgreesWithLibllama) {
  EXPECT_LT(mean_nats(GetParam().name, GetParam().options), GetParam().nats_most);
}

struct Twin {
  const char* name;
  Edit edit;
};

void PrintTo(const Twin& twin, std::ostream* out) { *out << twin.name; }

Edit other_window(int by) {
  return [by](ModelShape& shape) {
    shape.windows[0] = static_cast<std::size_t>(static_cast<int>(kWindow) + by);
  };
}

class GraphOfGemma : public testing::TestWithParam<Twin> {};

INSTANTIATE_TEST_SUITE_P(
    Tiny, GraphOfGemma,
    testing::Values(
        Twin{"ignored_window", [](ModelShape& shape) { shape.windows[0] = kTokens; }},
        Twin{"window_one_token_too_wide", other_window(1)},
        Twin{"window_one_token_too_narrow", other_window(-1)},
        Twin{"windows_on_all_layers", [](ModelShape& shape) { shape.windows[1] = kWindow; }},
        Twin{"one_rope",
             [](ModelShape& shape) { shape.local_rope_frequencies = shape.rope_frequencies; }},
        Twin{"silu", [](ModelShape& shape) { shape.gelu = false; }},
        Twin{"plain_embeddings", [](ModelShape& shape) { shape.embedding_scale = 1; }},
        Twin{"another_attention_scale", [](ModelShape& shape) { shape.attention_scale *= 1.1; }},
        Twin{"no_head_norms", [](ModelShape& shape) { shape.head_norms = false; }},
        Twin{"no_post_norms", [](ModelShape& shape) { shape.post_norms = false; }}),
    [](const auto& twin) { return twin.param.name; });

TEST_P(GraphOfGemma, IsSeenToBeWrong) {
  EXPECT_GT(mean_nats("gemma3", kGemma, GetParam().edit), 0.0015);
}

}  // namespace
}  // namespace incipit::model
