// SPDX-License-Identifier: Apache-2.0
//
// --calibrate-on: what labelled rows say about how far confidence can be trusted.
#include <string_view>
#include <vector>

#include "api/bias.h"
#include "api/file_tally.h"
#include "api/paced_scorer.h"
#include "api/row_source.h"
#include "incipit/classify_file.h"
#include "policy/calibration.h"

namespace incipit {
namespace {

struct LabelledRows {
  std::vector<Scored> scored;
  std::vector<std::size_t> gold;
};

std::unexpected<Error> refuse(const FitOptions& options, const api::Row& row,
                              const std::string& what) {
  return failure(ErrorCode::kInvalidArgument,
                 options.input + ":" + std::to_string(row.line) + ": " + what);
}

// The rows that the model can score; a row that is not labelled properly stops the fit, because
// a threshold that rests on half of the rows looks like one that rests on all of them.
Result<LabelledRows> score_labelled(Classifier& classifier, const FitOptions& options) {
  INCIPIT_TRY(const auto source,
              api::RowSource::open(options.input, options.format, options.fields));
  INCIPIT_TRY(const auto reader, source.rows());
  LabelledRows rows;
  std::vector<std::string> texts;
  api::PacedScorer scorer(classifier);
  const auto is_cancelled = [&] {
    return options.cancelled != nullptr && options.cancelled->load();
  };
  const auto check_cancelled = [&]() -> Result<void> {
    if (!is_cancelled()) return {};
    return failure(ErrorCode::kCancelled, "interrupted while fitting on " + options.input);
  };
  const auto score_texts = [&]() -> Result<void> {
    const std::vector<std::string_view> views(texts.begin(), texts.end());
    INCIPIT_TRY(auto scored, scorer.score(views, [&](std::size_t) { return !is_cancelled(); }));
    for (Scored& each : scored) rows.scored.push_back(std::move(each));
    texts.clear();
    return {};
  };
  api::Row row;
  while (true) {
    INCIPIT_TRY_VOID(check_cancelled());
    INCIPIT_TRY(const bool more, reader->next(row));
    if (!more) break;
    if (!row.error.empty()) return refuse(options, row, row.message);
    if (!row.gold) return refuse(options, row, "the row has no label to fit on");
    const auto gold = api::find_label(classifier.task(), *row.gold);
    if (!gold) return refuse(options, row, "'" + *row.gold + "' is not one of the labels");
    rows.gold.push_back(*gold);
    texts.push_back(std::move(row.text));
    if (texts.size() == classifier.texts_per_call()) INCIPIT_TRY_VOID(score_texts());
  }
  INCIPIT_TRY_VOID(score_texts());
  INCIPIT_TRY_VOID(check_cancelled());
  return rows;
}

Result<std::vector<double>> find_bias(Classifier& classifier, const FitOptions& options,
                                      const LabelledRows& rows) {
  if (options.calibration != Calibration::kBatch) {
    return api::known_bias(classifier, options.calibration, options.prior_file);
  }
  policy::BatchBias bias(classifier.task().labels.size());
  for (const Scored& scored : rows.scored) {
    if (scored.error.empty()) bias.add(scored.scores);
  }
  return bias.bias();
}

std::vector<policy::LabelledScores> subtract(const LabelledRows& rows,
                                             const std::vector<double>& bias) {
  std::vector<policy::LabelledScores> labelled;
  for (std::size_t i = 0; i < rows.scored.size(); ++i) {
    if (!rows.scored[i].error.empty()) continue;
    labelled.push_back({.scores = rows.scored[i].scores, .gold = rows.gold[i]});
    for (std::size_t k = 0; k < bias.size(); ++k) labelled.back().scores[k] -= bias[k];
  }
  return labelled;
}

Result<void> fit_target(Classifier& classifier, double target, const LabelledRows& rows,
                        const std::vector<double>& bias, FitReport& report) {
  std::vector<policy::ConfidentRow> confident;
  for (std::size_t i = 0; i < rows.scored.size(); ++i) {
    const Label label = classifier.decide(rows.scored[i], bias);
    if (!label.best) continue;
    confident.push_back({.confidence = label.confidence, .is_right = *label.best == rows.gold[i]});
  }
  INCIPIT_TRY(const policy::ThresholdFit fit, policy::fit_threshold(confident, target));
  classifier.set_min_confidence(fit.threshold);
  report.min_confidence = fit.threshold;
  report.held_accuracy = fit.held_accuracy;
  report.held_accuracy_low = fit.held_wilson;
  report.held_coverage = fit.held_coverage;
  return {};
}

}  // namespace

Result<FitReport> fit_on_file(Classifier& classifier, const FitOptions& options) {
  if (classifier.task().options.multi_label) {
    return failure(ErrorCode::kInvalidArgument,
                   "--calibrate-on: a multi-label task has no one confidence to fit");
  }
  INCIPIT_TRY(const LabelledRows rows, score_labelled(classifier, options));
  INCIPIT_TRY(const auto bias, find_bias(classifier, options, rows));
  const auto fitted = policy::fit_temperature(subtract(rows, bias));
  if (!fitted) return failure(fitted.error().code, options.input + ": " + fitted.error().message);
  const policy::TemperatureFit& fit = *fitted;
  if (fit.is_kept) classifier.set_temperature(fit.temperature);
  FitReport report{
      .rows = rows.gold.size(),
      .temperature = fit.is_kept ? fit.temperature : classifier.task().options.temperature,
      .temperature_fitted = fit.fitted,
      .temperature_kept = fit.is_kept,
      .nll_before = fit.nll_before,
      .nll_after = fit.nll_after,
      .ece_before = fit.ece_before,
      .ece_after = fit.ece_after};
  if (options.target_accuracy) {
    INCIPIT_TRY_VOID(fit_target(classifier, *options.target_accuracy, rows, bias, report));
  }
  return report;
}

}  // namespace incipit
