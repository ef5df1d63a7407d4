// SPDX-License-Identifier: Apache-2.0
//
// What every Runtime must do, as one suite of tests: each verb, each documented error, all or
// nothing, and the law (equal to the bit however a prompt was cut, batched, forked, truncated,
// saved and restored; the oracle is the whole prompt in one piece on a fresh sequence).
//
// A program links runtime_conformance.cc and runtime_law.cc once and names its runtimes:
//
//     INSTANTIATE_TEST_SUITE_P(Fake, RuntimeConformance, testing::Values(RuntimeUnderTest{...}));
//
// Where limits().exact is false, logits are compared with `tolerance` in place of bits.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <ostream>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/runtime.h"

namespace incipit::test {

struct RuntimeUnderTest {
  std::string name;
  // Borrowed, and the same object may serve every test: each one must leave no sequence behind.
  std::function<model::Runtime&()> open;
  // A runtime with another fingerprint; empty where making one is too expensive.
  std::function<model::Runtime&()> open_other;
  TokenVector tokens;  // Valid tokens that prompts are made of; four or more.
  std::size_t prompt_tokens = 40;
  std::size_t operations = 300;  // Of the random walk; each costs up to four passes.
  float tolerance = 0;
  std::uint64_t seed = 1;
};

// A runtime on a tiny model: `open(seed)` gives one whose weights come from that seed.
inline RuntimeUnderTest tiny_subject(std::string name,
                                     std::function<model::Runtime&(std::uint64_t)> open,
                                     float tolerance) {
  return {.name = std::move(name),
          .open = [open]() -> model::Runtime& { return open(1); },
          .open_other = [open]() -> model::Runtime& { return open(2); },
          .tokens = {3, 40, 70, 100, 200, 280},
          .prompt_tokens = 70,
          .operations = 300,
          .tolerance = tolerance};
}

inline void PrintTo(const RuntimeUnderTest& subject, std::ostream* out) { *out << subject.name; }

// A sequence's tokens as one whole prompt gives them.
struct Oracle {
  std::vector<std::vector<float>> logits;  // One row for each token.
  std::vector<std::byte> cells;            // save() of all of them.
};

class RuntimeConformance : public testing::TestWithParam<RuntimeUnderTest> {
 public:
  void SetUp() override;
  void TearDown() override;  // No cell may be lost by a test.

  [[nodiscard]] model::Runtime& runtime() const { return *runtime_; }
  [[nodiscard]] TokenVector random_prompt(std::size_t length);
  [[nodiscard]] std::size_t random_below(std::size_t bound);

  // Evaluates `tokens` in one piece on a fresh sequence.
  [[nodiscard]] Oracle whole(TokenSpan tokens);
  // Appends `tokens` to `sequence` in one pass of its own; returns every row's logits.
  std::vector<std::vector<float>> append(const model::Sequence& sequence, TokenSpan tokens);
  void expect_equal(std::span<const float> got, std::span<const float> want) const;
  void expect_continues(const model::Sequence& sequence, TokenVector tokens);

  [[nodiscard]] std::mt19937_64& random() { return random_; }

 private:
  std::mt19937_64 random_;
  model::Runtime* runtime_ = nullptr;  // Borrowed from the subject.
  std::size_t cells_free_ = 0;
};

// Indices 0..count-1: logits of every token of a step.
[[nodiscard]] std::vector<std::uint32_t> all_rows(std::size_t count);

}  // namespace incipit::test
