// SPDX-License-Identifier: Apache-2.0
#include "model/step_check.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/counted.h"

namespace incipit::model {
namespace {

Result<void> check_step(const Step& step, const Limits& limits, std::size_t length) {
  if (step.tokens.empty()) return failure(ErrorCode::kInvalidArgument, "a step without tokens");
  if (length + step.tokens.size() > limits.context_tokens) {
    return failure(ErrorCode::kInvalidArgument, counted(length + step.tokens.size(), "token") +
                                                    " are more than the context of " +
                                                    std::to_string(limits.context_tokens));
  }
  for (const Token token : step.tokens) {
    if (token < 0 || static_cast<std::size_t>(token) >= limits.vocabulary) {
      return failure(ErrorCode::kInvalidArgument,
                     "token " + std::to_string(token) + " is not in the vocabulary");
    }
  }
  for (std::size_t i = 0; i < step.logits_rows.size(); ++i) {
    const bool ascending = i == 0 || step.logits_rows[i - 1] < step.logits_rows[i];
    if (!ascending || step.logits_rows[i] >= step.tokens.size()) {
      return failure(ErrorCode::kInvalidArgument,
                     "logits rows of a step must ascend and lie inside it");
    }
  }
  return {};
}

}  // namespace

Result<void> check_steps(std::span<const Step> steps, const Limits& limits,
                         const std::function<std::size_t(SequenceId)>& length_of) {
  std::vector<SequenceId> seen;
  for (const Step& step : steps) {
    INCIPIT_TRY_VOID(check_step(step, limits, length_of(step.sequence)));
    seen.push_back(step.sequence);
  }
  std::sort(seen.begin(), seen.end());
  if (std::adjacent_find(seen.begin(), seen.end()) != seen.end()) {
    return failure(ErrorCode::kInvalidArgument, "a sequence occurs twice in one pass");
  }
  return {};
}

std::unexpected<Error> no_free_cells() {
  return failure(ErrorCode::kResourceExhausted,
                 "no free KV cells; drop sequences or raise --ctx-size");
}

}  // namespace incipit::model
