// SPDX-License-Identifier: Apache-2.0
//
// The verbs of Runtime one by one, and their errors.
#include "conformance/runtime_conformance.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

namespace incipit::test {

using model::Sequence;
using model::Step;

std::vector<std::uint32_t> all_rows(std::size_t count) {
  std::vector<std::uint32_t> rows(count);
  std::iota(rows.begin(), rows.end(), 0U);
  return rows;
}

void RuntimeConformance::SetUp() {
  runtime_ = &GetParam().open();
  cells_free_ = runtime().cells_free();
  random_.seed(GetParam().seed);
}

void RuntimeConformance::TearDown() {
  EXPECT_EQ(runtime().cells_free(), cells_free_) << "this test lost or invented cells";
}

std::size_t RuntimeConformance::random_below(std::size_t bound) {
  return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random_);
}

TokenVector RuntimeConformance::random_prompt(std::size_t length) {
  TokenVector tokens(length);
  std::ranges::generate(tokens,
                        [&] { return GetParam().tokens[random_below(GetParam().tokens.size())]; });
  return tokens;
}

std::vector<std::vector<float>> RuntimeConformance::append(const Sequence& sequence,
                                                           TokenSpan tokens) {
  const auto rows = all_rows(tokens.size());
  const Step step{.sequence = sequence.id(), .tokens = tokens, .logits_rows = rows};
  const auto logits = runtime().evaluate({&step, 1});
  std::vector<std::vector<float>> copies;
  EXPECT_TRUE(logits) << logits.error().message;
  if (!logits) return copies;
  EXPECT_EQ(logits->rows(), tokens.size());
  EXPECT_EQ(logits->vocabulary, runtime().limits().vocabulary);
  for (std::size_t i = 0; i < logits->rows(); ++i) {
    copies.emplace_back(logits->row(i).begin(), logits->row(i).end());
  }
  return copies;
}

Oracle RuntimeConformance::whole(TokenSpan tokens) {
  const auto sequence = Sequence::create(runtime());
  EXPECT_TRUE(sequence);
  Oracle oracle{.logits = append(*sequence, tokens), .cells = {}};
  const auto cells = runtime().save(sequence->id(), 0, tokens.size());
  EXPECT_TRUE(cells) << cells.error().message;
  if (cells) oracle.cells = *cells;
  return oracle;
}

void RuntimeConformance::expect_equal(std::span<const float> got,
                                      std::span<const float> want) const {
  ASSERT_EQ(got.size(), want.size());
  const float tolerance = runtime().limits().exact ? 0 : GetParam().tolerance;
  float drift = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_FALSE(std::isnan(got[i])) << "logit " << i;
    drift = std::max(drift, std::abs(got[i] - want[i]));
  }
  EXPECT_LE(drift, tolerance);
}

// The sequence must hold exactly the cells of `tokens`: what follows proves it.
void RuntimeConformance::expect_continues(const Sequence& sequence, TokenVector tokens) {
  ASSERT_EQ(sequence.length(), tokens.size());
  const TokenVector more = random_prompt(2);
  const auto got = append(sequence, more);
  tokens.insert(tokens.end(), more.begin(), more.end());
  const Oracle oracle = whole(tokens);
  ASSERT_EQ(got.size(), 2U);
  expect_equal(got[0], oracle.logits[tokens.size() - 2]);
  expect_equal(got[1], oracle.logits[tokens.size() - 1]);
}

TEST_P(RuntimeConformance, LimitsAreFilledIn) {
  const model::Limits& limits = runtime().limits();
  EXPECT_GT(limits.vocabulary, 1U);
  EXPECT_GT(limits.context_tokens, 0U);
  EXPECT_GT(limits.cell_bytes, 0U);
  EXPECT_LE(runtime().cells_free(), limits.cells);
  EXPECT_EQ(limits.exact, limits.approximate_reason.empty());
  EXPECT_EQ(runtime().fingerprint().size(), 64U);
}

