// SPDX-License-Identifier: Apache-2.0
//
// The verbs of Runtime that move cells to other positions. What a moved cell should be, only a
// model can say (openvino_slide_test.cc); here: lengths, errors, all or nothing, and that nobody
// else's cells change.
#include <algorithm>

#include "conformance/runtime_conformance.h"

namespace incipit::test {

using model::Sequence;
using model::Slide;
using model::Step;

namespace {

// Both hold the same cells: their logits agree to the last bit after the same tokens.
void expect_alike(RuntimeConformance& test, const Sequence& a, const Sequence& b) {
  ASSERT_EQ(a.length(), b.length());
  const TokenVector more = test.random_prompt(3);
  const auto first = test.append(a, more);
  const auto second = test.append(b, more);
  ASSERT_EQ(first.size(), second.size());
  for (std::size_t i = 0; i < first.size(); ++i) test.expect_equal(first[i], second[i]);
}

// False where the runtime declines, by the same error from both verbs.
bool can_move(RuntimeConformance& test) {
  if (test.runtime().limits().can_move) return true;
  const auto sequence = Sequence::create(test.runtime());
  const auto slid = test.runtime().slide(sequence->id(), {});
  EXPECT_FALSE(slid);
  EXPECT_EQ(slid.error().code, ErrorCode::kUnavailable) << slid.error().message;
  const auto bytes = test.runtime().save(sequence->id(), 0, 0);
  EXPECT_TRUE(bytes);
  const auto moved = test.runtime().restore_moved(sequence->id(), *bytes);
  EXPECT_FALSE(moved);
  EXPECT_EQ(moved.error().code, ErrorCode::kUnavailable) << moved.error().message;
  return false;
}

}  // namespace

TEST_P(RuntimeConformance, ASlideForgetsTheMiddleAndGoesOn) {
  if (!can_move(*this)) return;
  const TokenVector tokens = random_prompt(GetParam().prompt_tokens);
  const Oracle oracle = whole(tokens);
  const auto sequence = Sequence::create(runtime());
  append(*sequence, tokens);
  const std::size_t full = runtime().cells_free();
  ASSERT_TRUE(runtime().slide(sequence->id(), {.sink = 4, .dropped = tokens.size() / 2}));
  EXPECT_EQ(sequence->length(), tokens.size() - tokens.size() / 2);
  EXPECT_GE(runtime().cells_free(), full);
  const auto after = append(*sequence, TokenSpan(tokens).last(1));
  ASSERT_EQ(after.size(), 1U);
  for (const float logit : after[0]) ASSERT_FALSE(std::isnan(logit));
  // What follows depends on what was dropped.
  EXPECT_NE(after[0], oracle.logits.back());
  ASSERT_TRUE(runtime().truncate(sequence->id(), 4));
  expect_continues(*sequence, TokenVector(tokens.begin(), tokens.begin() + 4));
}

TEST_P(RuntimeConformance, ASlideOfNothingChangesNothing) {
  if (!can_move(*this)) return;
  const TokenVector tokens = random_prompt(GetParam().prompt_tokens);
  const auto sequence = Sequence::create(runtime());
  append(*sequence, tokens);
  ASSERT_TRUE(runtime().slide(sequence->id(), {.sink = 4, .dropped = 0}));
  expect_continues(*sequence, tokens);
}

TEST_P(RuntimeConformance, ASlideThatDropsTheEndIsATruncation) {
  if (!can_move(*this)) return;
  const TokenVector tokens = random_prompt(GetParam().prompt_tokens);
  for (const std::size_t sink : {std::size_t{0}, std::size_t{5}, std::size_t{32}}) {
    const auto sequence = Sequence::create(runtime());
    append(*sequence, tokens);
    ASSERT_TRUE(runtime().slide(sequence->id(), {.sink = sink, .dropped = tokens.size() - sink}));
    ASSERT_EQ(sequence->length(), sink);
    if (sink == 0) continue;
    expect_continues(*sequence,
                     TokenVector(tokens.begin(), tokens.begin() + static_cast<long>(sink)));
  }
}

// A fork of the cells before, another after, and one that slides itself.
TEST_P(RuntimeConformance, ASlideNeverTouchesTheCellsOfForks) {
  if (!can_move(*this)) return;
  const TokenVector tokens = random_prompt(GetParam().prompt_tokens);
  for (const std::size_t dropped : {std::size_t{1}, std::size_t{7}, tokens.size() - 8}) {
    const auto base = Sequence::create(runtime());
    append(*base, tokens);
    const auto fork = Sequence::fork(runtime(), base->id(), tokens.size());
    const auto shorter = Sequence::fork(runtime(), base->id(), tokens.size() - 3);
    const auto twin = Sequence::fork(runtime(), base->id(), tokens.size());
    ASSERT_TRUE(fork && shorter && twin);
    ASSERT_TRUE(runtime().slide(base->id(), {.sink = 4, .dropped = dropped}));
    ASSERT_TRUE(runtime().slide(twin->id(), {.sink = 4, .dropped = dropped}));
    const auto of_slid = Sequence::fork(runtime(), base->id(), base->length());
    ASSERT_TRUE(of_slid);
    expect_alike(*this, *base, *twin);
    expect_continues(*fork, tokens);
    expect_continues(*shorter, TokenVector(tokens.begin(), tokens.end() - 3));
    ASSERT_TRUE(runtime().truncate(base->id(), of_slid->length()));
    expect_alike(*this, *base, *of_slid);
  }
}

// Cells that are shared and cells that are not slide to the same bits.
TEST_P(RuntimeConformance, ManySlidesAreTheSameSharedOrNot) {
  if (!can_move(*this)) return;
  const auto lonely = Sequence::create(runtime());
  const auto sharing = Sequence::create(runtime());
  std::vector<Sequence> forks;
  for (std::size_t round = 0; round < 6; ++round) {
    const TokenVector tokens = random_prompt(GetParam().prompt_tokens / 2);
    append(*lonely, tokens);
    append(*sharing, tokens);
    forks.push_back(
        Sequence::fork(runtime(), sharing->id(), random_below(sharing->length() + 1)).value());
    const std::size_t sink = random_below(lonely->length());
    const Slide slide{.sink = sink, .dropped = random_below(lonely->length() - sink + 1)};
    ASSERT_TRUE(runtime().slide(lonely->id(), slide));
    ASSERT_TRUE(runtime().slide(sharing->id(), slide));
    expect_alike(*this, *lonely, *sharing);
  }
}

TEST_P(RuntimeConformance, ASlideBeyondTheEndIsRefusedAndNothingChanges) {
  if (!can_move(*this)) return;
  const TokenVector tokens = random_prompt(12);
  const auto sequence = Sequence::create(runtime());
  append(*sequence, tokens);
  constexpr std::size_t kHuge = ~std::size_t{0};
  for (const Slide& slide : {Slide{13, 0}, Slide{4, 9}, Slide{4, kHuge}, Slide{kHuge, 2}}) {
    const auto slid = runtime().slide(sequence->id(), slide);
    ASSERT_FALSE(slid);
    EXPECT_EQ(slid.error().code, ErrorCode::kInvalidArgument) << slid.error().message;
  }
  expect_continues(*sequence, tokens);
}

TEST_P(RuntimeConformance, WithoutCellsASlideOfSharedOnesChangesNothing) {
  if (!can_move(*this)) return;
  const TokenVector tokens = random_prompt(GetParam().prompt_tokens);
  const auto base = Sequence::create(runtime());
  append(*base, tokens);
  const auto fork = Sequence::fork(runtime(), base->id(), tokens.size());
  ASSERT_TRUE(fork);
  {
    std::vector<Sequence> held;
    const TokenVector piece = random_prompt(32);
    while (runtime().cells_free() > 0) {
      const std::size_t size = std::min(piece.size(), runtime().cells_free());
      if (held.empty() || held.back().length() + size > runtime().limits().context_tokens)
        held.push_back(Sequence::create(runtime()).value());
      const Step step{.sequence = held.back().id(), .tokens = TokenSpan(piece).first(size)};
      ASSERT_TRUE(runtime().evaluate({&step, 1}));
    }
    const auto slid = runtime().slide(base->id(), {.sink = 4, .dropped = 3});
    ASSERT_FALSE(slid);
    EXPECT_EQ(slid.error().code, ErrorCode::kResourceExhausted) << slid.error().message;
    EXPECT_EQ(base->length(), tokens.size());
  }
  expect_continues(*base, tokens);
  expect_continues(*fork, tokens);
}

// Cells that come back where they were saved did not move.
TEST_P(RuntimeConformance, RestoringAtTheSamePlaceIsExact) {
  if (!can_move(*this)) return;
  const TokenVector tokens = random_prompt(GetParam().prompt_tokens);
  const auto sequence = Sequence::create(runtime());
  append(*sequence, tokens);
  const auto bytes = runtime().save(sequence->id(), 5, tokens.size());
  ASSERT_TRUE(bytes);
  ASSERT_TRUE(runtime().truncate(sequence->id(), 5));
  ASSERT_TRUE(runtime().restore_moved(sequence->id(), *bytes));
  expect_continues(*sequence, tokens);
}

TEST_P(RuntimeConformance, CellsRestoredElsewhereAreAllOrNothing) {
  if (!can_move(*this)) return;
  const TokenVector tokens = random_prompt(GetParam().prompt_tokens);
  const auto source = Sequence::create(runtime());
  append(*source, tokens);
  const auto bytes = runtime().save(source->id(), 9, tokens.size());
  ASSERT_TRUE(bytes);
  const TokenVector opening = random_prompt(3);
  const auto target = Sequence::create(runtime());
  append(*target, opening);
  const std::size_t cells = runtime().cells_free();
  auto damaged = *bytes;
  damaged[damaged.size() / 2] ^= std::byte{4};
  const auto refused = runtime().restore_moved(target->id(), damaged);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kCorruption) << refused.error().message;
  EXPECT_EQ(runtime().cells_free(), cells);
  ASSERT_EQ(target->length(), 3U);
  const auto fork = Sequence::fork(runtime(), target->id(), 3);
  ASSERT_TRUE(runtime().restore_moved(target->id(), *bytes));
  EXPECT_EQ(target->length(), 3 + tokens.size() - 9);
  expect_continues(*fork, opening);
  ASSERT_TRUE(runtime().truncate(target->id(), 3));
  expect_continues(*target, opening);
  expect_continues(*source, tokens);
}

}  // namespace incipit::test
