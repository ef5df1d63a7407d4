// SPDX-License-Identifier: Apache-2.0
//
// Scores a text that is given: each of its tokens is appended as if the model had chosen it. With
// windows, and what a window left out, as callers hear of it.
// Of the model's thread.
#pragma once

#include <cstddef>
#include <functional>
#include <future>
#include <string>

#include "engine/batcher.h"
#include "incipit/generator.h"
#include "model/runtime.h"

namespace incipit::engine {

// Errors: kUnavailable where the runtime cannot slide; kInvalidArgument for what cannot be.
Result<Window> window_of(const SlidingWindow& asked, const model::Limits& limits);

// Empty where nothing was left out.
[[nodiscard]] std::string lossy_reason(const JobReport& report);

class TextReader final : public RowReader {
 public:
  // `tail` follows the job's prompt; where the job reads rows of all its tokens, the last row
  // is that of the last but one of `tail`.
  TextReader(TokenVector tail, std::function<bool(std::size_t)> on_tokens,
             std::promise<Result<TextScore>> done);

  Result<std::optional<Token>> read(const model::Logits& logits, std::size_t first_row,
                                    std::size_t rows) override;
  void finish(Result<JobReport> report) override;

 private:
  TokenVector tail_;
  std::function<bool(std::size_t)> on_tokens_;  // May be empty.
  std::promise<Result<TextScore>> done_;
  TextScore score_;
};

}  // namespace incipit::engine