// A tolerance that would take one prompt for another proves nothing.
TEST_P(RuntimeConformance, TheToleranceTellsPromptsApart) {
  TokenVector tokens = random_prompt(GetParam().prompt_tokens);
  const Oracle one = whole(tokens);
  std::size_t swapped = 0;
  while (tokens[swapped] == tokens[swapped + 1]) ++swapped;
  std::swap(tokens[swapped], tokens[swapped + 1]);
  const Oracle other = whole(tokens);
  float least = std::numeric_limits<float>::max();
  for (std::size_t row = swapped + 1; row < tokens.size(); ++row) {
    float difference = 0;
    for (std::size_t i = 0; i < one.logits[row].size(); ++i)
      difference = std::max(difference, std::abs(one.logits[row][i] - other.logits[row][i]));
    least = std::min(least, difference);
  }
  EXPECT_GT(least, runtime().limits().exact ? 0 : 2 * GetParam().tolerance);
}

TEST_P(RuntimeConformance, CreatesAnEmptySequenceThatCostsNoCells) {
  const std::size_t before = runtime().cells_free();
  const auto sequence = Sequence::create(runtime());
  ASSERT_TRUE(sequence);
  EXPECT_EQ(sequence->length(), 0U);
  EXPECT_EQ(runtime().cells_free(), before);
}

TEST_P(RuntimeConformance, EvaluateAppendsAndDropFrees) {
  const std::size_t before = runtime().cells_free();
  {
    const auto sequence = Sequence::create(runtime());
    ASSERT_TRUE(sequence);
    EXPECT_EQ(append(*sequence, random_prompt(7)).size(), 7U);
    EXPECT_EQ(sequence->length(), 7U);
    EXPECT_LE(runtime().cells_free(), before - 7);
  }
  EXPECT_EQ(runtime().cells_free(), before);
}

TEST_P(RuntimeConformance, GivesLogitsOnlyForTheRowsAskedFor) {
  const TokenVector tokens = random_prompt(9);
  const Oracle oracle = whole(tokens);
  const auto first = Sequence::create(runtime());
  const auto second = Sequence::create(runtime());
  const auto silent = Sequence::create(runtime());
  ASSERT_TRUE(first && second && silent);
  const std::vector<std::uint32_t> some{2, 8};
  const std::vector<std::uint32_t> one{0};
  const std::vector<Step> steps{
      {first->id(), tokens, some}, {silent->id(), tokens, {}}, {second->id(), tokens, one}};
  const auto logits = runtime().evaluate(steps);
  ASSERT_TRUE(logits) << logits.error().message;
  ASSERT_EQ(logits->rows(), 3U);
  expect_equal(logits->row(0), oracle.logits[2]);
  expect_equal(logits->row(1), oracle.logits[8]);
  expect_equal(logits->row(2), oracle.logits[0]);
  EXPECT_EQ(silent->length(), tokens.size());
}

TEST_P(RuntimeConformance, ALoneTokenIsAPiece) {
  const TokenVector tokens = random_prompt(5);
  const Oracle oracle = whole(tokens);
  const auto sequence = Sequence::create(runtime());
  ASSERT_TRUE(sequence);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto row = append(*sequence, TokenSpan(tokens).subspan(i, 1));
    ASSERT_EQ(row.size(), 1U);
    expect_equal(row[0], oracle.logits[i]);
  }
}

TEST_P(RuntimeConformance, ForksAreIndependent) {
  const TokenVector prefix = random_prompt(GetParam().prompt_tokens);
  const auto base = Sequence::create(runtime());
  ASSERT_TRUE(base);
  append(*base, prefix);
  for (const std::size_t length : {prefix.size(), prefix.size() - 1, std::size_t{1}}) {
    const auto fork = Sequence::fork(runtime(), base->id(), length);
    ASSERT_TRUE(fork) << fork.error().message;
    const TokenVector shared(prefix.begin(), prefix.begin() + static_cast<std::ptrdiff_t>(length));
    expect_continues(*fork, shared);
  }
  expect_continues(*base, prefix);
}

TEST_P(RuntimeConformance, AForkOutlivesItsSource) {
  const TokenVector prefix = random_prompt(GetParam().prompt_tokens);
  std::optional<Sequence> base = Sequence::create(runtime()).value();
  append(*base, prefix);
  const auto fork = Sequence::fork(runtime(), base->id(), prefix.size());
  ASSERT_TRUE(fork);
  base.reset();
  expect_continues(*fork, prefix);
}

