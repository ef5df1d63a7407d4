// SPDX-License-Identifier: Apache-2.0
//
// The libllama runtime on a model of two layers keeps the contract, within a tolerance, in every
// KV type. (On real models: tests/integration.)
// Tests src/model/llama_runtime.cc
// Tests src/model/llama_machine.cc
// Tests src/model/libllama.cc
#include "model/llama_runtime.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "conformance/runtime_conformance.h"
#include "model/cell_state.h"
#include "model/libllama.h"
#include "support/must.h"
#include "support/tiny_model.h"

namespace incipit::test {
namespace {

using model::LlamaRuntime;
using model::Sequence;
using model::Step;

struct Kind {
  const char* name;
  const char* architecture;
  KvType kv_type;
  float tolerance;
  std::uint32_t window = 0;
};

std::unique_ptr<LlamaRuntime> open_tiny(const Kind& kind, std::uint64_t seed, std::size_t cells) {
  const std::string name = std::string("llama-") + kind.name + std::to_string(seed);
  TinyModelOptions tiny{.architecture = kind.architecture, .context = 512, .seed = seed};
  if (kind.window > 0) {
    tiny.window = kind.window;
    tiny.window_period = 2;
  }
  const std::string file = tiny_model_file(name, tiny);
  return must(LlamaRuntime::open(
      file, {.kv_type = kind.kv_type, .cells = cells, .threads = 1, .identity = name}));
}

// Opened at the first use and kept: GoogleTest asks for the subjects once for each test.
model::Runtime& opened(const Kind& kind, std::uint64_t seed) {
  static std::map<std::string, std::unique_ptr<LlamaRuntime>> kept;
  auto& runtime = kept[std::string(kind.name) + std::to_string(seed)];
  if (!runtime) runtime = open_tiny(kind, seed, 2048);
  return *runtime;
}

RuntimeUnderTest tiny(const Kind& kind) {
  return tiny_subject(
      kind.name, [kind](std::uint64_t seed) -> model::Runtime& { return opened(kind, seed); },
      kind.tolerance);
}

const Kind kPlain{"llama_f32", "llama", KvType::kF32, 3e-3F};
const Kind kWindowed{"gemma3_window", "gemma3", KvType::kF32, 3e-3F, 16};

INSTANTIATE_TEST_SUITE_P(TinyLlama, RuntimeConformance,
                         testing::Values(tiny(kPlain),
                                         tiny({"llama_f16", "llama", KvType::kAuto, 3e-3F}),
                                         tiny({"qwen2_int8", "qwen2", KvType::kInt8, 1.2e-2F}),
                                         tiny({"qwen2_bf16", "qwen2", KvType::kBf16, 3e-3F}),
                                         tiny(kWindowed)),
                         [](const auto& subject) { return subject.param.name; });

// Bytes with a right checksum that are not libllama's: a stranger can compute one.
TEST(LlamaRuntime, RefusesSealedBytesThatAreNotCells) {
  for (const Kind& kind : {kPlain, kWindowed}) {
    auto& runtime = dynamic_cast<LlamaRuntime&>(opened(kind, 1));
    const std::size_t cells = runtime.cells_free();
    const auto source = must(Sequence::create(runtime));
    const TokenVector tokens{3, 40, 70, 100, 200, 280};
    const Step step{.sequence = source.id(), .tokens = tokens, .logits_rows = {}};
    must(runtime.evaluate({&step, 1}));
    const auto bytes = must(runtime.save(source.id(), 0, 6));
    const auto target = must(Sequence::create(runtime));
    // The frame ends where libllama's magic number begins; its words are the first to go.
    const std::size_t head = bytes.size() - runtime.facts().state.of(6);
    for (std::size_t at = head; at < head + 64; at += 4) {
      auto forged = bytes;
      for (std::size_t i = at; i < at + 4; ++i) forged[i] = std::byte{0xFF};
      model::seal_cells(forged, runtime.fingerprint(), 0, 6);
      const auto restored = runtime.restore(target.id(), forged);
      if (restored) {  // A word that libllama does not look at.
        ASSERT_TRUE(runtime.truncate(target.id(), 0));
        continue;
      }
      EXPECT_EQ(restored.error().code, ErrorCode::kCorruption) << at;
      EXPECT_EQ(target.length(), 0U);
      EXPECT_EQ(runtime.cells_free(), cells - 6);
    }
    for (const std::size_t end : {std::size_t{5}, std::size_t{7}, std::size_t{1} << 40U}) {
      auto forged = bytes;
      model::seal_cells(forged, runtime.fingerprint(), 0, end);
      EXPECT_FALSE(runtime.restore(target.id(), forged)) << end;
    }
    EXPECT_TRUE(runtime.restore(target.id(), bytes));
  }
}

// libllama takes what lies behind a window for free where one sequence holds it.
TEST(LlamaRuntime, AWindowKeepsWhatAnEarlierCutNeeds) {
  const auto runtime = open_tiny(kWindowed, 1, 256);
  TokenVector tokens;
  for (Token i = 0; i < 120; ++i) tokens.push_back(3 + i * 7 % 280);
  const auto last_row = [&](const Sequence& sequence, TokenSpan piece) {
    const std::vector<std::uint32_t> row{static_cast<std::uint32_t>(piece.size() - 1)};
    const Step step{.sequence = sequence.id(), .tokens = piece, .logits_rows = row};
    const auto logits = must(runtime->evaluate({&step, 1}));
    return std::vector<float>(logits.values.begin(), logits.values.end());
  };
  const auto kept = must(Sequence::create(*runtime));
  last_row(kept, tokens);
  // Others come and go, and fill what is free again and again.
  for (int round = 0; round < 4; ++round) {
    const auto other = must(Sequence::create(*runtime));
    last_row(other, TokenSpan(tokens).first(100));
  }
  const auto whole = must(Sequence::create(*runtime));
  const auto expected = last_row(whole, TokenSpan(tokens).first(60));
  const auto fork = must(Sequence::fork(*runtime, kept.id(), 59));
  const auto got = last_row(fork, TokenSpan(tokens).subspan(59, 1));
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 3e-3F) << i;
}

TEST(LlamaRuntime, NamesWhatItCannotUse) {
  const auto recurrent = LlamaRuntime::open(tiny_mamba_file("mamba"), {});
  ASSERT_FALSE(recurrent);
  EXPECT_EQ(recurrent.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(recurrent.error().message.find("\"mamba\" is recurrent"), std::string::npos)
      << recurrent.error().message;
  const std::string strange = tiny_model_file("strange", {.architecture = "nobody"});
  const auto unknown = LlamaRuntime::open(strange, {});
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find(strange), std::string::npos) << unknown.error().message;
  const std::string cut = tiny_model_file("cut", {.left_out = "blk.1.ffn_up.weight"});
  EXPECT_FALSE(LlamaRuntime::open(cut, {}));
  EXPECT_FALSE(model::LlamaMachine::look_at(cut));
  const auto huge = LlamaRuntime::open(tiny_model_file("huge", {}), {.cells = 1'000'000'000});
  ASSERT_FALSE(huge);
  EXPECT_EQ(huge.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(huge.error().message.find("would fit"), std::string::npos) << huge.error().message;
}

TEST(LlamaRuntime, AnotherKvTypeIsAnotherFingerprint) {
  const std::string file = tiny_model_file("types", {});
  const auto f32 = must(LlamaRuntime::open(file, {.kv_type = KvType::kF32, .identity = "a"}));
  const auto int8 = must(LlamaRuntime::open(file, {.kv_type = KvType::kInt8, .identity = "a"}));
  const auto other = must(LlamaRuntime::open(file, {.kv_type = KvType::kF32, .identity = "b"}));
  EXPECT_NE(f32->fingerprint(), int8->fingerprint());
  EXPECT_NE(f32->fingerprint(), other->fingerprint());
  EXPECT_LT(int8->limits().cell_bytes, f32->limits().cell_bytes / 3);
  EXPECT_FALSE(f32->limits().exact);
  EXPECT_NE(model::libllama_version().find("llama.cpp"), std::string::npos);
}

}  // namespace
}  // namespace incipit::test
