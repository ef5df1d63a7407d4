// SPDX-License-Identifier: Apache-2.0
//
// Tests src/model/graph_builder.cc
// Tests src/model/bit_law.cc
//
// Gemma 3 270M: 15 of its 18 layers see the last 512 tokens, its heads are of 256 numbers, its
// vocabulary is of 262,144 tokens. Its prefixes are reused at any length, also beyond the window.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "incipit/engine.h"
#include "integration/law_scenario.h"
#include "integration/ticket_file.h"
#include "model/chat_template.h"
#include "model/tokenizer.h"
#include "support/gemma_model.h"
#include "support/installed_models.h"
#include "support/llama_oracle.h"
#include "support/must.h"
#include "support/real_runtime.h"
#include "support/temp_dir.h"
#include "support/ticket_task.h"

namespace incipit::test {
namespace {

constexpr std::size_t kWindow = 512;
constexpr double kNatsMost = 0.1;

// The first tokens of the example tickets, which never repeat themselves.
TokenVector ticket_tokens(std::size_t count) {
  static const TokenVector all = [] {
    const auto tokenizer = must(model::Tokenizer::open(gemma_path()));
    std::string text;
    for (const std::string& ticket : example_tickets()) text += ticket + "\n";
    TokenVector tokens{*tokenizer->bos()};
    const TokenVector rest = must(tokenizer->encode_plain(text));
    tokens.insert(tokens.end(), rest.begin(), rest.end());
    return tokens;
  }();
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count)};
}

// Prompts of 5, 100 and 730 tokens, and what libllama says at some of their positions.
struct Prompt {
  TokenVector tokens;
  std::vector<std::uint32_t> rows;
  std::vector<float> want;
};

const std::vector<Prompt>& prompts() {
  static const std::vector<Prompt> all = [] {
    std::vector<Prompt> made{{.tokens = ticket_tokens(5), .rows = {4}, .want = {}},
                             {.tokens = ticket_tokens(100), .rows = {49, 99}, .want = {}},
                             {.tokens = ticket_tokens(730),
                              .rows = {399, 511, 512, 612, 640, 670, 700, 729},
                              .want = {}}};
    const LlamaOracle oracle(gemma_path());
    for (Prompt& prompt : made) prompt.want = oracle.logits(prompt.tokens, prompt.rows);
    return made;
  }();
  return all;
}

// Calls visit(row, disagreement) for each position that is watched.
template <typename Visit>
void compare_with_oracle(const RealRuntime& real, const Prompt& prompt, Visit visit) {
  const std::size_t vocabulary = real->limits().vocabulary;
  const WholePrompt got = evaluate_whole(*real, prompt.tokens, prompt.rows);
  for (std::size_t i = 0; i < prompt.rows.size(); ++i) {
    visit(prompt.rows[i],
          compare_logits(std::span(prompt.want).subspan(i * vocabulary, vocabulary),
                         std::span(got.logits).subspan(i * vocabulary, vocabulary)));
  }
}

class GemmaWindow : public testing::TestWithParam<Mode> {};

INSTANTIATE_TEST_SUITE_P(Gemma, GemmaWindow, testing::ValuesIn(float_modes()),
                         [](const auto& mode) { return mode.param.name; });

// Both quantise activations, each in its way, and we quantise the weights once more. At these 11
// positions that is up to 0.032 nats and 0.46 in one log-probability, and where libllama's first
// two tokens are closer than that they may change places (it happened at 0.41). Bounds are three
// and two times what was seen.
TEST_P(GemmaWindow, AgreesWithLibllamaBeforeAndBehindTheWindow) {
  const RealRuntime real = open_runtime(
      gemma_path(), {.precision = GetParam().precision, .kv_type = GetParam().kv_type});
  Disagreement most;
  for (const Prompt& prompt : prompts()) {
    compare_with_oracle(real, prompt, [&](std::uint32_t row, const Disagreement& found) {
      most = {.nats = std::max(most.nats, found.nats),
              .likely = std::max(most.likely, found.likely),
              .lost = std::max(most.lost, found.lost)};
      EXPECT_LT(found.nats, kNatsMost) << row << " of " << prompt.tokens.size();
      EXPECT_LT(found.likely, 1.0) << row << " of " << prompt.tokens.size();
      EXPECT_LT(found.lost, 0.5) << row << " of " << prompt.tokens.size();
    });
  }
  std::printf("%s: at most %.4f nats, %.2f in a log-probability, %.3f behind the first token\n",
              GetParam().name, most.nats, most.likely, most.lost);
}

TEST_P(GemmaWindow, IsMissedBehindItsEdgeIfItIsIgnored) {
  const RealRuntime blind =
      open_runtime(gemma_path(), {.precision = GetParam().precision,
                                  .kv_type = GetParam().kv_type,
                                  .edit = [](model::ModelShape& shape) {
                                    for (std::size_t& window : shape.windows)
                                      window = window == 0 ? 0 : shape.context_tokens;
                                  }});
  double behind = 0;
  double count = 0;
  compare_with_oracle(blind, prompts().back(), [&](std::uint32_t row, const Disagreement& found) {
    if (row < kWindow) {
      EXPECT_LT(found.nats, kNatsMost) << row;
    } else if (row >= kWindow + 100) {
      behind += found.nats;
      ++count;
    }
  });
  std::printf("%s: without the window %.2f nats on average\n", GetParam().name, behind / count);
  EXPECT_GT(behind / count, 5 * kNatsMost);
}