TEST_P(RuntimeConformance, AForkOfNothingIsEmpty) {
  const auto base = Sequence::create(runtime());
  const auto fork = Sequence::fork(runtime(), base->id(), 0);
  ASSERT_TRUE(fork);
  EXPECT_EQ(fork->length(), 0U);
}

TEST_P(RuntimeConformance, ForkBeyondTheSourceIsRefused) {
  const auto base = Sequence::create(runtime());
  append(*base, random_prompt(3));
  const auto fork = runtime().fork(base->id(), 4);
  ASSERT_FALSE(fork);
  EXPECT_EQ(fork.error().code, ErrorCode::kInvalidArgument);
}

TEST_P(RuntimeConformance, TruncateForgetsTheRest) {
  const TokenVector tokens = random_prompt(GetParam().prompt_tokens);
  const auto sequence = Sequence::create(runtime());
  append(*sequence, tokens);
  ASSERT_TRUE(runtime().truncate(sequence->id(), 5));
  expect_continues(*sequence, TokenVector(tokens.begin(), tokens.begin() + 5));
  ASSERT_TRUE(runtime().truncate(sequence->id(), 0));
  EXPECT_EQ(sequence->length(), 0U);
  const auto longer = runtime().truncate(sequence->id(), 1);
  ASSERT_FALSE(longer);
  EXPECT_EQ(longer.error().code, ErrorCode::kInvalidArgument);
}

// What is written after a truncation must not reach a fork that shares the cells.
TEST_P(RuntimeConformance, TruncatedCellsOfAForkStayAsTheyWere) {
  const TokenVector tokens = random_prompt(GetParam().prompt_tokens);
  const auto base = Sequence::create(runtime());
  append(*base, tokens);
  const auto fork = Sequence::fork(runtime(), base->id(), tokens.size());
  ASSERT_TRUE(fork);
  ASSERT_TRUE(runtime().truncate(base->id(), 3));
  append(*base, random_prompt(4));
  expect_continues(*fork, tokens);
}

TEST_P(RuntimeConformance, BadStepsAreRefusedAndNothingChanges) {
  const TokenVector tokens = random_prompt(6);
  const auto good = Sequence::create(runtime());
  const auto bad = Sequence::create(runtime());
  append(*good, tokens);
  const std::size_t cells = runtime().cells_free();
  const TokenVector more = random_prompt(2);
  const auto outside = static_cast<Token>(runtime().limits().vocabulary);
  const std::vector<TokenVector> bad_pieces{{},
                                            {tokens[0], outside},
                                            {tokens[0], -1},
                                            random_prompt(runtime().limits().context_tokens + 1)};
  for (const TokenVector& piece : bad_pieces) {
    const std::vector<Step> steps{{good->id(), more, {}}, {bad->id(), piece, {}}};
    const auto logits = runtime().evaluate(steps);
    ASSERT_FALSE(logits);
    EXPECT_EQ(logits.error().code, ErrorCode::kInvalidArgument) << logits.error().message;
    EXPECT_EQ(good->length(), tokens.size());
    EXPECT_EQ(bad->length(), 0U);
    EXPECT_EQ(runtime().cells_free(), cells);
  }
  expect_continues(*good, tokens);
}

TEST_P(RuntimeConformance, WithoutCellsNothingChangesAndASmallerPassWorks) {
  const TokenVector prefix = random_prompt(3);
  const auto base = Sequence::create(runtime());
  append(*base, prefix);
  std::vector<Sequence> held;
  std::optional<ErrorCode> code;
  const TokenVector piece = random_prompt(16);
  while (!code && held.size() <= runtime().limits().cells) {
    auto made = Sequence::fork(runtime(), base->id(), prefix.size());
    if (!made) {
      code = made.error().code;
      break;
    }
    held.push_back(std::move(*made));
    const Step step{.sequence = held.back().id(), .tokens = piece, .logits_rows = {}};
    if (const auto logits = runtime().evaluate({&step, 1}); !logits) {
      code = logits.error().code;
      EXPECT_EQ(held.back().length(), prefix.size());
    }
  }
  EXPECT_EQ(code, ErrorCode::kResourceExhausted);
  held.clear();
  expect_continues(*base, prefix);
}

