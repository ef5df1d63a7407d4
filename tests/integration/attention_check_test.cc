// SPDX-License-Identifier: Apache-2.0
//
// The attention check on a real model: fitted, it finds a state file whose checksums are all right
// and whose cells are another prompt's, and the answer is that of a prompt computed anew.
// Tests src/engine/attention_fit.cc
// Tests src/engine/attention_look.h
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "incipit/engine.h"
#include "integration/same_answer.h"
#include "store/state_file.h"
#include "support/installed_models.h"
#include "support/must.h"
#include "support/states.h"
#include "support/temp_dir.h"

namespace incipit {
namespace {

using test::expect_same;
using test::must;

constexpr const char* kRules[] = {
    "You are a clerk of a shop that sells shoes. Parcels take three days, and returns are free for "
    "a month. Never promise a refund; ask for the number of the order, and be polite.",
    "You write about birds. Swifts sleep in the air, wrens sing louder than their size, and the "
    "heron stands still for hours. Keep to what is known, and name the season and the place.",
    "You help with a garden in a cold country. Beans want warm soil, peas do not mind frost, and "
    "garlic is planted in autumn. Say what to do this week, and what can wait until spring.",
    "You explain the rules of chess to children. The knight jumps over others, the bishop keeps "
    "its colour, and the king may castle once. Use short words, and one example for each rule.",
    "You plan journeys by train. Night trains have beds, small stations close early, and bicycles "
    "need a ticket of their own. Give the time of each change, and a way home if one is missed.",
    "You taste bread for a newspaper. A crust should crack, the crumb should spring back, and salt "
    "is not the last word. Describe three loaves, then say which one you would buy again."};
constexpr const char* kQuestions[] = {"Where is my parcel?", "What should I know first, and why?",
                                      "Can you say that in one line?"};

class AttentionCheckOnModel : public testing::Test {
 protected:
  void open(const GeneratorOptions& options, bool shows_attention = true) {
    generator_.reset();
    engine_.reset();
    engine_ = must(Engine::open({.model = test::smollm_path(),
                                 .precision = Precision::kF32,
                                 .ctx_size = 2048,
                                 .shows_attention = shows_attention}));
    generator_ = must(engine_->generator(options));
  }
  [[nodiscard]] TokenVector prompt(std::size_t rules, std::size_t question) const {
    PromptRequest request;
    request.turns = {{"system", kRules[rules % std::size(kRules)]},
                     {"user", kQuestions[question % std::size(kQuestions)]}};
    return must(generator_->tokens(request));
  }
  [[nodiscard]] std::size_t cut(std::size_t rules) const {
    const TokenVector a = prompt(rules, 0);
    return static_cast<std::size_t>(std::ranges::mismatch(a, prompt(rules, 1)).in1 - a.begin());
  }
  // The first `size` tokens of other rules.
  [[nodiscard]] TokenVector other(std::size_t rules, std::size_t size) const {
    TokenVector tokens = prompt(rules, 0);
    while (tokens.size() < size) tokens.push_back(tokens[tokens.size() / 2]);
    tokens.resize(size);
    return tokens;
  }
  [[nodiscard]] std::vector<AttentionTrial> trials() const {
    std::vector<AttentionTrial> trials;
    for (std::size_t i = 0; i < 12; ++i) {
      const std::size_t size = cut(i);
      trials.push_back(
          {.prompt = prompt(i, i), .cut = size, .wrong = {other(i + 1, size), other(i + 2, size)}});
    }
    return trials;
  }
  GenerateRequest request_of(std::size_t rules, std::size_t question) const {
    GenerateRequest request;
    request.tokens = prompt(rules, question);
    request.tokens_max = 8;
    request.sampling.logprobs = 3;
    return request;
  }

  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Generator> generator_;
};

// The cells of one state file under other tokens, with checksums that are right.
void seal_under(const TokenVector& tokens, const std::string& from, const std::string& to) {
  const store::StateFacts facts = must(store::read_state_facts(from));
  const auto end = static_cast<std::ptrdiff_t>(facts.tokens.size());
  auto draft =
      must(store::StateDraft::create(to, {.fingerprint = facts.fingerprint,
                                          .tenant = facts.tenant,
                                          .tokens = {tokens.begin(), tokens.begin() + end}}));
  for (std::size_t piece = 0; piece < facts.pieces.size(); ++piece) {
    must(draft.append(test::piece_of(facts.pieces[piece].end,
                                     must(store::read_state_piece(from, facts, piece)))));
  }
  must(draft.finish());
}

TEST_F(AttentionCheckOnModel, FindsAForgedStateFile) {
  open({});
  std::size_t tried = 0;
  const AttentionFit fit =
      must(generator_->fit_attention_check(trials(), {.on_trial = [&](std::size_t done) {
                                             tried = done;
                                             return true;
                                           }}));
  EXPECT_EQ(tried, 12U);
  EXPECT_EQ(fit.check.heads.size(), 8U);
  EXPECT_EQ(fit.right, 6U);
  EXPECT_EQ(fit.wrong, 12U);
  EXPECT_GT(fit.found.auc, 0.9);
  EXPECT_LT(fit.most.auc, fit.found.auc) << "the plain maximum would do";
  EXPECT_GE(fit.suspected_wrong, 10U);

  // Cells of the birds under the tokens of the shoes, sealed anew.
  const test::TempDir folder;
  const std::size_t size = cut(0);
  PromptRequest birds;
  birds.tokens = other(1, size);
  must(generator_->save(birds, folder.path("birds")));
  seal_under(prompt(0, 0), folder.path("birds"), folder.path("forged"));

  GenerateRequest request = request_of(0, 0);
  request.reads_cache = request.writes_cache = false;
  const Generated right = must(generator_->generate(request));
  request.reads_cache = true;
  EXPECT_EQ(must(generator_->restore(folder.path("forged"))), size);
  const Generated forged = must(generator_->generate(request));
  EXPECT_EQ(forged.kv.matched, size);
  EXPECT_NE(forged.logprobs[0].chosen.logprob, right.logprobs[0].chosen.logprob)
      << "without the check it answers, and wrongly";

  GeneratorOptions options;
  options.kv.folder = folder.path("states");
  options.kv.attention_check = fit.check;
  open(options);
  must(generator_->restore(folder.path("forged")));
  ASSERT_EQ(must(list_kv_folder(options.kv.folder)).size(), 1U);
  const Generated found = must(generator_->generate(request));
  expect_same(found, right);
  EXPECT_EQ(found.kv.matched, 0U);
  EXPECT_EQ(to_string(found.kv.miss), "suspect");
  const GeneratorCounters counters = generator_->counters();
  EXPECT_EQ(counters.looked_at, 1U);
  EXPECT_EQ(counters.suspects, 1U);
  EXPECT_EQ(counters.suspects_wrong, 1U);
  EXPECT_TRUE(must(list_kv_folder(options.kv.folder)).empty());

  // What is computed and hit from now on has the bits of a model that shows nothing.
  std::vector<Generated> with;
  for (std::size_t question = 0; question < 3; ++question)
    with.push_back(must(generator_->generate(request_of(0, question))));
  EXPECT_GE(with[2].kv.matched, size);
  EXPECT_EQ(generator_->counters().suspects_wrong, 1U);
  open({}, false);
  for (std::size_t question = 0; question < 3; ++question)
    expect_same(with[question], must(generator_->generate(request_of(0, question))));
}

TEST_F(AttentionCheckOnModel, RefusesWhatItCannotBe) {
  open({});
  const AttentionTrial good{.prompt = prompt(0, 0), .cut = cut(0), .wrong = {other(1, cut(0))}};
  const auto fails = [&](const AttentionTrial& bad) {
    const std::vector<AttentionTrial> trials{good, bad};
    const auto fit = generator_->fit_attention_check(trials, {});
    return !fit && fit.error().message.contains("trial 1");
  };
  AttentionTrial bad = good;
  bad.cut = bad.prompt.size();
  EXPECT_TRUE(fails(bad));
  bad = good;
  bad.wrong[0].pop_back();
  EXPECT_TRUE(fails(bad));
  bad = good;
  bad.wrong[0].assign(good.prompt.begin(),
                      good.prompt.begin() + static_cast<std::ptrdiff_t>(good.cut));
  EXPECT_TRUE(fails(bad)) << "not wrong at all";
  const auto few = generator_->fit_attention_check({&good, 1}, {});
  EXPECT_EQ(few.error().code, ErrorCode::kInvalidArgument);
  const auto stopped =
      generator_->fit_attention_check({&good, 1}, {.on_trial = [](std::size_t) { return false; }});
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);

  generator_.reset();
  GeneratorOptions options;
  options.kv.attention_check = AttentionCheck{.heads = {{0, 99}}, .threshold = 0.1};
  const auto no_head = engine_->generator(options);
  ASSERT_FALSE(no_head);
  EXPECT_TRUE(no_head.error().message.contains("kv.attention_check: there is no head 0.99"));
  options.kv.attention_check->heads = {{0, 0}};
  engine_ = must(Engine::open({.model = test::smollm_path(), .ctx_size = 512}));
  const auto hidden = engine_->generator(options);
  ASSERT_FALSE(hidden);
  EXPECT_TRUE(hidden.error().message.contains("shows_attention")) << hidden.error().message;
  generator_ = must(engine_->generator({}));
  EXPECT_EQ(generator_->fit_attention_check({&good, 1}, {}).error().code, ErrorCode::kUnavailable);
}

TEST(AttentionCheckOnLibllama, IsDeclinedByName) {
  const auto engine = Engine::open({.model = test::smollm_path(),
                                    .runtime = RuntimeKind::kLlama,
                                    .ctx_size = 512,
                                    .shows_attention = true});
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(engine.error().message.contains("shows_attention"));
}

}  // namespace
}  // namespace incipit
