// SPDX-License-Identifier: Apache-2.0
//
// Properties of LabelScorer against an oracle without tree, batch, fork or pruning: every label
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

namespace incipit::decode {
namespace {

using model::Sequence;
using model::Step;
using test::FakeOptions;
using test::FakeRuntime;

constexpr Token kEnd = 9;

// Few tokens, so that labels share starts often.
TokenVector random_label() {
  return *rc::gen::nonEmpty(rc::gen::resize(5, rc::gen::container<TokenVector>(rc::gen::inRange(20, 23))));
}

struct LabelSet {
  std::vector<std::string> names;
  std::vector<Surface> surfaces;
};

// Up to eight distinct surfaces over up to eight labels: some labels have synonyms.
LabelSet random_labels() {
  std::set<TokenVector> distinct;
  for (int i = *rc::gen::inRange(2, 9); i > 0; --i) distinct.insert(random_label());
  LabelSet labels;
  for (const TokenVector& tokens : distinct) {
    const bool is_synonym = !labels.names.empty() && *rc::gen::inRange(0, 4) == 0;
    if (!is_synonym) labels.names.push_back("label " + std::to_string(labels.names.size()));
    labels.surfaces.push_back({labels.names.size() - 1, "surface", tokens});
  }
  return labels;
}

std::vector<TokenVector> random_prompts(std::size_t count_max) {
  std::vector<TokenVector> prompts(*rc::gen::inRange<std::size_t>(1, count_max + 1));
  for (TokenVector& prompt : prompts) {
    prompt.resize(*rc::gen::inRange<std::size_t>(1, 8));
    for (Token& token : prompt) token = *rc::gen::inRange(0, 8);
  }
  return prompts;
}

LabelTree sequence_tree(const LabelSet& labels) {
  auto tree = LabelTree::build(labels.names, labels.surfaces,
                               {.scoring = Scoring::kSequence, .end = kEnd});
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

std::vector<LabelScores> score(model::Runtime& runtime, const LabelTree& tree,
                               std::span<const ScorePrompt> prompts, ScoreOptions options = {}) {
  auto scores = LabelScorer(runtime, tree, options).score(prompts);
  RC_ASSERT(scores.has_value());
  return std::move(*scores);
}

std::vector<ScorePrompt> fresh(const std::vector<TokenVector>& prompts) {
  std::vector<ScorePrompt> wanted;
  for (const TokenVector& prompt : prompts) wanted.push_back({.suffix = prompt});
  return wanted;
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
  FakeRuntime runtime;
  const LabelSet labels = random_labels();
  const auto prompts = random_prompts(5);
  const auto scores = score(runtime, sequence_tree(labels), fresh(prompts));
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
  FakeRuntime roomy;
  FakeRuntime tight({.cells = *rc::gen::inRange<std::size_t>(160, 400),
                     .block_cells = *rc::gen::element<std::size_t>(1, 4, 16)});
  const LabelTree tree = sequence_tree(random_labels());
  const auto decision = policy::LabelDecision::create(task_with(tree.labels()));
  const auto suffixes = random_prompts(12);
  const TokenVector prefix(*rc::gen::inRange<std::size_t>(1, 40), 5);
  const auto base = Sequence::create(tight);
  const Step step{.sequence = base->id(), .tokens = prefix, .logits_rows = {}};
  RC_ASSERT(tight.evaluate({&step, 1}).has_value());
  const std::size_t cells = tight.cells_free();

  std::vector<std::size_t> order(suffixes.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::shuffle(order, std::mt19937_64(*rc::gen::arbitrary<std::uint64_t>()));
  std::vector<ScorePrompt> shuffled;
  for (const std::size_t i : order) shuffled.push_back({base->id(), prefix.size(), suffixes[i]});
  const PassLimits limits{.tokens_max = *rc::gen::inRange<std::size_t>(0, 30),
                          .logits_rows_max = *rc::gen::inRange<std::size_t>(1, 20)};
  const auto got = score(tight, tree, shuffled, {.limits = limits});
  for (std::size_t k = 0; k < order.size(); ++k) {
    TokenVector whole = prefix;
    whole.insert(whole.end(), suffixes[order[k]].begin(), suffixes[order[k]].end());
    const LabelScores want = score(roomy, tree, fresh({whole}))[0];
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
  const auto both = LabelScorer(runtime, *tree).score(fresh(prompts));
  const auto alone = LabelScorer(runtime, *tree).score(fresh({prompts[0]}));
  EXPECT_NE((*both)[0].raw, (*alone)[0].raw);
  EXPECT_NEAR((*both)[0].raw[0], (*alone)[0].raw[0], 4e-3);
  EXPECT_TRUE(policy::needs_rescore(1e-3, 8e-3));
}

// Pruning changes neither the winner, nor its score, nor any label within the band.
RC_GTEST_PROP(LabelScorerProperty, PruningIsExact, ()) {
  FakeRuntime runtime({.seed = *rc::gen::inRange<std::uint64_t>(0, 1000)});
  const LabelSet labels = random_labels();
  const LabelTree tree = sequence_tree(labels);
  const auto prompts = random_prompts(5);
  const double band = *rc::gen::element(0.0, 0.05, 2.0);
  const auto full = score(runtime, tree, fresh(prompts));
  const auto pruned = score(runtime, tree, fresh(prompts), {.prune_band = band});
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const auto& want = full[i].raw;
    const auto& got = pruned[i].raw;
    const auto best = std::ranges::max_element(want) - want.begin();
    RC_ASSERT(std::ranges::max_element(got) - got.begin() == best);
    const double top = want[static_cast<std::size_t>(best)];
    for (std::size_t k = 0; k < want.size(); ++k) {
      RC_ASSERT(got[k] >= want[k] - 1e-9);
      if (want[k] < top - band && pruned[i].is_bound[k]) continue;
      RC_ASSERT(got[k] == want[k]);
      RC_ASSERT(!pruned[i].is_bound[k]);
    }
  }
}

TEST(LabelScorerProperty, PruningSavesMostOfTheWorkForManyLabels) {
  FakeRuntime runtime({.vocabulary = 400});
  std::vector<std::string> names;
  std::vector<Surface> surfaces;
  for (Token i = 0; i < 77; ++i) {
    names.push_back("label " + std::to_string(i));
    surfaces.push_back({static_cast<std::size_t>(i), "x", {100 + i, 200 + i % 7, 300 + i % 5}});
  }
  const auto tree = LabelTree::build(names, surfaces, {.scoring = Scoring::kSequence, .end = kEnd});
  const TokenVector prompt{1, 2, 3};
  // A clear case: the model says label 42 with 0.95.
  runtime.script(prompt, {{142, 0.95}});
  runtime.script(TokenVector{1, 2, 3, 142}, {{200, 0.99}});
  runtime.script(TokenVector{1, 2, 3, 142, 200}, {{302, 0.99}});
  runtime.script(TokenVector{1, 2, 3, 142, 200, 302}, {{kEnd, 0.99}});
  LabelScorer full(runtime, *tree);
  LabelScorer pruning(runtime, *tree, {.prune_band = 0.05});
  const auto want = full.score(fresh({prompt}));
  const auto got = pruning.score(fresh({prompt}));
  EXPECT_EQ((*got)[0].raw[42], (*want)[0].raw[42]);
  EXPECT_EQ(full.counters().tokens, 3U + 77 * 3);
  EXPECT_EQ(pruning.counters().tokens, 3U + 3);
}

}  // namespace
}  // namespace incipit::decode
