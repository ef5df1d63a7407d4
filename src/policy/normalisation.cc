// SPDX-License-Identifier: Apache-2.0
#include "policy/normalisation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace incipit::policy {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

std::vector<double> best_surfaces(std::span<const SurfaceFacts> surfaces,
                                  std::span<const double> scores, std::size_t labels) {
  std::vector<double> best(labels, kNothing);
  for (std::size_t i = 0; i < surfaces.size(); ++i) {
    best[surfaces[i].label] = std::max(best[surfaces[i].label], scores[i]);
  }
  return best;
}

}  // namespace

double log_sum_exp(std::span<const double> values) {
  if (values.empty()) return kNothing;
  const double top = *std::ranges::max_element(values);
  if (!std::isfinite(top) || values.size() == 1) return top;
  double sum = 0;
  for (const double value : values) sum += std::exp(value - top);
  return top + std::log(sum);
}

std::vector<double> label_log_probabilities(std::span<const SurfaceFacts> surfaces,
                                            std::span<const double> log_probabilities,
                                            std::size_t labels) {
  INCIPIT_CHECK(surfaces.size() == log_probabilities.size(), "one log probability a surface");
  std::vector<std::vector<double>> of_label(labels);
  for (std::size_t i = 0; i < surfaces.size(); ++i) {
    of_label[surfaces[i].label].push_back(log_probabilities[i]);
  }
  std::vector<double> raw(labels);
  std::ranges::transform(of_label, raw.begin(),
                         [](const std::vector<double>& values) { return log_sum_exp(values); });
  return raw;
}

Result<std::vector<double>> normalised_scores(Normalise kind,
                                              std::span<const SurfaceFacts> surfaces,
                                              std::span<const double> log_probabilities,
                                              std::size_t labels,
                                              std::span<const double> content_free) {
  std::vector<double> scores(log_probabilities.begin(), log_probabilities.end());
  switch (kind) {
    case Normalise::kMean:
      for (std::size_t i = 0; i < surfaces.size(); ++i) {
        scores[i] /= static_cast<double>(surfaces[i].tokens);
      }
      return best_surfaces(surfaces, scores, labels);
    case Normalise::kChar:
      for (std::size_t i = 0; i < surfaces.size(); ++i) {
        scores[i] /= static_cast<double>(surfaces[i].characters);
      }
      return best_surfaces(surfaces, scores, labels);
    case Normalise::kPmi: {
      if (content_free.size() != labels) {
        return failure(ErrorCode::kInvalidArgument,
                       "normalise \"pmi\" needs the label scores of a content-free text first");
      }
      std::vector<double> raw = label_log_probabilities(surfaces, log_probabilities, labels);
      for (std::size_t i = 0; i < labels; ++i) raw[i] -= content_free[i];
      return raw;
    }
    case Normalise::kNone:
      break;
  }
  return label_log_probabilities(surfaces, log_probabilities, labels);
}

std::size_t count_characters(std::string_view utf8) {
  return static_cast<std::size_t>(std::ranges::count_if(
      utf8, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; }));
}

}  // namespace incipit::policy
