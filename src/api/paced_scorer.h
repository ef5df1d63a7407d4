// SPDX-License-Identifier: Apache-2.0
//
// Scores many texts in calls of about a second each, so that a stop is heeded and progress is seen
// on slow models as on fast ones.
//
// A call to the classifier cannot be interrupted, and 64 long texts on a slow model take minutes.
// How many texts make a second is learnt from the calls before. Scores do not depend on how texts
// are divided (near ties of approximate runtimes are scored again alone), so neither does the
// output. Confined to one thread.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "incipit/engine.h"

namespace incipit::api {

class PacedScorer {
 public:
  // `classifier` must outlive the scorer.
  explicit PacedScorer(Classifier& classifier) : classifier_(classifier) {}

  // Hears how many of the texts have their scores; false ends the work.
  using GoOn = std::function<bool(std::size_t texts)>;

  // Returns one result for each text, in order; only those of the first texts where `go_on` said
  // no. Errors: those of Classifier::score().
  Result<std::vector<Scored>> score(std::span<const std::string_view> texts, const GoOn& go_on);

 private:
  Classifier& classifier_;
  std::size_t texts_ = 8;  // Of the next call.
};

}  // namespace incipit::api
