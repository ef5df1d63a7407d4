// SPDX-License-Identifier: Apache-2.0
//
// Jobs for a batcher on the fake runtime, and what came of them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/batcher.h"
#include "kv/fragment_cache.h"
#include "kv/prefix_cache.h"
#include "store/state_folder.h"
#include "support/fake_runtime.h"

namespace incipit::test {

struct Outcome {
  std::vector<float> logits;  // Every row that was read.
  TokenVector tokens;         // As chosen.
  bool is_over = false;
  Result<engine::JobReport> report;
};

inline Token best(std::span<const float> row) {
  return static_cast<Token>(std::ranges::max_element(row) - row.begin());
}

inline TokenVector joined(TokenVector first, const TokenVector& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

inline TokenVector count_from(Token first, std::size_t count) {
  TokenVector tokens(count);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = (first + static_cast<Token>(i)) % 60;
  return tokens;
}

// Keeps all it reads, and chooses so many tokens: the best ones, or those of a text.
class Recorder final : public engine::RowReader {
 public:
  Recorder(Outcome& outcome, std::size_t tokens) : outcome_(outcome), left_(tokens) {}
  Recorder(Outcome& outcome, TokenVector text)
      : outcome_(outcome), left_(text.size()), text_(std::move(text)) {}

  Result<std::optional<Token>> read(const model::Logits& logits, std::size_t first_row,
                                    std::size_t rows) override {
    for (std::size_t row = first_row; row < first_row + rows; ++row) {
      const auto values = logits.row(row);
      outcome_.logits.insert(outcome_.logits.end(), values.begin(), values.end());
    }
    if (left_ == 0) return std::nullopt;
    --left_;
    outcome_.tokens.push_back(text_.empty() ? best(logits.row(first_row + rows - 1))
                                            : text_[outcome_.tokens.size()]);
    return outcome_.tokens.back();
  }
  void finish(Result<engine::JobReport> report) override {
    EXPECT_FALSE(outcome_.is_over) << "finished twice";
    outcome_.is_over = true;
    outcome_.report = std::move(report);
  }

 private:
  Outcome& outcome_;
  std::size_t left_;
  TokenVector text_;  // Empty: the best tokens.
};

// A test makes the parts that it needs in this order, and resets them in the other.
class BatcherJobs : public testing::Test {
 protected:
  // `answer`: how many tokens, or which ones.
  template <typename Answer>
  Outcome& add_job(engine::Job job, Answer answer) {
    Outcome& outcome = *outcomes_.emplace_back(std::make_unique<Outcome>());
    job.reader = std::make_unique<Recorder>(outcome, std::move(answer));
    batcher_->add(++last_id_, std::move(job));
    return outcome;
  }
  void run() {
    while (batcher_->step()) cache_->check_invariants();
    cache_->check_invariants();
  }
  // Cells lie in the runtime, and jobs in the cache.
  void close() {
    batcher_.reset();
    cache_.reset();
    fragments_.reset();
    folder_.reset();
  }

  std::unique_ptr<FakeRuntime> runtime_;
  std::unique_ptr<store::StateFolder> folder_;
  std::unique_ptr<kv::FragmentCache> fragments_;
  std::unique_ptr<kv::PrefixCache> cache_;
  std::unique_ptr<engine::Batcher> batcher_;
  std::vector<std::unique_ptr<Outcome>> outcomes_;
  engine::Batcher::JobId last_id_ = 0;
};

}  // namespace incipit::test
