// SPDX-License-Identifier: Apache-2.0
#include "decode/label_scorer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "decode/log_softmax.h"
#include "policy/normalisation.h"

namespace incipit::decode {
namespace {

constexpr double kUnknown = -std::numeric_limits<double>::infinity();
// Sums of logs along different paths differ in their last bits; a bound must not cut so finely.
constexpr double kRoundingSlack = 1e-9;

// One prompt on its way through the tree.
struct Progress {
  LabelScores scores;
  // A segment that is to be evaluated, and the log probability of getting there.
  struct Pending {
    PassItem item;
    double sum = 0;
  };
  std::vector<Pending> pending;   // Held back until something is finished.
  std::vector<Pending> released;  // On their way: what stands below them is not known.
  std::vector<Pending> pruned;
  std::vector<double> sums;  // By segment: log probability up to its first token.
  bool wants_room = false;   // Did not fit beside the others.
};

class TreeVisitor final : public PassVisitor {
 public:
  TreeVisitor(const LabelTree& tree, std::optional<double> prune_band, std::size_t prompts)
      : tree_(tree), prune_band_(prune_band), progress_(prompts) {
    for (const LabelTree::Segment& segment : tree.segments()) {
      std::vector<std::uint32_t>& rows = rows_.emplace_back();
      for (std::uint32_t row = 0; row < segment.edges.size(); ++row) rows.push_back(row);
    }
    for (std::size_t i = 0; i < prompts; ++i) reset(i);
  }

  void reset(std::size_t prompt) {
    progress_[prompt] = {};
    progress_[prompt].sums.assign(tree_.segments().size(), 0.0);
    progress_[prompt].scores.surfaces.assign(tree_.surfaces().size(), kUnknown);
    progress_[prompt].scores.first_tokens.assign(tree_.surfaces().size(), kUnknown);
  }

  void read(const PassItem& item, const model::Logits& logits, std::size_t first_row) override {
    Progress& progress = progress_[item.prompt];
    double sum = progress.sums[item.segment];
    const auto& edges = tree_.segments()[item.segment].edges;
    for (std::size_t row = 0; row < edges.size(); ++row) {
      const std::span<const float> values = logits.row(first_row + row);
      const double total = log_sum_exp(values);
      if (std::isnan(total)) {
        progress.scores.error = "nonfinite";
        return;
      }
      if (item.segment == 0) read_first_tokens(progress, values, total);
      double sum_of_next = sum;
      for (const LabelTree::Edge& edge : edges[row]) {
        const double here = sum + (values[static_cast<std::size_t>(edge.token)] - total);
        switch (edge.kind) {
          case LabelTree::EdgeKind::kSurface:
            progress.scores.surfaces[edge.target] = here;
            break;
          case LabelTree::EdgeKind::kSegment:
            progress.sums[edge.target] = here;
            break;
          case LabelTree::EdgeKind::kNextRow:
            sum_of_next = here;
            break;
        }
      }
      sum = sum_of_next;
    }
  }

  std::vector<PassItem> next(const PassItem& item, const model::Sequence& sequence) override {
    Progress& progress = progress_[item.prompt];
    if (!progress.scores.error.empty() || progress.wants_room) return {};
    std::erase_if(progress.released,
                  [&](const Progress::Pending& path) { return path.item.segment == item.segment; });
    const std::size_t before = sequence.length() - tree_.segments()[item.segment].tokens.size();
    const auto& edges = tree_.segments()[item.segment].edges;
    for (std::size_t row = 0; row < edges.size(); ++row) {
      for (const LabelTree::Edge& edge : edges[row]) {
        if (edge.kind != LabelTree::EdgeKind::kSegment) continue;
        const std::size_t shared = item.segment == 0 ? before : before + row + 1;
        progress.pending.push_back(
            {.item = segment_item(item.prompt, edge.target, sequence.id(), shared),
             .sum = progress.sums[edge.target]});
      }
    }
    return release(progress);
  }

  void does_not_fit(const PassItem& item) override { progress_[item.prompt].wants_room = true; }

  [[nodiscard]] bool wants_room(std::size_t prompt) const { return progress_[prompt].wants_room; }
  void fail(std::size_t prompt, std::string error) {
    progress_[prompt].scores.error = std::move(error);
  }

  [[nodiscard]] LabelScores take(std::size_t prompt) {
    Progress& progress = progress_[prompt];
    LabelScores scores;
    if (!progress.scores.error.empty()) {
      scores.error = std::move(progress.scores.error);
      return scores;
    }
    scores = std::move(progress.scores);
    scores.raw = policy::label_log_probabilities(tree_.surfaces(), scores.surfaces, tree_.labels());
    scores.is_bound.assign(tree_.labels(), 0);
    for (const Progress::Pending& pruned : progress.pruned) {
      for (const std::size_t label : tree_.segments()[pruned.item.segment].labels) {
        const double parts[] = {scores.raw[label], pruned.sum};
        scores.raw[label] = policy::log_sum_exp(parts);
        scores.is_bound[label] = 1;
      }
    }
    for (const double log_probability : scores.raw) scores.mass += std::exp(log_probability);
    return scores;
  }

 private:
  PassItem segment_item(std::size_t prompt, std::size_t segment, model::SequenceId parent,
                        std::size_t shared) const {
    const LabelTree::Segment& what = tree_.segments()[segment];
    const bool forks = std::ranges::any_of(what.edges.back(), [](const LabelTree::Edge& edge) {
      return edge.kind == LabelTree::EdgeKind::kSegment;
    });
    return {.prompt = prompt,
            .segment = segment,
            .parent = parent,
            .shared = shared,
            .tokens = what.tokens,
            .logits_rows = rows_[segment],
            .has_more = forks || prune_band_.has_value()};
  }

