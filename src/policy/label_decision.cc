// SPDX-License-Identifier: Apache-2.0
#include "policy/label_decision.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace incipit::policy {
namespace {

Result<void> check_range(std::string_view option, double value, double top) {
  if (value >= 0 && value <= top) return {};
  std::string message = "options.";
  message.append(option).append(": ").append(std::to_string(value));
  message.append(top == 1 ? " is outside 0..1" : " is negative or not a number");
  return failure(ErrorCode::kInvalidArgument, message);
}

// The top two of at least one score; with one label there is no second.
struct TopTwo {
  std::size_t first = 0;
  std::optional<std::size_t> second;
};

TopTwo top_two(std::span<const double> scores) {
  TopTwo top;
  for (std::size_t i = 1; i < scores.size(); ++i) {
    if (scores[i] > scores[top.first]) {
      top.second = top.first;
      top.first = i;
    } else if (!top.second || scores[i] > scores[*top.second]) {
      top.second = i;
    }
  }
  return top;
}

double sigmoid(double x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}

Label error_label(std::string error, const TextFacts& facts) {
  Label label;
  label.error = std::move(error);
  label.facts = facts;
  return label;
}

// Chance is 0 and certainty 1, whatever the number of labels.
double peak(double top, std::size_t labels) {
  if (labels < 2) return 1;
  const double chance = 1 / static_cast<double>(labels);
  return std::clamp((top - chance) / (1 - chance), 0.0, 1.0);
}

}  // namespace

std::vector<double> softmax(std::span<const double> scores, double temperature) {
  const double top = *std::ranges::max_element(scores);
  std::vector<double> probabilities(scores.size());
  double sum = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    probabilities[i] = std::exp((scores[i] - top) / temperature);
    sum += probabilities[i];
  }
  for (double& probability : probabilities) probability /= sum;
  return probabilities;
}

LabelDecision::LabelDecision(const Task& task)
    : options_(task.options), labels_(task.labels.size()), paths_(task.labels) {}

Result<LabelDecision> LabelDecision::create(const Task& task) {
  const TaskOptions& options = task.options;
  if (task.labels.empty()) {
    return failure(ErrorCode::kInvalidArgument, "labels: there is none; declare at least one");
  }
  INCIPIT_TRY_VOID(check_range("min_confidence", options.min_confidence, 1));
  INCIPIT_TRY_VOID(check_range("min_margin", options.min_margin, 1));
  INCIPIT_TRY_VOID(check_range("min_mass", options.min_mass, 1));
  INCIPIT_TRY_VOID(check_range("multi_threshold", options.multi_threshold, 1));
  INCIPIT_TRY_VOID(check_range("hierarchy_threshold", options.hierarchy_threshold, 1));
  if (!std::isfinite(options.temperature) || options.temperature <= 0) {
    return failure(ErrorCode::kInvalidArgument, "options.temperature: must be above 0");
  }
  LabelDecision decision(task);
  if (!options.none_label.empty()) {
    const auto found = std::ranges::find(task.labels, options.none_label, &LabelDefinition::name);
    if (found == task.labels.end()) {
      return failure(ErrorCode::kInvalidArgument, "options.none_label: \"" + options.none_label +
                                                      "\" is no label of the task; declare it");
    }
    decision.none_label_ = static_cast<std::size_t>(found - task.labels.begin());
  }
  return decision;
}

