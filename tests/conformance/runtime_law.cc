// SPDX-License-Identifier: Apache-2.0
//
// The law: whatever was done to get there, the cells and logits of a sequence are those of its
// tokens evaluated whole, in one piece, on a fresh sequence.
#include <algorithm>
#include <optional>

#include "conformance/runtime_conformance.h"

namespace incipit::test {
namespace {

using model::Sequence;
using model::Step;

// One live sequence and the tokens that it should hold.
struct Tracked {
  Sequence sequence;
  TokenVector tokens;
};

// A piece of one tracked sequence in a pass.
struct Piece {
  std::size_t index = 0;
  TokenVector tokens;
  std::vector<std::uint32_t> rows;
};

// A walk over all verbs in random order, checked against the oracle at every step.
class Walk {
 public:
  explicit Walk(RuntimeConformance& test) : test_(test), limits_(test.runtime().limits()) {}

  void step() {
    switch (test_.random_below(8)) {
      case 0:
        return create();
      case 1:
        return fork();
      case 2:
        return truncate();
      case 3:
        return drop();
      case 4:
        return save_and_restore();
      default:
        return evaluate();
    }
  }

  void check_cells() {
    for (const Tracked& tracked : live_) {
      ASSERT_EQ(tracked.sequence.length(), tracked.tokens.size());
      if (tracked.tokens.empty() || !limits_.exact) continue;
      const auto cells = test_.runtime().save(tracked.sequence.id(), 0, tracked.tokens.size());
      ASSERT_TRUE(cells);
      EXPECT_TRUE(*cells == test_.whole(tracked.tokens).cells) << "saved bytes differ";
    }
  }

 private:
  static constexpr std::size_t kLiveMax = 5;

  void create() {
    if (live_.size() == kLiveMax) return drop();
    auto made = Sequence::create(test_.runtime());
    ASSERT_TRUE(made);
    live_.push_back({.sequence = std::move(*made), .tokens = {}});
  }

  void fork() {
    if (live_.empty() || live_.size() == kLiveMax) return;
    const Tracked& source = live_[test_.random_below(live_.size())];
    const std::size_t length = test_.random_below(source.tokens.size() + 1);
    auto made = Sequence::fork(test_.runtime(), source.sequence.id(), length);
    ASSERT_TRUE(made) << made.error().message;
    TokenVector tokens(source.tokens.begin(),
                       source.tokens.begin() + static_cast<std::ptrdiff_t>(length));
    live_.push_back({.sequence = std::move(*made), .tokens = std::move(tokens)});
  }

  void truncate() {
    if (live_.empty()) return;
    Tracked& target = live_[test_.random_below(live_.size())];
    target.tokens.resize(test_.random_below(target.tokens.size() + 1));
    ASSERT_TRUE(test_.runtime().truncate(target.sequence.id(), target.tokens.size()));
  }

  void drop() {
    if (live_.empty()) return;
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(test_.random_below(live_.size())));
  }

  // The tail is saved, forgotten and restored in place.
  void save_and_restore() {
    if (live_.empty()) return;
    const Tracked& target = live_[test_.random_below(live_.size())];
    const std::size_t begin = test_.random_below(target.tokens.size() + 1);
    const auto bytes = test_.runtime().save(target.sequence.id(), begin, target.tokens.size());
    ASSERT_TRUE(bytes) << bytes.error().message;
    ASSERT_TRUE(test_.runtime().truncate(target.sequence.id(), begin));
    const auto restored = test_.runtime().restore(target.sequence.id(), *bytes);
    ASSERT_TRUE(restored) << restored.error().message;
  }

  std::vector<Piece> random_pieces() {
    std::vector<Piece> pieces;
    for (std::size_t i = 0; i < live_.size(); ++i) {
      const std::size_t room = test_.GetParam().prompt_tokens - live_[i].tokens.size();
      if (room == 0 || test_.random_below(2) == 0) continue;
      Piece piece{
          .index = i,
          .tokens = test_.random_prompt(1 + test_.random_below(std::min<std::size_t>(room, 12))),
          .rows = {}};
      for (std::uint32_t row = 0; row < piece.tokens.size(); ++row) {
        if (test_.random_below(2) == 0) piece.rows.push_back(row);
      }
      pieces.push_back(std::move(piece));
    }
    std::ranges::shuffle(pieces, test_.random());
    return pieces;
  }

  void evaluate() {
    const std::vector<Piece> pieces = random_pieces();
    if (pieces.empty()) return create();
    std::vector<Step> steps;
    for (const Piece& piece : pieces) {
      steps.push_back({live_[piece.index].sequence.id(), piece.tokens, piece.rows});
    }
    const auto logits = test_.runtime().evaluate(steps);
    ASSERT_TRUE(logits) << logits.error().message;
    const std::vector<float> values(logits->values.begin(), logits->values.end());
    std::span<const float> rest = values;
    for (const Piece& piece : pieces) {
      TokenVector& tokens = live_[piece.index].tokens;
      const std::size_t begin = tokens.size();
      tokens.insert(tokens.end(), piece.tokens.begin(), piece.tokens.end());
      if (piece.rows.empty()) continue;
      const Oracle oracle = test_.whole(tokens);
      for (const std::uint32_t row : piece.rows) {
        test_.expect_equal(rest.first(limits_.vocabulary), oracle.logits[begin + row]);
        rest = rest.subspan(limits_.vocabulary);
      }
    }
    EXPECT_TRUE(rest.empty());
  }

