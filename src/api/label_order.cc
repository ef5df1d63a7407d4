// SPDX-License-Identifier: Apache-2.0
//
// The order test: labels that turn with the order of the label list were never certain.
#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "api/bias.h"
#include "api/paced_scorer.h"
#include "api/row_source.h"
#include "api/seen_texts.h"
#include "incipit/classify_file.h"
#include "policy/calibration.h"
#include "policy/quality.h"

namespace incipit {
namespace {

using Choices = std::vector<std::optional<std::size_t>>;  // By text.

// The first distinct texts of the input.
Result<std::vector<std::string>> first_texts(const FileJob& job, std::size_t texts_max) {
  INCIPIT_TRY(const auto source, api::RowSource::open(job.input, job.input_format, job.fields));
  if (!source.is_repeatable()) {
    return failure(ErrorCode::kInvalidArgument,
                   "--order-test reads the input twice; give it a file instead of a pipe");
  }
  INCIPIT_TRY(const auto reader, source.rows());
  std::vector<std::string> texts;
  api::SeenTexts seen;
  api::Row row;
  while (texts.size() < texts_max) {
    INCIPIT_TRY(const bool more, reader->next(row));
    if (!more) break;
    const api::TextKey key = api::text_key(row.text);
    if (!row.error.empty() || seen.find(key)) continue;
    seen.insert(key, texts.size());
    texts.push_back(std::move(row.text));
  }
  return texts;
}

Result<std::vector<Scored>> score_all(Classifier& classifier, const std::vector<std::string>& texts,
                                      const FileJob& job) {
  const auto is_cancelled = [&job] { return job.cancelled != nullptr && job.cancelled->load(); };
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  INCIPIT_TRY(auto all, api::PacedScorer(classifier).score(views, [&](std::size_t) {
    return !is_cancelled();
  }));
  if (is_cancelled()) return failure(ErrorCode::kCancelled, "interrupted in the order test");
  return all;
}

Result<std::vector<double>> find_bias(Classifier& classifier, const FileJob& job,
                                      const std::vector<Scored>& scored) {
  if (job.calibration != Calibration::kBatch) {
    return api::known_bias(classifier, job.calibration, job.prior_file);
  }
  policy::BatchBias bias(classifier.task().labels.size());
  for (const Scored& each : scored) {
    if (each.error.empty()) bias.add(each.scores);
  }
  return bias.bias();
}

// Best labels as indices into the label list before it was rotated by `shift`.
Choices choose(const Classifier& classifier, const std::vector<Scored>& scored,
               const std::vector<double>& bias, std::size_t shift) {
  Choices choices;
  for (const Scored& each : scored) {
    auto best = classifier.decide(each, bias).best;
    if (best) best = (*best + shift) % classifier.task().labels.size();
    choices.push_back(best);
  }
  return choices;
}

policy::OrderFlips count_flips(const std::vector<Choices>& by_order, std::size_t texts) {
  policy::OrderFlips flips;
  for (std::size_t text = 0; text < texts; ++text) {
    Choices labels;
    for (const Choices& choices : by_order) labels.push_back(choices[text]);
    flips.add(labels);
  }
  return flips;
}

}  // namespace

Result<OrderReport> test_order(Engine& engine, const Task& task, const FileJob& job,
                               const OrderTest& test) {
  if (!task.instructions.contains("{labels}")) {
    return failure(ErrorCode::kInvalidArgument,
                   "--order-test: the prompt has no label list to rotate; put {labels} into the "
                   "task's instructions in the place of the list");
  }
  INCIPIT_TRY(const auto texts, first_texts(job, test.texts_max));
  const std::size_t orders = std::min(test.orders, task.labels.size());
  std::vector<Choices> plain;
  std::vector<Choices> calibrated;
  for (std::size_t order = 0; order < orders; ++order) {
    const std::size_t shift = order * task.labels.size() / orders;
    Task rotated = task;
    std::ranges::rotate(rotated.labels,
                        rotated.labels.begin() + static_cast<std::ptrdiff_t>(shift));
    INCIPIT_TRY(const auto classifier, engine.classifier(std::move(rotated), test.classifier));
    INCIPIT_TRY(const auto scored, score_all(*classifier, texts, job));
    INCIPIT_TRY(const auto bias, find_bias(*classifier, job, scored));
    plain.push_back(choose(*classifier, scored, {}, shift));
    calibrated.push_back(choose(*classifier, scored, bias, shift));
  }
  return OrderReport{.texts = texts.size(),
                     .orders = orders,
                     .flipped = count_flips(plain, texts.size()).flipped(),
                     .flipped_calibrated = count_flips(calibrated, texts.size()).flipped()};
}

}  // namespace incipit
