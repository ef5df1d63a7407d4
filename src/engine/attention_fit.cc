// SPDX-License-Identifier: Apache-2.0
#include "engine/attention_fit.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/attention_look.h"
#include "policy/attention_check.h"

namespace incipit::engine {
namespace {

using model::Sequence;
using model::Step;

constexpr std::size_t kTrialsLeast = 4;  // Two to fit to, two to measure on.

// What all heads of the model made of one prefix.
struct Look {
  std::vector<std::optional<double>> found;  // By head, layer after layer.
  double most = 0;                           // The largest weight in the last row.

  [[nodiscard]] bool is_blind() const {
    return std::ranges::none_of(found, [](const auto& one) { return one.has_value(); });
  }
};

struct Looks {
  Look right;
  std::vector<Look> wrong;
};

Result<void> check_trial(const AttentionTrial& trial, std::size_t index, std::size_t vocabulary) {
  const auto is_unknown = [=](Token token) {
    return token < 0 || static_cast<std::size_t>(token) >= vocabulary;
  };
  const bool is_wrong =
      trial.cut < 2 || trial.cut >= trial.prompt.size() || trial.wrong.empty() ||
      std::ranges::any_of(trial.prompt, is_unknown) ||
      std::ranges::any_of(
          trial.wrong,
          [&](const TokenVector& wrong) {
            return wrong.size() != trial.cut || std::ranges::any_of(wrong, is_unknown) ||
                   std::ranges::equal(wrong, TokenSpan(trial.prompt).first(trial.cut));
          });
  if (!is_wrong) return {};
  return failure(ErrorCode::kInvalidArgument,
                 "trial " + std::to_string(index) +
                     ": a prompt needs a cut inside it, and prefixes as long and of other tokens");
}

class Fit {
 public:
  Fit(model::Runtime& runtime, kv::PrefixCache& cache) : runtime_(runtime), cache_(cache) {
    const model::Limits& limits = runtime.limits();
    for (std::size_t layer = 0; layer < limits.attention_layers; ++layer) {
      for (std::size_t head = 0; head < limits.attention_heads; ++head)
        heads_.push_back({.layer = layer, .head = head});
    }
  }

  // A trial whose end repeats no token of the prefix tells nothing, and is left out.
  Result<void> add(const AttentionTrial& trial) {
    const TokenSpan prompt(trial.prompt);
    Looks looks;
    INCIPIT_TRY(looks.right, look_at(prompt.first(trial.cut), prompt));
    for (const TokenVector& wrong : trial.wrong) {
      INCIPIT_TRY(looks.wrong.emplace_back(), look_at(wrong, prompt));
    }
    if (!looks.right.is_blind()) looks_.push_back(std::move(looks));
    return {};
  }

  Result<AttentionFit> result(const AttentionFitOptions& options) const {
    const std::vector<std::size_t> seeing = heads_that_always_see();
    if (looks_.size() < kTrialsLeast || seeing.empty())
      return failure(ErrorCode::kInvalidArgument,
                     "a fit needs " + std::to_string(kTrialsLeast) +
                         " prompts or more whose last tokens occur in their prefixes; here are " +
                         std::to_string(looks_.size()));
    policy::FitSamples samples;
    for (std::size_t i = 0; i < looks_.size(); i += 2) {
      samples.right.push_back(values_of(looks_[i].right, seeing));
      for (const Look& wrong : looks_[i].wrong) samples.wrong.push_back(values_of(wrong, seeing));
    }
    const auto best = policy::best_heads(samples, options.heads);
    std::vector<double> right;
    for (const auto& values : samples.right) right.push_back(policy::mean_of(values, best));
    AttentionFit fit;
    for (const std::size_t index : best) fit.check.heads.push_back(heads_[seeing[index]]);
    fit.check.threshold = policy::threshold_for(std::move(right), options.false_alarms);
    measure(seeing, best, fit);
    return fit;
  }

