// SPDX-License-Identifier: Apache-2.0
//
// Properties of LabelScorer against an oracle without tree, batch or fork: every label
// of every prompt is evaluated whole on a fresh sequence.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "decode/label_scorer.h"
#include "decode/log_softmax.h"
#include "policy/label_decision.h"
#include "support/fake_runtime.h"
#include "support/label_scores.h"

namespace incipit::decode {
namespace {

using model::Sequence;
using model::Step;
using test::FakeRuntime;
using test::whole_prompts;

constexpr Token kEnd = 9;

// Draws from one seed: rapidcheck's own ranges begin too narrow for labels to meet and part.
class Dice {
 public:
  Dice() : random_(*rc::gen::resize(rc::kNominalSize, rc::gen::arbitrary<std::uint64_t>())) {}

  // A number in [low, high).
  template <typename T>
  T operator()(T low, T high) {
    return std::uniform_int_distribution<T>(low, high - 1)(random_);
  }
  std::mt19937_64& generator() { return random_; }

 private:
  std::mt19937_64 random_;
};

TokenVector random_tokens(Dice& dice, std::size_t length, Token low, Token high) {
  TokenVector tokens(length);
  std::ranges::generate(tokens, [&] { return dice(low, high); });
  return tokens;
}

struct LabelSet {
  std::vector<std::string> names;
  std::vector<Surface> surfaces;
};

// Up to eight distinct surfaces of few different tokens; some labels have synonyms.
LabelSet random_labels(Dice& dice) {
  std::set<TokenVector> distinct;
  for (int i = dice(2, 9); i > 0; --i) {
    distinct.insert(random_tokens(dice, dice(std::size_t{1}, std::size_t{5}), 20, 24));
  }
  LabelSet labels;
  for (const TokenVector& tokens : distinct) {
    const bool is_synonym = !labels.names.empty() && dice(0, 4) == 0;
    if (!is_synonym) labels.names.push_back("label " + std::to_string(labels.names.size()));
    labels.surfaces.push_back({labels.names.size() - 1, "surface", tokens});
  }
  return labels;
}

std::vector<TokenVector> random_prompts(Dice& dice, std::size_t count_max) {
  std::vector<TokenVector> prompts(dice(std::size_t{1}, count_max + 1));
  for (TokenVector& prompt : prompts) {
    prompt = random_tokens(dice, dice(std::size_t{1}, std::size_t{8}), 0, 8);
  }
  return prompts;
}

LabelTree sequence_tree(const LabelSet& labels) {
  auto tree =
      LabelTree::build(labels.names, labels.surfaces, {.scoring = Scoring::kSequence, .end = kEnd});
  RC_ASSERT(tree.has_value());
  return std::move(*tree);
}

// Sum of the log probabilities of `label` and the end token behind `prompt`.
double oracle(model::Runtime& runtime, TokenVector prompt, TokenVector label) {
  const std::size_t begin = prompt.size();
  prompt.insert(prompt.end(), label.begin(), label.end());
  label.push_back(kEnd);
  std::vector<std::uint32_t> rows(label.size());
  std::iota(rows.begin(), rows.end(), static_cast<std::uint32_t>(begin - 1));
  const auto sequence = Sequence::create(runtime);
  const Step step{.sequence = sequence->id(), .tokens = prompt, .logits_rows = rows};
  const auto logits = runtime.evaluate({&step, 1});
  double sum = 0;
  for (std::size_t i = 0; i < label.size(); ++i) {
    const auto row = logits->row(i);
    sum += row[static_cast<std::size_t>(label[i])] - log_sum_exp(row);
  }
  return sum;
}

std::vector<LabelScores> score(FakeRuntime& runtime, const LabelTree& tree,
                               const test::ScoredPrompts& prompts) {
  auto scores = test::try_score(runtime, &tree, nullptr, prompts);
  RC_ASSERT(scores.has_value());
  return std::move(*scores);
}

Task task_with(std::size_t labels) {
  Task task;
  for (std::size_t i = 0; i < labels; ++i) task.labels.push_back({.name = std::to_string(i)});
  return task;
}

Label label_of(const policy::LabelDecision& decision, const LabelScores& scores) {
  return decision.decide({.scores = scores.raw, .raw = scores.raw, .mass = scores.mass}, {});
}

// Public report (C2): a label's score is what a full evaluation of prompt and label gives.
RC_GTEST_PROP(LabelScorerProperty, EverySurfaceEqualsAWholeEvaluationToTheBit, ()) {
  Dice dice;
  FakeRuntime runtime;
  const LabelSet labels = random_labels(dice);
  const auto prompts = random_prompts(dice, 5);
  const auto scores = score(runtime, sequence_tree(labels), {.parts = whole_prompts(prompts)});
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    for (std::size_t k = 0; k < labels.surfaces.size(); ++k) {
      RC_ASSERT(scores[i].surfaces[k] == oracle(runtime, prompts[i], labels.surfaces[k].tokens));
    }
    RC_ASSERT(scores[i].mass <= 1 + 1e-9);
  }
}

// Public report (C46): scores depended on the order of requests once a prefix was cached. They
// are a function of the text alone: of no neighbour, no order, no cut, no number of cells.
RC_GTEST_PROP(LabelScorerProperty, ScoresAreAFunctionOfTheTextAlone, ()) {
  Dice dice;
  FakeRuntime roomy;
  FakeRuntime tight({.cells = dice(std::size_t{160}, std::size_t{400}),
                     .block_cells = *rc::gen::element<std::size_t>(1, 4, 16)});
  const LabelTree tree = sequence_tree(random_labels(dice));
  const auto decision = policy::LabelDecision::create(task_with(tree.labels()));
  const auto suffixes = random_prompts(dice, 12);
  const TokenVector prefix(dice(std::size_t{1}, std::size_t{40}), 5);
  const std::size_t cells = tight.cells_free();

  std::vector<std::size_t> order(suffixes.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::shuffle(order, dice.generator());
  test::ScoredPrompts shuffled{.prefix = prefix};
  for (const std::size_t i : order) shuffled.parts.push_back({.suffix = suffixes[i]});
  shuffled.limits = {.jobs_max = dice(std::size_t{1}, std::size_t{20}),
                     .rows_max = dice(std::size_t{1}, std::size_t{30}),
                     .logits_rows_max = dice(std::size_t{1}, std::size_t{20})};
  const auto got = score(tight, tree, shuffled);
  for (std::size_t k = 0; k < order.size(); ++k) {
    TokenVector whole = prefix;
    whole.insert(whole.end(), suffixes[order[k]].begin(), suffixes[order[k]].end());
    const LabelScores want = score(roomy, tree, {.parts = whole_prompts({whole})})[0];
    RC_ASSERT(got[k].error.empty());
    RC_ASSERT(got[k].raw == want.raw);
    RC_ASSERT(got[k].mass == want.mass);
    RC_ASSERT(label_of(*decision, got[k]).best == label_of(*decision, want).best);
    RC_ASSERT(label_of(*decision, got[k]).probabilities == label_of(*decision, want).probabilities);
  }
  RC_ASSERT(tight.cells_free() == cells);
}

// The twin: a runtime that breaks the law must be seen to break it.
TEST(LabelScorerProperty, ADriftingRuntimeGivesScoresThatDependOnTheBatch) {
  FakeRuntime runtime({.exact = false});
  const std::vector<std::string> names{"a", "b"};
  const std::vector<Surface> surfaces{{0, "a", {20}}, {1, "b", {21}}};
  const auto tree = LabelTree::build(names, surfaces, {});
  const std::vector<TokenVector> prompts{{1, 2}, {3, 4}};
  const auto both = score(runtime, *tree, {.parts = whole_prompts(prompts)});
  const auto alone = score(runtime, *tree, {.parts = whole_prompts({prompts[0]})});
  EXPECT_NE(both[0].raw, alone[0].raw);
  EXPECT_NEAR(both[0].raw[0], alone[0].raw[0], 4e-3);
  EXPECT_TRUE(policy::needs_rescore(1e-3, 8e-3));
}

}  // namespace
}  // namespace incipit::decode