  void read_first_tokens(Progress& progress, std::span<const float> values, double total) const {
    const auto& edges = tree_.segments()[0].edges[0];
    for (std::size_t i = 0; i < tree_.surfaces().size(); ++i) {
      const Token token = edges[tree_.first_edges()[i]].token;
      progress.scores.first_tokens[i] = values[static_cast<std::size_t>(token)] - total;
    }
  }

  // Without pruning, all that waits. With it, the likeliest segment first: one finished label
  // is usually enough to rule out most of the others, and only what it cannot is released.
  std::vector<PassItem> release(Progress& progress) const {
    if (prune_band_) prune(progress);
    std::vector<Progress::Pending> chosen = std::exchange(progress.pending, {});
    const bool has_finished =
        std::ranges::any_of(progress.scores.surfaces, [](double sum) { return sum != kUnknown; });
    if (prune_band_ && !has_finished && chosen.size() > 1) {
      const auto best = std::ranges::max_element(chosen, {}, &Progress::Pending::sum);
      std::iter_swap(chosen.begin(), best);
      progress.pending.assign(chosen.begin() + 1, chosen.end());
      chosen.resize(1);
    }
    std::vector<PassItem> items;
    for (const Progress::Pending& path : chosen) items.push_back(path.item);
    if (prune_band_) {
      progress.released.insert(progress.released.end(), chosen.begin(), chosen.end());
    }
    return items;
  }

  // A path's sum bounds all that can follow it, so a label is worth at most its finished
  // surfaces and the paths that may still lead to it. A path goes if that is too little for
  // every label below it.
  void prune(Progress& progress) const {
    const std::vector<double> finished =
        policy::label_log_probabilities(tree_.surfaces(), progress.scores.surfaces, tree_.labels());
    const double best = *std::ranges::max_element(finished);
    if (best == kUnknown) return;
    std::vector<std::vector<double>> parts(tree_.labels());
    for (std::size_t i = 0; i < finished.size(); ++i) parts[i].push_back(finished[i]);
    for (const auto* paths : {&progress.pending, &progress.released, &progress.pruned}) {
      for (const Progress::Pending& path : *paths) {
        for (const std::size_t label : tree_.segments()[path.item.segment].labels) {
          parts[label].push_back(path.sum);
        }
      }
    }
    const auto is_hopeless = [&](std::size_t label) {
      return policy::log_sum_exp(parts[label]) < best - *prune_band_ - kRoundingSlack;
    };
    const auto kept = std::ranges::stable_partition(progress.pending, [&](const auto& path) {
      return !std::ranges::all_of(tree_.segments()[path.item.segment].labels, is_hopeless);
    });
    progress.pruned.insert(progress.pruned.end(), kept.begin(), kept.end());
    progress.pending.erase(kept.begin(), kept.end());
  }

  const LabelTree& tree_;
  std::optional<double> prune_band_;
  std::vector<std::vector<std::uint32_t>> rows_;  // By segment: 0 up to its number of rows.
  std::vector<Progress> progress_;
};

Result<void> check_prompts(std::span<const ScorePrompt> prompts) {
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    if (!prompts[i].suffix.empty()) continue;
    return failure(ErrorCode::kInvalidArgument,
                   "prompt " + std::to_string(i) +
                       ": no tokens of its own; its last token must be "
                       "evaluated with it, so share one token less");
  }
  return {};
}

}  // namespace

LabelScorer::LabelScorer(model::Runtime& runtime, const LabelTree& tree, ScoreOptions options)
    : runtime_(runtime), tree_(tree), options_(options), runner_(runtime, options.limits) {}

Result<std::vector<LabelScores>> LabelScorer::score(std::span<const ScorePrompt> prompts) {
  INCIPIT_TRY_VOID(check_prompts(prompts));
  if (options_.prune_band && tree_.normalise() != Normalise::kNone) {
    return failure(
        ErrorCode::kInvalidArgument,
        "pruning compares plain log probabilities; use normalise \"none\" or no pruning");
  }
  TreeVisitor visitor(tree_, options_.prune_band, prompts.size());
  std::vector<std::uint32_t> last_rows(prompts.size());
  std::vector<PassItem> roots;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const ScorePrompt& prompt = prompts[i];
    const std::size_t length = prompt.shared + prompt.suffix.size();
    if (length + tree_.tokens_deepest() > runtime_.limits().context_tokens) {
      visitor.fail(i, "too_long");
      continue;
    }
    last_rows[i] = static_cast<std::uint32_t>(prompt.suffix.size() - 1);
    roots.push_back({.prompt = i,
                     .segment = 0,
                     .parent = prompt.base,
                     .shared = prompt.shared,
                     .tokens = prompt.suffix,
                     .logits_rows = {&last_rows[i], 1},
                     .has_more = tree_.segments().size() > 1});
  }
  INCIPIT_TRY_VOID(runner_.run(roots, visitor));
  for (const PassItem& root : roots) {
    if (!visitor.wants_room(root.prompt)) continue;
    visitor.reset(root.prompt);
    INCIPIT_TRY_VOID(runner_.run_singly(root, visitor));
    if (visitor.wants_room(root.prompt)) visitor.fail(root.prompt, "too_long");
  }
  std::vector<LabelScores> scores;
  for (std::size_t i = 0; i < prompts.size(); ++i) scores.push_back(visitor.take(i));
  return scores;
}

}  // namespace incipit::decode