 private:
  Result<Look> look_at(TokenSpan prefix, TokenSpan prompt) {
    cache_.make_room(prompt.size() + runtime_.limits().fork_cells);
    INCIPIT_TRY(const Sequence sequence, Sequence::create(runtime_));
    const Step cells{.sequence = sequence.id(), .tokens = prefix, .logits_rows = {}};
    INCIPIT_TRY_VOID(runtime_.evaluate({&cells, 1}));
    const TokenSpan rest = prompt.subspan(prefix.size());
    std::vector<std::uint32_t> rows(std::min(kRowsLookedAt, rest.size()));
    std::iota(rows.begin(), rows.end(), static_cast<std::uint32_t>(rest.size() - rows.size()));
    const Step last{.sequence = sequence.id(), .tokens = rest, .logits_rows = rows};
    INCIPIT_TRY_VOID(runtime_.evaluate({&last, 1}));
    Look seen;
    for (const AttentionHead head : heads_) {
      seen.found.push_back(look(runtime_, 0, rows.size(), head, prompt, prefix.size()));
      INCIPIT_TRY(const auto weights, runtime_.attention(rows.size() - 1, head));
      seen.most = std::max(seen.most, policy::largest_weight(weights, prefix.size()));
    }
    return seen;
  }

  // A head with a window may see none of the cells that it would look for.
  [[nodiscard]] std::vector<std::size_t> heads_that_always_see() const {
    std::vector<std::size_t> seeing;
    for (std::size_t head = 0; head < heads_.size(); ++head) {
      const auto sees = [head](const Look& look) { return look.found[head].has_value(); };
      if (std::ranges::all_of(looks_, [&](const Looks& looks) {
            return sees(looks.right) && std::ranges::all_of(looks.wrong, sees);
          }))
        seeing.push_back(head);
    }
    return seeing;
  }

  static policy::HeadValues values_of(const Look& look, std::span<const std::size_t> heads) {
    policy::HeadValues values;
    for (const std::size_t head : heads) values.push_back(*look.found[head]);
    return values;
  }

  // On the trials that were not fitted to.
  void measure(std::span<const std::size_t> seeing, std::span<const std::size_t> best,
               AttentionFit& fit) const {
    policy::Verdicts found;
    policy::Verdicts most;
    const auto value = [&](const Look& look) {
      return policy::mean_of(values_of(look, seeing), best);
    };
    for (std::size_t i = 1; i < looks_.size(); i += 2) {
      found.right.push_back(value(looks_[i].right));
      most.right.push_back(looks_[i].right.most);
      for (const Look& wrong : looks_[i].wrong) {
        found.wrong.push_back(value(wrong));
        most.wrong.push_back(wrong.most);
      }
    }
    const auto suspected = [&](const std::vector<double>& values) {
      return static_cast<std::size_t>(
          std::ranges::count_if(values, [&](double one) { return one < fit.check.threshold; }));
    };
    fit.found = policy::quality_of(found);
    fit.most = policy::quality_of(most);
    fit.right = found.right.size();
    fit.wrong = found.wrong.size();
    fit.suspected_right = suspected(found.right);
    fit.suspected_wrong = suspected(found.wrong);
  }

  model::Runtime& runtime_;
  kv::PrefixCache& cache_;
  std::vector<AttentionHead> heads_;
  std::vector<Looks> looks_;
};

}  // namespace

Result<AttentionFit> fit_attention(model::Runtime& runtime, kv::PrefixCache& cache,
                                   std::span<const AttentionTrial> trials,
                                   const AttentionFitOptions& options) {
  if (runtime.limits().attention_layers == 0)
    return failure(ErrorCode::kUnavailable,
                   "the model does not show its attention; open it with "
                   "EngineOptions::shows_attention");
  if (options.heads == 0 || !(options.false_alarms >= 0 && options.false_alarms < 1))
    return failure(ErrorCode::kInvalidArgument,
                   "a fit names at least one head, and its share of false alarms lies below 1");
  for (std::size_t i = 0; i < trials.size(); ++i)
    INCIPIT_TRY_VOID(check_trial(trials[i], i, runtime.limits().vocabulary));
  Fit fit(runtime, cache);
  for (std::size_t i = 0; i < trials.size(); ++i) {
    INCIPIT_TRY_VOID(fit.add(trials[i]));
    if (options.on_trial && !options.on_trial(i + 1))
      return failure(ErrorCode::kCancelled, "the caller gave up");
  }
  return fit.result(options);
}

}  // namespace incipit::engine
