// SPDX-License-Identifier: Apache-2.0
//
// A classifier and an engine without a model, for tests of everything that stands on them.
//
// A label whose name occurs in the text gets the best score; the rest is a hash of the text and
// the label's name, so scores depend on nothing else, as the law demands. Texts that are blank
// get the row error "empty_text", texts over `bytes_max` "too_long". The switches break the law
// on purpose.
#pragma once

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/utf8.h"
#include "incipit/engine.h"
#include "policy/label_decision.h"

namespace incipit::test {

struct FakeSettings {
  std::string model_sha256 = std::string(64, 'a');
  std::size_t texts_per_call = 4;
  std::size_t bytes_max = 10'000;
  double full_drift = 0;              // Added to the scores of whole prompts.
  double order_bias = 0;              // Added to the score of the label that stands first.
  std::size_t fail_after = SIZE_MAX;  // score() fails once so many texts were scored.
  bool exact = true;
  std::function<void()> on_text{};  // Called for each text that is scored.
};

class FakeClassifier final : public Classifier {
 public:
  FakeClassifier(Task task, FakeSettings settings)
      : task_(std::move(task)),
        settings_(std::move(settings)),
        decision_(policy::LabelDecision::create(task_).value()) {
    report_.model_file = "fake.gguf";
    report_.model_sha256 = settings_.model_sha256;
    report_.fingerprint = "fake";
    report_.precision = "f32";
    report_.kv_type = "f32";
    report_.runtime = "fake";
    report_.scoring = "first";
    report_.normalise = "none";
    report_.exact = settings_.exact;
    report_.prefix_tokens = 100;
    report_.prefix_text = task_.instructions;
    for (std::size_t i = 0; i < task_.labels.size(); ++i) {
      report_.surfaces.push_back(
          {.label = i, .surface = task_.labels[i].name, .tokens = {{.id = Token(i), .text = ""}}});
    }
  }

  Result<std::vector<Scored>> score(std::span<const std::string_view> texts, Route route) override {
    std::vector<Scored> all;
    for (const std::string_view text : texts) {
      if (counters_.texts == settings_.fail_after) {
        return failure(ErrorCode::kInternal, "the fake model failed");
      }
      all.push_back(score_one(text, route));
    }
    return all;
  }

  [[nodiscard]] Label decide(const Scored& scored, std::span<const double> bias) const override {
    return decision_.decide(scored, bias);
  }

  Result<std::vector<Label>> classify(std::span<const std::string_view> texts) override {
    INCIPIT_TRY(const auto scored, score(texts, Route::kBatched));
    std::vector<Label> labels;
    for (const Scored& each : scored) labels.push_back(decide(each, {}));
    return labels;
  }

  Result<std::vector<double>> content_free_bias() override {
    return score_one("N/A", Route::kBatched).scores;
  }

  void set_temperature(double temperature) override {
    task_.options.temperature = temperature;
    decision_ = policy::LabelDecision::create(task_).value();
  }
  void set_min_confidence(double min_confidence) override {
    task_.options.min_confidence = min_confidence;
    decision_ = policy::LabelDecision::create(task_).value();
  }

  Result<Explanation> explain(std::string_view text) override {
    Explanation explanation;
    explanation.scored = score_one(text, Route::kBatched);
    explanation.label = decide(explanation.scored, {});
    return explanation;
  }

  [[nodiscard]] std::size_t texts_per_call() const override { return settings_.texts_per_call; }
  [[nodiscard]] const Task& task() const override { return task_; }
  [[nodiscard]] const ClassifierReport& report() const override { return report_; }
  [[nodiscard]] ClassifierCounters counters() const override { return counters_; }

 private:
  Scored score_one(std::string_view text, Route route) {
    Scored scored;
    if (settings_.on_text) settings_.on_text();
    ++counters_.texts;
    counters_.tokens_evaluated += 10;
    counters_.tokens_full += 110;
    scored.facts.tokens = text.size() / 4 + 1;
    const std::string valid = repair_utf8(text, &scored.facts.utf8_replaced);
    if (valid.find_first_not_of(" \n\t") == std::string::npos) {
      scored.error = "empty_text";
      return scored;
    }
    if (valid.size() > settings_.bytes_max) {
      scored.error = "too_long";
      return scored;
    }
    double sum = 0;
    std::vector<double> weights;
    for (std::size_t i = 0; i < task_.labels.size(); ++i) {
      weights.push_back(weight(valid, i));
      sum += weights.back();
    }
    for (const double weight : weights) {
      const double score =
          std::log(weight / sum) + (route == Route::kFull ? settings_.full_drift : 0);
      scored.scores.push_back(score);
      scored.raw.push_back(score);
    }
    scored.mass = 0.97;
    return scored;
  }

  double weight(const std::string& text, std::size_t label) const {
    const std::string& name = task_.labels[label].name;
    const std::string hex = Sha256().field(text).field(name).hex();
    double value = 0.05 + std::stoi(hex.substr(0, 4), nullptr, 16) / 65536.0;
    if (text.find(name) != std::string::npos) value += 40;
    if (label == 0) value += settings_.order_bias;
    return value;
  }

  Task task_;
  FakeSettings settings_;
  policy::LabelDecision decision_;
  ClassifierReport report_;
  ClassifierCounters counters_;
};

class FakeEngine final : public Engine {
 public:
  explicit FakeEngine(FakeSettings settings = {}) : settings_(std::move(settings)) {}

  Result<std::unique_ptr<Classifier>> classifier(Task task, ClassifierOptions options) override {
    FakeSettings settings = settings_;
    if (options.batch > 0) settings.texts_per_call = options.batch;
    return std::make_unique<FakeClassifier>(std::move(task), std::move(settings));
  }
  Result<std::unique_ptr<Generator>> generator(const GeneratorOptions&) override {
    return failure(ErrorCode::kUnavailable, "a fake engine generates nothing");
  }

 private:
  FakeSettings settings_;
};

}  // namespace incipit::test
