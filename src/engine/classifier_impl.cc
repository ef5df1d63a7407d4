// SPDX-License-Identifier: Apache-2.0
#include "engine/classifier_impl.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/elapsed.h"
#include "policy/normalisation.h"
#include "prompt/ticket_text.h"

namespace incipit::engine {
namespace {

// Texts of one pass where nothing was asked for: the rest of a call follows in further passes.
constexpr std::size_t kTextsPerCall = 64;

}  // namespace

ClassifierImpl::ClassifierImpl(std::shared_ptr<ServedModel> served, Task task,
                               ClassifierOptions options)
    : served_(std::move(served)),
      loaded_(served_->loaded()),
      task_(std::move(task)),
      options_(std::move(options)) {}

Result<std::vector<Scored>> ClassifierImpl::score(std::span<const std::string_view> texts,
                                                  Route route) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<Scored> results;
  results.reserve(texts.size());
  const bool singly = route == Route::kCached || route == Route::kFull;
  const std::size_t step = singly ? 1 : options_.batch != 0 ? options_.batch : texts.size();
  for (std::size_t first = 0; first < texts.size(); first += step) {
    INCIPIT_TRY_VOID(
        run_batch(texts.subspan(first, std::min(step, texts.size() - first)), route, results));
  }
  if (route == Route::kBatched && band_ > 0) {
    INCIPIT_TRY_VOID(rescore_near_ties(texts, results));
  }
  counters_.texts += texts.size();
  counters_.ms_scoring += ms_since(begin);
  return results;
}

Result<void> ClassifierImpl::run_batch(std::span<const std::string_view> texts, Route route,
                                       std::vector<Scored>& results) {
  std::vector<prompt::EncodedText> encoded;
  encoded.reserve(texts.size());
  if (is_foregone()) {
    for (const std::string_view text : texts) results.push_back(foregone(prompt_->encode(text)));
    return {};
  }
  std::vector<PromptPart> parts;
  for (const std::string_view text : texts) {
    encoded.push_back(prompt_->encode(text));
    INCIPIT_TRY(std::vector<PromptPart> own, parts_of(encoded.back(), text, route));
    for (PromptPart& part : own) parts.push_back(std::move(part));
  }

  const ScoringCounters before = scorer_->counters();
  INCIPIT_TRY(const std::vector<decode::LabelScores> scores, scorer_->score(parts));
  counters_.passes += scorer_->counters().passes - before.passes;
  counters_.tokens_evaluated += scorer_->counters().tokens - before.tokens;
  std::size_t next = 0;
  for (const prompt::EncodedText& text : encoded) {
    const std::size_t count = text.parts.size();
    INCIPIT_TRY(Scored scored, combine(text, std::span(scores).subspan(next, count)));
    next += count;
    counters_.slow_path += scored.facts.slow_path ? 1 : 0;
    counters_.tokens_full += count * prompt_->prefix().size() + scored.facts.tokens;
    results.push_back(std::move(scored));
  }
  return {};
}

// With one label there is nothing to ask the model.
bool ClassifierImpl::is_foregone() const { return tree_ && task_.labels.size() == 1; }

Scored ClassifierImpl::foregone(const prompt::EncodedText& encoded) {
  Scored scored;
  scored.error = encoded.error;
  scored.facts = encoded.facts;
  if (scored.error.empty()) {
    scored.scores = {0.0};
    scored.raw = {0.0};
    scored.mass = 1;
  }
  return scored;
}

Result<std::vector<PromptPart>> ClassifierImpl::parts_of(const prompt::EncodedText& encoded,
                                                         std::string_view text, Route route) const {
  const bool whole = route == Route::kFull || route == Route::kFullBatch;
  const TokenSpan prefix = prompt_->prefix();
  std::vector<PromptPart> parts;
  for (const prompt::EncodedPart& part : encoded.parts) {
    PromptPart prompt{
        .suffix = part.suffix, .shares_prefix = !part.slow_path, .questions = part.questions};
    if (answers_ && prompt.questions.empty()) {
      // A task of one question: its last token stands for the question's tail.
      prompt.questions = {{prompt.suffix.back()}};
      prompt.suffix.pop_back();
    }
    if (whole && prompt.shares_prefix) {
      prompt.shares_prefix = false;
      prompt.suffix.insert(prompt.suffix.begin(), prefix.begin(), prefix.end());
      const bool untouched =
          encoded.parts.size() == 1 && encoded.facts.truncated_tokens == 0 && !answers_;
      // Read anew from the whole text, so that a wrong cut would show as another score.
      if (untouched) {
        INCIPIT_TRY(prompt.suffix, prompt_->whole(text));
      }
    }
    parts.push_back(std::move(prompt));
  }
  return parts;
}