// The law of bits. What the oracle runtime sees are whole prompts, on one thread.
class GemmaLaw : public testing::TestWithParam<Mode> {
 protected:
  [[nodiscard]] static RealRuntimeOptions options() {
    return {.precision = GetParam().precision, .kv_type = GetParam().kv_type, .cells = 4096};
  }
};

INSTANTIATE_TEST_SUITE_P(Gemma, GemmaLaw, testing::ValuesIn(float_modes()),
                         [](const auto& mode) { return mode.param.name; });

TEST_P(GemmaLaw, HoldsBeforeAcrossAndBehindTheWindow) {
  const RealRuntime subject = open_proved_runtime(gemma_path(), options());
  RealRuntimeOptions lonely = options();
  lonely.threads = 1;
  lonely.law = subject->law();
  const RealRuntime oracle = open_runtime(gemma_path(), lonely);
  EXPECT_TRUE(subject->limits().exact) << subject->limits().approximate_reason;
  EXPECT_EQ(subject->window(), kWindow);
  const std::vector<std::size_t> odd{1, 2, 3, 7, 8, 15, 17, 31, 33, 64, 127};
  EXPECT_EQ(
      run_scenario({.sequences = 3, .tokens_max = 60, .pieces = odd, .seed = 8}, *subject, *oracle),
      "");
  // Across: forks, truncations, saves and restores within 40 tokens of the window's edge.
  EXPECT_EQ(run_scenario({.sequences = 2,
                          .tokens_min = 30,
                          .tokens_max = 70,
                          .pieces = odd,
                          .rows_watched = 1,
                          .shared_tokens = kWindow - 20,
                          .seed = 6},
                         *subject, *oracle),
            "");
  EXPECT_EQ(run_scenario({.sequences = 2,
                          .tokens_max = 60,
                          .pieces = odd,
                          .rows_watched = 1,
                          .shared_tokens = kWindow + 93,
                          .seed = 7},
                         *subject, *oracle),
            "");
}

// The engine on a copy that has a template: the base model knows the turns from nowhere, so its
// labels mean little, but they are the same on every route.
class GemmaEngine : public testing::Test {
 protected:
  static void TearDownTestSuite() { kept().reset(); }
  static Engine& engine() {
    if (!kept()) kept() = must(Engine::open({.model = gemma_with_template(), .ctx_size = 2048}));
    return *kept();
  }
  static std::unique_ptr<Engine>& kept() {
    static std::unique_ptr<Engine> opened;
    return opened;
  }
};

TEST_F(GemmaEngine, ScoresTicketsTheSameOnEveryRoute) {
  const auto made = must(engine().classifier(ticket_task(), {}));
  ASSERT_TRUE(made->report().exact) << made->report().approximate_reason;
  const auto texts = std::span(example_tickets()).first(4);
  const std::vector<std::string_view> shown(texts.begin(), texts.end());
  const auto whole = must(made->score(shown, Route::kFull));
  for (const Route route : {Route::kCached, Route::kBatched}) {
    const auto got = must(made->score(shown, route));
    for (std::size_t i = 0; i < shown.size(); ++i) {
      EXPECT_EQ(got[i].error, "");
      EXPECT_EQ(got[i].scores, whole[i].scores) << i;
    }
  }
}

// Prompts of 720 tokens that share 700, 500 and 40: behind the window's edge, before it, far
// before.
TEST_F(GemmaEngine, ReusesPrefixesLongerThanTheWindow) {
  GeneratorOptions options;
  const TempDir folder;
  options.kv.folder = folder.path("states");
  auto generator = must(engine().generator(options));
  const auto ask = [&](std::size_t shared, bool cached) {
    GenerateRequest request;
    request.tokens = ticket_tokens(720);
    for (std::size_t i = shared; i < request.tokens.size(); ++i) request.tokens[i] += 1;
    request.tokens_max = 2;
    request.sampling = {.temperature = 0.8, .seed = 7, .logprobs = 3};
    request.reads_cache = request.writes_cache = cached;
    return must(generator->generate(request));
  };
  const auto expect_reused = [&](std::size_t shared) {
    const Generated hit = ask(shared, true);
    const Generated fresh = ask(shared, false);
    EXPECT_EQ(hit.kv.matched, shared);
    EXPECT_EQ(hit.tokens, fresh.tokens);
    ASSERT_EQ(hit.logprobs.size(), fresh.logprobs.size());
    for (std::size_t i = 0; i < hit.logprobs.size(); ++i)
      EXPECT_EQ(hit.logprobs[i].chosen.logprob, fresh.logprobs[i].chosen.logprob) << shared;
  };
  EXPECT_EQ(ask(720, true).kv.matched, 0U);
  for (const std::size_t shared : {700U, 500U, 40U}) expect_reused(shared);
}

TEST_F(GemmaEngine, NamesWhatTheFileAsItIsLacks) {
  const auto refused = model::ChatTemplate::of(*must(model::Tokenizer::open(gemma_path())));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("carries no chat template"), std::string::npos);
}

}  // namespace
}  // namespace incipit::test
