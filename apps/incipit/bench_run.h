// SPDX-License-Identifier: Apache-2.0
//
// The measuring part of `incipit bench classify`: what is timed, and what must be equal first.
//
// A number is a ratio in one run: the modes take turns round by round, so that a busy moment
// of the machine falls on all of them, and the median of the rounds counts. Before any time is
// taken, every mode's labels and scores are compared with those of whole prompts, bit by bit.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "incipit/command.h"
#include "incipit/engine.h"
#include "incipit/html_report.h"
#include "incipit/labelled_texts.h"
#include "incipit/result.h"

namespace incipit::app {

// Called after each pass with how many texts it scored. An error ends the run and is handed up;
// so does Ctrl-C. May be empty.
using OnTexts = std::function<Result<void>(std::size_t texts)>;

struct EqualityCheck {
  std::size_t texts = 0;  // Distinct ones.
  bool exact = true;      // What was promised.
  std::size_t equal_cached = 0;
  std::size_t equal_batched = 0;
  std::size_t equal_full_batched = 0;
  std::size_t equal_labels = 0;      // The label is the same on all four ways.
  std::size_t right = 0;             // Of all rows, with the plain scores.
  std::size_t right_calibrated = 0;  // The same with the batch bias.
  std::size_t labelled = 0;          // Rows with a true label.

  [[nodiscard]] bool all_equal() const {
    return equal_cached == texts && equal_batched == texts && equal_full_batched == texts &&
           equal_labels == texts;
  }
};

// Of at least one value; the mean of the two in the middle of an even number.
[[nodiscard]] double median(std::vector<double> values);

// Errors: kCancelled after Ctrl-C.
Result<void> check_interrupt(const Surroundings& around);

// Errors: what the classifier reports.
Result<EqualityCheck> check_equality(Classifier& classifier, const std::vector<LabelledText>& rows,
                                     const OnTexts& on_texts);

// Times every mode in `rounds` rounds; one entry for each mode, speed-up against kFull.
Result<std::vector<ModeTime>> time_modes(Classifier& classifier,
                                         const std::vector<LabelledText>& rows,
                                         const std::string& precision, std::size_t rounds,
                                         const OnTexts& on_texts);

// ms per text for batches of 1, 2, 4, ... texts, the median of `rounds` rounds.
Result<std::vector<BatchPoint>> time_batches(Engine& engine, const Task& task,
                                             const std::vector<LabelledText>& rows,
                                             const std::string& precision, std::size_t rounds,
                                             const OnTexts& on_texts);

// Speed-up against whole prompts for prefixes of about 50 to 2,000 tokens: the task's own
// instructions with more and more house rules behind them.
Result<std::vector<SharePoint>> time_shares(Engine& engine, const Task& task,
                                            const std::vector<LabelledText>& rows,
                                            const std::string& precision, const OnTexts& on_texts);

// Tokens of a text's own part, mean over the rows.
Result<double> mean_suffix_tokens(Classifier& classifier, const std::vector<LabelledText>& rows);

}  // namespace incipit::app
