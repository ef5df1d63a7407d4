// SPDX-License-Identifier: Apache-2.0
//
// Scores prompts on the fake runtime by the road that all texts take: TextScorer, Scheduler,
// Batcher. Nothing is left in the runtime.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "engine/text_scorer.h"
#include "kv/prefix_cache.h"
#include "support/fake_runtime.h"
#include "support/must.h"

namespace incipit::test {

struct ScoredPrompts {
  TokenVector prefix = {};  // That all of them share.
  std::vector<engine::PromptPart> parts = {};
  engine::BatcherLimits limits = {};
};

inline std::vector<engine::PromptPart> whole_prompts(const std::vector<TokenVector>& prompts) {
  std::vector<engine::PromptPart> parts;
  for (const TokenVector& tokens : prompts)
    parts.push_back({.suffix = tokens, .shares_prefix = false});
  return parts;
}

// A tree, or answers.
inline Result<std::vector<decode::LabelScores>> try_score(FakeRuntime& runtime,
                                                          const decode::LabelTree* tree,
                                                          const decode::AnswerTokens* answers,
                                                          const ScoredPrompts& prompts) {
  kv::PrefixCache cache(runtime, nullptr, {}, [] { return 0; });
  engine::Scheduler scheduler(runtime, cache, prompts.limits, 16);
  engine::TextScorer scorer(scheduler, runtime.limits().context_tokens, "", tree, answers);
  must(scorer.set_prefix(prompts.prefix));
  auto scores = scorer.score(prompts.parts);
  scheduler.inspect([&](kv::PrefixCache& held, const engine::BatcherCounters&) {
    held.check_invariants();
    std::size_t kept = 0;
    for (const KvEntry& entry : held.entries()) kept += entry.end - entry.begin;
    EXPECT_LE(kept, prompts.prefix.size()) << "a prompt's own tokens were kept";
  });
  return scores;
}

}  // namespace incipit::test