Result<Scored> ClassifierImpl::combine(const prompt::EncodedText& encoded,
                                       std::span<const decode::LabelScores> scores) const {
  Scored result;
  result.facts = encoded.facts;
  result.error = encoded.error;
  if (!result.error.empty()) return result;
  // Shards: the mean of their log probabilities, weighted with their share of the tokens.
  std::vector<double> surfaces;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (!scores[i].error.empty()) {
      result.error = scores[i].error;
      return result;
    }
    const double weight = encoded.parts[i].weight;
    result.raw.resize(scores[i].raw.size());
    surfaces.resize(scores[i].surfaces.size());
    for (std::size_t l = 0; l < result.raw.size(); ++l) result.raw[l] += weight * scores[i].raw[l];
    for (std::size_t s = 0; s < surfaces.size(); ++s) surfaces[s] += weight * scores[i].surfaces[s];
    result.mass += weight * scores[i].mass;
  }
  if (!tree_) {
    result.scores = std::move(surfaces);
    return result;
  }
  // While the start measures what pmi compares with, only raw and mass are of interest.
  const bool is_measuring = task_.options.normalise == Normalise::kPmi && content_free_.empty();
  const Normalise normalise = is_measuring ? Normalise::kNone : task_.options.normalise;
  INCIPIT_TRY(result.scores, policy::normalised_scores(normalise, tree_->surfaces(), surfaces,
                                                       task_.labels.size(), content_free_));
  return result;
}

Result<void> ClassifierImpl::rescore_near_ties(std::span<const std::string_view> texts,
                                               std::vector<Scored>& results) {
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (!results[i].error.empty()) continue;
    if (!policy::needs_rescore(decide(results[i], {}), task_.options, band_)) continue;
    std::vector<Scored> alone;
    INCIPIT_TRY_VOID(run_batch(texts.subspan(i, 1), Route::kFull, alone));
    results[i] = std::move(alone.front());
    results[i].facts.rescored = true;
  }
  return {};
}

Label ClassifierImpl::decide(const Scored& scored, std::span<const double> bias) const {
  Label label = decision_->decide(scored, bias);
  if (scored.error == prompt::kEmptyText && task_.options.empty_text == EmptyTextPolicy::kReview) {
    label.status = Status::kReview;
    label.reason = std::exchange(label.error, {});
  }
  return label;
}

Result<std::vector<Label>> ClassifierImpl::classify(std::span<const std::string_view> texts) {
  INCIPIT_TRY(const std::vector<Scored> scored, score(texts, Route::kBatched));
  std::vector<Label> labels;
  labels.reserve(scored.size());
  for (const Scored& one : scored) labels.push_back(decide(one, {}));
  return labels;
}

void ClassifierImpl::set_temperature(double temperature) {
  set_option(&TaskOptions::temperature, temperature);
}

void ClassifierImpl::set_min_confidence(double min_confidence) {
  set_option(&TaskOptions::min_confidence, min_confidence);
}

void ClassifierImpl::set_option(double TaskOptions::* option, double value) {
  const double before = std::exchange(task_.options.*option, value);
  auto decision = policy::LabelDecision::create(task_);
  if (decision) {
    decision_ = std::move(*decision);
  } else {
    task_.options.*option = before;
  }
}

std::vector<TokenPiece> ClassifierImpl::pieces(TokenSpan tokens) const {
  std::vector<TokenPiece> result;
  for (const Token token : tokens)
    result.push_back({.id = token, .text = loaded_.tokenizer->piece(token)});
  return result;
}

Result<Explanation> ClassifierImpl::explain(std::string_view text) {
  Explanation explanation;
  explanation.prefix = pieces(prompt_->prefix());
  const prompt::EncodedText encoded = prompt_->encode(text);
  for (const prompt::EncodedPart& part : encoded.parts) {
    const auto suffix = pieces(part.suffix);
    explanation.suffix.insert(explanation.suffix.end(), suffix.begin(), suffix.end());
    for (const TokenVector& question : part.questions) {
      const auto tail = pieces(question);
      explanation.suffix.insert(explanation.suffix.end(), tail.begin(), tail.end());
    }
  }
  INCIPIT_TRY(std::vector<Scored> scored, score({&text, 1}, Route::kBatched));
  explanation.scored = std::move(scored.front());
  explanation.label = decide(explanation.scored, {});
  return explanation;
}

std::size_t ClassifierImpl::texts_per_call() const {
  if (options_.batch == 0) return kTextsPerCall;
  return std::max<std::size_t>(1, kTextsPerCall / options_.batch) * options_.batch;
}

}  // namespace incipit::engine
