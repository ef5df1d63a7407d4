// SPDX-License-Identifier: Apache-2.0
#include "incipit/bench_run.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <set>
#include <utility>

#include "base/elapsed.h"
#include "policy/calibration.h"

namespace incipit::app {
namespace {

using Texts = std::vector<std::string_view>;

Texts texts_of(const std::vector<LabelledText>& rows) {
  Texts texts;
  for (const LabelledText& row : rows) texts.push_back(row.text);
  return texts;
}

Texts distinct(const Texts& texts) {
  std::set<std::string_view> seen;
  Texts result;
  for (const std::string_view text : texts) {
    if (seen.insert(text).second) result.push_back(text);
  }
  return result;
}

// Scores in calls of the classifier's own size, as a job does, and appends to `kept` if it is
// given. Seconds.
Result<double> timed(Classifier& classifier, const Texts& texts, Route route,
                     const OnTexts& on_texts, std::vector<Scored>* kept = nullptr) {
  const auto begin = std::chrono::steady_clock::now();
  const bool singly = route == Route::kFull || route == Route::kCached;
  const std::size_t step = singly ? 1 : classifier.texts_per_call();
  for (std::size_t first = 0; first < texts.size(); first += step) {
    const std::size_t count = std::min(step, texts.size() - first);
    INCIPIT_TRY(auto scored, classifier.score(std::span(texts).subspan(first, count), route));
    if (kept != nullptr) std::ranges::move(scored, std::back_inserter(*kept));
    if (on_texts) INCIPIT_TRY_VOID(on_texts(count));
  }
  return ms_since(begin) / 1000;
}

struct Mode {
  BenchMode mode;
  Route route;
  bool dedupe;
};
constexpr std::array kModes = {
    Mode{BenchMode::kFull, Route::kFull, false},
    Mode{BenchMode::kFullBatched, Route::kFullBatch, false},
    Mode{BenchMode::kCached, Route::kCached, false},
    Mode{BenchMode::kBatched, Route::kBatched, false},
    Mode{BenchMode::kDeduplicated, Route::kBatched, true},
};

std::size_t right_labels(Classifier& classifier, const std::vector<LabelledText>& rows,
                         const std::vector<Scored>& scored, std::span<const double> bias) {
  std::size_t right = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Label label = classifier.decide(scored[i], bias);
    right += label.best && classifier.task().labels[*label.best].name == rows[i].label ? 1 : 0;
  }
  return right;
}

// As --calibrate batch subtracts it.
std::vector<double> batch_bias(const Classifier& classifier, const std::vector<Scored>& scored) {
  policy::BatchBias bias(classifier.task().labels.size());
  for (const Scored& one : scored) {
    if (one.error.empty()) bias.add(one.scores);
  }
  return bias.bias();
}

constexpr std::array kRules = {
    "A ticket about money that was taken, owed or promised back belongs to the people who can see "
    "the ledger.",
    "When a customer describes something that used to work, look for the part of the product that "
    "broke.",
    "Names, addresses and ways to sign in are changed by the team that can prove who is asking.",
    "If two topics appear in one ticket, the one that stops the customer from working comes first.",
    "A polite tone does not make a ticket less urgent, and an angry one does not make it more so.",
    "Do not guess what a customer might want next; sort by what the ticket says.",
};
constexpr std::size_t kRuleTokens = 22;  // About; grow() corrects what the guess missed.

// A classifier for the task with rules added until its prefix has about `wanted` tokens, or as
// many as it gets.
Result<std::unique_ptr<Classifier>> grow(Engine& engine, Task& task, std::size_t& rules,
                                         std::size_t wanted) {
  for (std::size_t before = 0;;) {
    INCIPIT_TRY(auto classifier, engine.classifier(task, {}));
    const std::size_t have = classifier->report().prefix_tokens;
    if (have + kRuleTokens / 2 >= wanted || have <= before) return classifier;
    before = have;
    for (std::size_t i = 0; i < std::max<std::size_t>(1, (wanted - have) / kRuleTokens); ++i) {
      task.instructions += std::string(" ") + kRules[rules++ % kRules.size()];
    }
  }
}

Result<SharePoint> time_share(Classifier& classifier, const std::vector<LabelledText>& rows,
                              const std::string& precision, const OnTexts& on_texts) {
  constexpr std::size_t kFullTexts = 4;  // Whole prompts are slow, and equal in length.
  const Texts texts = distinct(texts_of(rows));
  const Texts few(texts.begin(),
                  texts.begin() + static_cast<std::ptrdiff_t>(std::min(kFullTexts, texts.size())));
  INCIPIT_TRY(const double warm, timed(classifier, texts, Route::kBatched, on_texts));
  INCIPIT_TRY(const double full, timed(classifier, few, Route::kFull, on_texts));
  INCIPIT_TRY(const double batched, timed(classifier, texts, Route::kBatched, on_texts));
  INCIPIT_TRY(const double suffix, mean_suffix_tokens(classifier, rows));
  const std::size_t prefix = classifier.report().prefix_tokens;
  SharePoint point{
      .series = precision,
      .prefix_tokens = prefix,
      .static_share = static_cast<double>(prefix) / (static_cast<double>(prefix) + suffix),
      .full_ms = full * 1e3 / static_cast<double>(few.size()),
      .batched_ms = std::min(batched, warm) * 1e3 / static_cast<double>(texts.size()),
      .speed_up = 0};
  point.speed_up = point.full_ms / point.batched_ms;
  return point;
}

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Result<void> check_interrupt(const Surroundings& around) {
  if (around.interrupted == nullptr || !around.interrupted->load()) return {};
  return failure(ErrorCode::kCancelled, "interrupted; nothing is kept of a benchmark");
}

Result<EqualityCheck> check_equality(Classifier& classifier, const std::vector<LabelledText>& rows,
                                     const OnTexts& on_texts) {
  const Texts all = texts_of(rows);
  const Texts texts = distinct(all);
  EqualityCheck check;
  check.texts = texts.size();
  check.exact = classifier.report().exact;
  std::vector<std::vector<Scored>> ways;
  for (const Route route : {Route::kFull, Route::kCached, Route::kBatched, Route::kFullBatch}) {
    std::vector<Scored>& way = ways.emplace_back();
    INCIPIT_TRY_VOID(timed(classifier, texts, route, on_texts, &way));
  }
  const auto same = [&](std::size_t way, std::size_t i) {
    return ways[way][i].scores == ways[0][i].scores && ways[way][i].mass == ways[0][i].mass;
  };
  for (std::size_t i = 0; i < texts.size(); ++i) {
    check.equal_cached += same(1, i) ? 1 : 0;
    check.equal_batched += same(2, i) ? 1 : 0;
    check.equal_full_batched += same(3, i) ? 1 : 0;
    const auto best = classifier.decide(ways[0][i], {}).best;
    check.equal_labels +=
        std::ranges::all_of(
            ways, [&](const auto& way) { return classifier.decide(way[i], {}).best == best; })
            ? 1
            : 0;
  }
  for (const LabelledText& row : rows) check.labelled += row.label.empty() ? 0 : 1;
  std::vector<Scored> scored;
  INCIPIT_TRY_VOID(timed(classifier, all, Route::kBatched, on_texts, &scored));
  check.right = right_labels(classifier, rows, scored, {});
  check.right_calibrated = right_labels(classifier, rows, scored, batch_bias(classifier, scored));
  return check;
}

Result<std::vector<ModeTime>> time_modes(Classifier& classifier,
                                         const std::vector<LabelledText>& rows,
                                         const std::string& precision, std::size_t rounds,
                                         const OnTexts& on_texts) {
  const Texts texts = texts_of(rows);
  const Texts unique = distinct(texts);
  std::array<std::vector<double>, kModes.size()> seconds;
  for (std::size_t round = 0; round < rounds; ++round) {
    for (std::size_t m = 0; m < kModes.size(); ++m) {
      INCIPIT_TRY(const double took,
                  timed(classifier, kModes[m].dedupe ? unique : texts, kModes[m].route, on_texts));
      seconds[m].push_back(took);
    }
  }
  std::vector<ModeTime> times;
  const double full = median(seconds[0]);
  for (std::size_t m = 0; m < kModes.size(); ++m) {
    const double total = median(seconds[m]);
    times.push_back({.precision = precision,
                     .mode = kModes[m].mode,
                     .total_s = total,
                     .ms_per_ticket = total * 1e3 / static_cast<double>(rows.size()),
                     .speed_up = full / total});
  }
  return times;
}

Result<std::vector<BatchPoint>> time_batches(Engine& engine, const Task& task,
                                             const std::vector<LabelledText>& rows,
                                             const std::string& precision, std::size_t rounds,
                                             const OnTexts& on_texts) {
  constexpr std::size_t kTexts = 64;
  const Texts unique = distinct(texts_of(rows));
  Texts texts;
  while (texts.size() < kTexts) texts.push_back(unique[texts.size() % unique.size()]);
  std::vector<BatchPoint> points;
  for (std::size_t batch = 1; batch <= kTexts; batch *= 2) {
    INCIPIT_TRY(const auto classifier, engine.classifier(task, {.batch = batch}));
    std::vector<double> seconds;
    for (std::size_t round = 0; round < rounds; ++round) {
      INCIPIT_TRY(const double took, timed(*classifier, texts, Route::kBatched, on_texts));
      seconds.push_back(took);
    }
    points.push_back(
        {.series = precision, .batch = batch, .ms_per_ticket = median(seconds) * 1e3 / kTexts});
  }
  return points;
}

Result<std::vector<SharePoint>> time_shares(Engine& engine, const Task& task,
                                            const std::vector<LabelledText>& rows,
                                            const std::string& precision, const OnTexts& on_texts) {
  std::vector<SharePoint> points;
  Task grown = task;
  grown.examples.clear();
  std::size_t rules = 0;
  for (const std::size_t wanted : {50U, 100U, 200U, 400U, 800U, 1400U, 2000U}) {
    INCIPIT_TRY(const auto classifier, grow(engine, grown, rules, wanted));
    const std::size_t prefix = classifier->report().prefix_tokens;
    // A task with long instructions of its own has no short prefixes to show.
    if (!points.empty() && points.back().prefix_tokens == prefix) continue;
    INCIPIT_TRY(SharePoint point, time_share(*classifier, rows, precision, on_texts));
    points.push_back(std::move(point));
  }
  return points;
}

Result<double> mean_suffix_tokens(Classifier& classifier, const std::vector<LabelledText>& rows) {
  INCIPIT_TRY(const auto scored, classifier.score(texts_of(rows), Route::kBatched));
  double tokens = 0;
  for (const Scored& one : scored) tokens += static_cast<double>(one.facts.tokens);
  return tokens / static_cast<double>(rows.size());
}

}  // namespace incipit::app