Label LabelDecision::decide(const Scored& scored, std::span<const double> bias) const {
  if (scored.error == "empty_text" && options_.empty_text == EmptyTextPolicy::kReview) {
    Label label = error_label("", scored.facts);
    label.status = Status::kReview;
    label.reason = scored.error;
    return label;
  }
  if (!scored.error.empty()) return error_label(scored.error, scored.facts);
  INCIPIT_CHECK(scored.scores.size() == labels_, "one score for each label");
  INCIPIT_CHECK(bias.empty() || bias.size() == labels_, "one bias for each label");
  std::vector<double> scores = scored.scores;
  for (std::size_t i = 0; i < bias.size(); ++i) scores[i] -= bias[i];
  if (!std::ranges::all_of(scores, [](double score) { return std::isfinite(score); })) {
    return error_label("nonfinite", scored.facts);
  }
  Label label;
  label.facts = scored.facts;
  label.mass = scored.mass;
  if (options_.multi_label) {
    choose_many(label, scores);
  } else {
    choose_one(label, scores);
    if (options_.hierarchy_threshold > 0) choose_node(label);
  }
  label.reason = review_reason(label);
  label.status = label.reason.empty() ? Status::kOk : Status::kReview;
  if (label.status == Status::kReview) {
    label.label.reset();
    label.node.clear();
    label.chosen.clear();
  }
  return label;
}

void LabelDecision::choose_one(Label& label, std::span<const double> scores) const {
  const TopTwo top = top_two(scores);
  label.probabilities = softmax(scores, options_.temperature);
  label.best = top.first;
  label.label = top.first;
  label.confidence = label.probabilities[top.first];
  label.margin = label.confidence;
  if (top.second) {  // With one label there is no gap; it stays 0.
    label.margin -= label.probabilities[*top.second];
    label.gap = scores[top.first] - scores[*top.second];
    label.tie = scores[top.first] == scores[*top.second];
  }
  if (options_.confidence == ConfidenceKind::kPeak) {
    label.confidence = peak(label.confidence, labels_);
  }
}

void LabelDecision::choose_many(Label& label, std::span<const double> scores) const {
  label.best = top_two(scores).first;
  label.gap = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const double yes = sigmoid(scores[i] / options_.temperature);
    label.probabilities.push_back(yes);
    if (yes >= options_.multi_threshold) label.chosen.push_back(i);
    label.gap = std::min(label.gap, std::abs(scores[i]));
  }
  const double least_certain = sigmoid(label.gap / options_.temperature);
  label.margin = 2 * least_certain - 1;
  label.confidence = options_.confidence == ConfidenceKind::kPeak ? label.margin : least_certain;
}

// With label paths the answer is a node, and confidence is that of the node.
void LabelDecision::choose_node(Label& label) const {
  const auto choice = paths_.deepest(label.probabilities, options_.hierarchy_threshold);
  if (!choice) {
    label.label.reset();
    return;
  }
  const LabelPaths::Node& node = paths_.nodes()[choice->node];
  label.node = node.path;
  label.label = node.label;
  label.confidence = choice->probability;
}

// The most telling reason first: an answer that the model rejects, or did not want to give at
// all, says more than one that is merely unsure.
std::string LabelDecision::review_reason(const Label& label) const {
  if (!options_.multi_label && none_label_ && label.best == none_label_) return "none_label";
  if (label.mass < options_.min_mass) return "low_mass";
  if (label.confidence < options_.min_confidence) return "low_confidence";
  if (options_.hierarchy_threshold > 0 && !options_.multi_label && label.node.empty()) {
    return "low_confidence";
  }
  if (label.margin < options_.min_margin) return "low_margin";
  return "";
}

bool needs_rescore(double gap, double band) { return gap < band; }

bool needs_rescore(const Label& label, const TaskOptions& options, double band) {
  if (label.status == Status::kError) return false;
  if (needs_rescore(label.gap, band)) return true;
  // A probability moves by at most a quarter of what its score moves, and so does half a margin;
  // a mass moves by no more than its share. The band itself bounds them all at temperature 1.
  const double reach = band / std::min(1.0, options.temperature);
  const auto is_near = [&](double value, double threshold) {
    return threshold > 0 && std::abs(value - threshold) < reach;
  };
  if (is_near(label.confidence, options.min_confidence) ||
      is_near(label.margin, options.min_margin) || is_near(label.mass, options.min_mass) ||
      is_near(label.confidence, options.hierarchy_threshold)) {
    return true;
  }
  return options.multi_label && std::ranges::any_of(label.probabilities, [&](double yes) {
           return is_near(yes, options.multi_threshold);
         });
}

}  // namespace incipit::policy
