// SPDX-License-Identifier: Apache-2.0
#include "engine/text_scorer.h"

#include <algorithm>
#include <map>
#include <utility>

#include "prompt/ticket_text.h"

namespace incipit::engine {

Result<void> TextScorer::set_prefix(TokenSpan prefix) {
  prefix_.reset();
  prefix_tokens_.assign(prefix.begin(), prefix.end());
  return hold_prefix();
}

Result<void> TextScorer::hold_prefix() {
  if (prefix_) return {};
  INCIPIT_TRY(model::Sequence sequence, model::Sequence::create(runtime_));
  if (!prefix_tokens_.empty()) {
    const model::Step step{.sequence = sequence.id(), .tokens = prefix_tokens_, .logits_rows = {}};
    if (const auto logits = runtime_.evaluate({&step, 1}); !logits) {
      return std::unexpected(logits.error());
    }
  }
  prefix_ = std::move(sequence);
  return {};
}

void TextScorer::count(const decode::PassCounters& counters) {
  counters_.passes += counters.passes;
  counters_.tokens += counters.tokens;
  counters_.logits_rows += counters.logits_rows;
}

Result<std::vector<PartScores>> TextScorer::score(std::span<const PromptPart> parts,
                                                  std::size_t rows_max) {
  if (std::ranges::any_of(parts, &PromptPart::shares_prefix)) {
    INCIPIT_TRY_VOID(hold_prefix());
  }
  INCIPIT_TRY(auto results, score_beside_prefix(parts, rows_max));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].shares_prefix || results[i].error != prompt::kTooLong || !prefix_) continue;
    prefix_.reset();
    INCIPIT_TRY(auto alone, score_beside_prefix(parts.subspan(i, 1), rows_max));
    results[i] = std::move(alone.front());
  }
  return results;
}

Result<std::vector<PartScores>> TextScorer::score_beside_prefix(std::span<const PromptPart> parts,
                                                                std::size_t rows_max) {
  std::vector<decode::ScorePrompt> prompts;
  prompts.reserve(parts.size());
  for (const PromptPart& part : parts) {
    prompts.push_back({.base = prefix_ ? prefix_->id() : model::SequenceId{},
                       .shared = part.shares_prefix ? prefix_tokens_.size() : 0,
                       .suffix = part.suffix});
  }
  decode::PassLimits limits;
  limits.tokens_max = rows_max;
  return tree_ != nullptr ? score_tree(prompts, limits) : score_questions(prompts, parts, limits);
}

Result<std::vector<PartScores>> TextScorer::score_tree(std::span<const decode::ScorePrompt> prompts,
                                                       decode::PassLimits limits) {
  decode::LabelScorer scorer(runtime_, *tree_, {.limits = limits, .prune_band = {}});
  auto scored = scorer.score(prompts);
  count(scorer.counters());
  if (!scored) return std::unexpected(std::move(scored).error());
  std::vector<PartScores> results;
  results.reserve(scored->size());
  for (decode::LabelScores& scores : *scored) {
    results.push_back({.error = std::move(scores.error),
                       .raw = std::move(scores.raw),
                       .surfaces = std::move(scores.surfaces),
                       .first_tokens = std::move(scores.first_tokens),
                       .mass = scores.mass});
  }
  return results;
}

// The tails of questions begin behind the ticket and are nearly always the same; a ticket that
// merges with them has its own, and texts are scored together with those that have equal ones.
Result<std::vector<PartScores>> TextScorer::score_questions(
    std::span<const decode::ScorePrompt> prompts, std::span<const PromptPart> parts,
    decode::PassLimits limits) {
  std::map<std::vector<TokenVector>, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < parts.size(); ++i) groups[parts[i].questions].push_back(i);
  std::vector<PartScores> results(parts.size());
  for (const auto& [tails, members] : groups) {
    std::vector<decode::ScorePrompt> group;
    for (const std::size_t i : members) group.push_back(prompts[i]);
    INCIPIT_TRY(decode::QuestionScorer scorer,
                decode::QuestionScorer::create(runtime_, tails, *answers_, limits));
    auto scored = scorer.score(group);
    count(scorer.counters());
    if (!scored) return std::unexpected(std::move(scored).error());
    for (std::size_t i = 0; i < members.size(); ++i) {
      decode::QuestionScores& scores = (*scored)[i];
      PartScores& part = results[members[i]];
      part.surfaces = scores.log_odds();
      part.error = std::move(scores.error);
      part.raw = std::move(scores.yes);
      part.mass = scores.mass;
    }
  }
  return results;
}

}  // namespace incipit::engine
