// SPDX-License-Identifier: Apache-2.0
//
// A task on a loaded model: THE DATA PATH of classification is score().
//
//     text --TaskPrompt--> tokens --TextScorer--> log probabilities --policy--> Scored, Label
//
// Confined to one thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "decode/label_tree.h"
#include "engine/served_model.h"
#include "engine/text_scorer.h"
#include "incipit/engine.h"
#include "policy/label_decision.h"
#include "prompt/task_prompt.h"

namespace incipit::engine {

class ClassifierImpl final : public Classifier {
 public:
  static Result<std::unique_ptr<ClassifierImpl>> create(std::shared_ptr<ServedModel> served,
                                                        Task task, ClassifierOptions options);

  Result<std::vector<Scored>> score(std::span<const std::string_view> texts, Route route) override;
  [[nodiscard]] Label decide(const Scored& scored, std::span<const double> bias) const override;
  Result<std::vector<Label>> classify(std::span<const std::string_view> texts) override;
  Result<std::vector<double>> content_free_bias() override;
  void set_temperature(double temperature) override;
  void set_min_confidence(double min_confidence) override;
  Result<Explanation> explain(std::string_view text) override;
  [[nodiscard]] std::size_t texts_per_call() const override;
  [[nodiscard]] const Task& task() const override { return task_; }
  [[nodiscard]] const ClassifierReport& report() const override { return report_; }
  [[nodiscard]] ClassifierCounters counters() const override { return counters_; }

 private:
  ClassifierImpl(std::shared_ptr<ServedModel> served, Task task, ClassifierOptions options);

  // The start, in classifier_start.cc.
  Result<void> choose_surface();
  Result<void> build_prompt(std::optional<LabelSurface> surface);
  Result<prompt::TaskPrompt> make_prompt(const Task& task) const;
  Result<void> build_tree();
  [[nodiscard]] std::size_t tokens_that_fit() const;
  Result<void> check_start();
  Result<void> check_tails();
  Result<void> check_tail(const decode::LabelTree& tree, std::size_t label);
  Result<void> measure_drift(std::span<const std::string_view> texts);
  Result<double> example_mass();
  [[nodiscard]] std::vector<std::string_view> example_texts() const;
  void fill_report();
  Result<std::vector<std::vector<double>>> content_free_raw();

  void set_option(double TaskOptions::* option, double value);
  [[nodiscard]] bool is_foregone() const;
  [[nodiscard]] static Scored foregone(const prompt::EncodedText& encoded);
  // Scores texts of one batch and appends to `results`, in order.
  Result<void> run_batch(std::span<const std::string_view> texts, Route route,
                         std::vector<Scored>& results);
  Result<std::vector<PromptPart>> parts_of(const prompt::EncodedText& encoded,
                                           std::string_view text, Route route) const;
  Result<Scored> combine(const prompt::EncodedText& encoded,
                         std::span<const decode::LabelScores> scores) const;
  Result<void> rescore_near_ties(std::span<const std::string_view> texts,
                                 std::vector<Scored>& results);
  [[nodiscard]] std::vector<TokenPiece> pieces(TokenSpan tokens) const;

  std::shared_ptr<ServedModel> served_;
  LoadedModel& loaded_;  // Of served_.
  Task task_;
  ClassifierOptions options_;
  std::optional<LabelSurface> surface_;  // As chosen; empty: as the task says.
  std::size_t tokens_max_ = 0;           // Of a whole prompt with its longest answer.
  std::optional<prompt::TaskPrompt> prompt_;
  std::optional<decode::LabelTree> tree_;        // Empty in a multi-label task.
  std::optional<decode::AnswerTokens> answers_;  // Set in a multi-label task.
  std::optional<policy::LabelDecision> decision_;
  std::optional<TextScorer> scorer_;
  std::vector<double> content_free_;  // For pmi: raw log probabilities after an empty text.
  double band_ = 0;                   // Near ties within this many nats; 0 where exact.
  ClassifierReport report_;
  ClassifierCounters counters_;
};

}  // namespace incipit::engine