TEST_P(RuntimeConformance, SequencesRunOutWithAnError) {
  const std::size_t free = runtime().sequences_free();
  EXPECT_LE(free, runtime().limits().sequences);
  if (free > 1000) return;  // As good as without bounds.
  std::vector<Sequence> held;
  for (std::size_t i = 0; i < free; ++i) {
    auto made = Sequence::create(runtime());
    ASSERT_TRUE(made) << i << " of " << free << ": " << made.error().message;
    held.push_back(std::move(*made));
  }
  EXPECT_EQ(runtime().sequences_free(), 0U);
  append(held.front(), random_prompt(3));
  for (const auto& more : {runtime().create(), runtime().fork(held.front().id(), 2)}) {
    ASSERT_FALSE(more);
    EXPECT_EQ(more.error().code, ErrorCode::kResourceExhausted);
  }
  held.pop_back();
  EXPECT_TRUE(Sequence::fork(runtime(), held.front().id(), 2));
}

TEST_P(RuntimeConformance, DamagedBytesAreRefusedAndNothingChanges) {
  const TokenVector tokens = random_prompt(GetParam().prompt_tokens);
  const auto source = Sequence::create(runtime());
  append(*source, tokens);
  const auto bytes = runtime().save(source->id(), 0, tokens.size());
  ASSERT_TRUE(bytes);
  const auto target = Sequence::create(runtime());
  const std::size_t cells = runtime().cells_free();
  const auto expect_refused = [&](std::span<const std::byte> damaged) {
    const auto restored = runtime().restore(target->id(), damaged);
    ASSERT_FALSE(restored);
    EXPECT_EQ(restored.error().code, ErrorCode::kCorruption) << restored.error().message;
    EXPECT_EQ(target->length(), 0U);
    EXPECT_EQ(runtime().cells_free(), cells);
  };
  for (std::size_t i = 0; i < 24; ++i) {
    std::vector<std::byte> flipped = *bytes;
    flipped[random_below(flipped.size())] ^= std::byte{1} << random_below(8);
    expect_refused(flipped);
  }
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, bytes->size() / 2, bytes->size() - 1}) {
    expect_refused(std::span(*bytes).first(size));
  }
  std::vector<std::byte> longer = *bytes;
  longer.push_back(std::byte{0});
  expect_refused(longer);
  EXPECT_TRUE(runtime().restore(target->id(), *bytes));
  expect_continues(*target, tokens);
}

TEST_P(RuntimeConformance, ForeignBytesAreRefused) {
  if (!GetParam().open_other) return;
  model::Runtime& other = GetParam().open_other();
  ASSERT_NE(other.fingerprint(), runtime().fingerprint());
  const TokenVector tokens = random_prompt(4);
  const auto foreign = Sequence::create(other);
  const Step step{.sequence = foreign->id(), .tokens = tokens, .logits_rows = {}};
  ASSERT_TRUE(other.evaluate({&step, 1}));
  const auto bytes = other.save(foreign->id(), 0, tokens.size());
  ASSERT_TRUE(bytes);
  const auto target = Sequence::create(runtime());
  const auto restored = runtime().restore(target->id(), *bytes);
  ASSERT_FALSE(restored);
  EXPECT_EQ(restored.error().code, ErrorCode::kInvalidArgument) << restored.error().message;
  EXPECT_EQ(target->length(), 0U);
}

TEST_P(RuntimeConformance, BytesOfAnotherPositionAreRefused) {
  const TokenVector tokens = random_prompt(12);
  const auto sequence = Sequence::create(runtime());
  append(*sequence, tokens);
  const auto bytes = runtime().save(sequence->id(), 4, 12);
  ASSERT_TRUE(bytes);
  ASSERT_TRUE(runtime().truncate(sequence->id(), 5));
  const auto restored = runtime().restore(sequence->id(), *bytes);
  ASSERT_FALSE(restored);
  EXPECT_EQ(restored.error().code, ErrorCode::kInvalidArgument) << restored.error().message;
  EXPECT_EQ(sequence->length(), 5U);
  ASSERT_TRUE(runtime().truncate(sequence->id(), 4));
  ASSERT_TRUE(runtime().restore(sequence->id(), *bytes));
  expect_continues(*sequence, tokens);
}

}  // namespace incipit::test
