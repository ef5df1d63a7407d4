// SPDX-License-Identifier: Apache-2.0
//
// Scores some texts a second time as whole prompts, without any cache, and compares.
//
// The texts are those with the smallest hash of their ids: spread over the file, and the same in
// every run. Where the classifier is exact, equal means equal to the last bit; elsewhere the
// label must be the same and the scores within a tolerance. Confined to one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "incipit/classify_file.h"
#include "incipit/engine.h"

namespace incipit::api {

class Verifier {
 public:
  // `check` is asked before each whole prompt; its error ends the work.
  Verifier(Classifier& classifier, std::size_t wanted, double tolerance,
           std::function<Result<void>()> check)
      : classifier_(classifier), wanted_(wanted), tolerance_(tolerance), check_(std::move(check)) {}

  // Takes note of a text and its scores; with kVerifyAll compares now and then.
  Result<void> add(const std::string& id, const std::string& text, const Scored& scored);

  // Compares what is left.
  Result<VerifyReport> finish();

 private:
  struct Candidate {
    std::uint64_t rank = 0;
    std::string id;
    std::string text;
    Scored scored;
  };

  Result<void> compare_all();
  void compare(const Candidate& candidate, const Scored& full);

  Classifier& classifier_;
  std::size_t wanted_;
  double tolerance_;
  std::function<Result<void>()> check_;
  std::vector<Candidate> candidates_;  // A heap, greatest rank first, unless all are wanted.
  VerifyReport report_;
};

}  // namespace incipit::api