  RuntimeConformance& test_;
  const model::Limits& limits_;
  std::vector<Tracked> live_;
};

}  // namespace

TEST_P(RuntimeConformance, AnyCutGivesTheSameBits) {
  const TokenVector tokens = random_prompt(GetParam().prompt_tokens);
  const Oracle oracle = whole(tokens);
  for (std::size_t round = 0; round < 4; ++round) {
    const auto sequence = Sequence::create(runtime());
    ASSERT_TRUE(sequence);
    std::size_t begin = 0;
    while (begin < tokens.size()) {
      const std::size_t size = 1 + random_below(tokens.size() - begin);
      const auto rows = append(*sequence, TokenSpan(tokens).subspan(begin, size));
      ASSERT_EQ(rows.size(), size);
      for (std::size_t i = 0; i < size; ++i) expect_equal(rows[i], oracle.logits[begin + i]);
      begin += size;
    }
    if (!runtime().limits().exact) continue;
    const auto cells = runtime().save(sequence->id(), 0, tokens.size());
    ASSERT_TRUE(cells);
    EXPECT_TRUE(*cells == oracle.cells) << "saved bytes differ";
  }
}

// Neighbours in the pass, their number and their order change nothing.
TEST_P(RuntimeConformance, AnyBatchInAnyOrderGivesTheSameBits) {
  const TokenVector prefix = random_prompt(GetParam().prompt_tokens / 2);
  const auto base = Sequence::create(runtime());
  append(*base, prefix);
  for (const std::size_t count : {1, 2, 7}) {
    std::vector<Sequence> forks;
    std::vector<TokenVector> suffixes;
    std::vector<Step> steps;
    const std::uint32_t last[] = {0, 1, 2, 3};
    for (std::size_t i = 0; i < count; ++i) {
      forks.push_back(Sequence::fork(runtime(), base->id(), prefix.size()).value());
      suffixes.push_back(random_prompt(1 + random_below(4)));
    }
    for (std::size_t i = 0; i < count; ++i) {
      steps.push_back(
          {forks[i].id(), suffixes[i], std::span(last).subspan(suffixes[i].size() - 1, 1)});
    }
    std::ranges::shuffle(steps, random());
    const auto logits = runtime().evaluate(steps);
    ASSERT_TRUE(logits) << logits.error().message;
    const std::vector<float> values(logits->values.begin(), logits->values.end());
    for (std::size_t i = 0; i < count; ++i) {
      TokenVector tokens = prefix;
      tokens.insert(tokens.end(), steps[i].tokens.begin(), steps[i].tokens.end());
      const std::size_t vocabulary = runtime().limits().vocabulary;
      expect_equal(std::span(values).subspan(i * vocabulary, vocabulary),
                   whole(tokens).logits.back());
    }
  }
}

TEST_P(RuntimeConformance, SavedCellsRestoreInPieces) {
  const TokenVector tokens = random_prompt(GetParam().prompt_tokens);
  std::vector<std::vector<std::byte>> pieces;
  {
    const auto source = Sequence::create(runtime());
    append(*source, tokens);
    for (const auto& [begin, end] : {std::pair{0U, 5U}, std::pair{5U, 6U}, std::pair{6U, 6U}}) {
      pieces.push_back(runtime().save(source->id(), begin, end).value());
    }
    pieces.push_back(runtime().save(source->id(), 6, tokens.size()).value());
  }
  const auto target = Sequence::create(runtime());
  for (const auto& bytes : pieces) {
    const auto restored = runtime().restore(target->id(), bytes);
    ASSERT_TRUE(restored) << restored.error().message;
  }
  expect_continues(*target, tokens);
}

TEST_P(RuntimeConformance, AThousandSequencesLoseNoCell) {
  const std::size_t before = runtime().cells_free();
  const auto base = Sequence::create(runtime());
  append(*base, random_prompt(GetParam().prompt_tokens));
  const std::size_t with_base = runtime().cells_free();
  for (std::size_t i = 0; i < 1000; ++i) {
    const auto fork = Sequence::fork(runtime(), base->id(), random_below(base->length() + 1));
    ASSERT_TRUE(fork) << fork.error().message;
    ASSERT_TRUE(runtime().truncate(fork->id(), fork->length() / 2));
    if (i % 100 == 0) append(*fork, random_prompt(2));
  }
  EXPECT_EQ(runtime().cells_free(), with_base);
  EXPECT_LE(with_base, before - base->length());
}

TEST_P(RuntimeConformance, ARandomWalkEqualsTheWholePrompt) {
  RecordProperty("seed", std::to_string(GetParam().seed));
  Walk walk(*this);
  for (std::size_t i = 0; i < GetParam().operations && !HasFailure(); ++i) {
    walk.step();
    if (i % 64 == 63) walk.check_cells();
  }
  walk.check_cells();
}

}  // namespace incipit::test
