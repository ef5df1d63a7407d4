// SPDX-License-Identifier: Apache-2.0
#include "integration/law_scenario.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <sstream>
#include <utility>

#include "support/must.h"
#include "support/real_runtime.h"

namespace incipit::test {
namespace {

using model::Sequence;
using model::Step;

struct Grown {
  Sequence sequence;
  TokenVector target;
  std::map<std::size_t, std::vector<float>> seen;  // Logits by position.
};

std::size_t pick(std::mt19937_64& random, std::size_t bound) {
  return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random);
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

float distance(std::span<const float> a, std::span<const float> b) {
  float most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

class Growth {
 public:
  Growth(const Scenario& scenario, model::Runtime& subject)
      : scenario_(scenario), subject_(subject), random_(scenario.seed) {
    const std::size_t vocabulary = subject.limits().vocabulary;
    const TokenVector shared =
        random_tokens(scenario.shared_tokens, scenario.seed * 77, vocabulary);
    const Sequence base = must(Sequence::create(subject));
    if (!shared.empty()) {
      const Step step{.sequence = base.id(), .tokens = shared, .logits_rows = {}};
      must(subject.evaluate({&step, 1}));
    }
    for (std::size_t i = 0; i < scenario.sequences; ++i) {
      const std::size_t own =
          scenario.tokens_min + pick(random_, scenario.tokens_max - scenario.tokens_min + 1);
      TokenVector target = shared;
      const TokenVector tail = random_tokens(own, random_(), vocabulary);
      target.insert(target.end(), tail.begin(), tail.end());
      grown_.push_back({.sequence = must(Sequence::fork(subject, base.id(), shared.size())),
                        .target = std::move(target),
                        .seen = {}});
    }
  }

  std::vector<Grown>& run() {
    while (std::ranges::any_of(grown_, [](const Grown& g) { return !is_done(g); })) {
      pass();
      if (scenario_.disturb && pick(random_, 4) == 0) disturb();
    }
    return grown_;
  }

 private:
  static bool is_done(const Grown& g) { return g.sequence.length() == g.target.size(); }

  std::vector<std::uint32_t> rows_of_piece(std::size_t size) {
    std::vector<std::uint32_t> rows;
    const std::size_t most = std::min(scenario_.rows_watched, size);
    for (std::size_t i = pick(random_, most + 1); i > 0; --i) {
      rows.push_back(static_cast<std::uint32_t>(pick(random_, size)));
    }
    std::ranges::sort(rows);
    const auto repeated = std::ranges::unique(rows);
    rows.erase(repeated.begin(), repeated.end());
    return rows;
  }

  void pass() {
    std::vector<std::size_t> members;
    for (std::size_t i = 0; i < grown_.size(); ++i) {
      if (!is_done(grown_[i]) && (pick(random_, 3) != 0 || members.empty())) members.push_back(i);
    }
    std::ranges::shuffle(members, random_);
    std::vector<std::vector<std::uint32_t>> rows;
    std::vector<Step> steps;
    for (const std::size_t i : members) {
      const Grown& g = grown_[i];
      const std::size_t wanted = scenario_.pieces[pick(random_, scenario_.pieces.size())];
      const std::size_t size = std::min(wanted, g.target.size() - g.sequence.length());
      rows.push_back(rows_of_piece(size));
      steps.push_back({.sequence = g.sequence.id(),
                       .tokens = TokenSpan(g.target).subspan(g.sequence.length(), size),
                       .logits_rows = {}});
    }
    for (std::size_t s = 0; s < steps.size(); ++s) steps[s].logits_rows = rows[s];
    const auto logits = must(subject_.evaluate(steps));
    std::size_t next = 0;
    for (std::size_t s = 0; s < steps.size(); ++s) {
      Grown& g = grown_[members[s]];
      const std::size_t begin = g.sequence.length() - steps[s].tokens.size();
      for (const std::uint32_t row : rows[s]) {
        const auto values = logits.row(next++);
        g.seen[begin + row].assign(values.begin(), values.end());
      }
    }
  }

  void disturb() {
    Grown& g = grown_[pick(random_, grown_.size())];
    const std::size_t length = g.sequence.length();
    const std::size_t kept = length - pick(random_, std::min<std::size_t>(length, 40) + 1);
    switch (pick(random_, 3)) {
      case 0:  // Goes on as a fork of itself.
        g.sequence = must(Sequence::fork(subject_, g.sequence.id(), kept));
        break;
      case 1:
        must(subject_.truncate(g.sequence.id(), kept));
        break;
      default: {
        const auto bytes = must(subject_.save(g.sequence.id(), kept, length));
        must(subject_.truncate(g.sequence.id(), kept));
        must(subject_.restore(g.sequence.id(), bytes));
      }
    }
  }

  const Scenario& scenario_;
  model::Runtime& subject_;
  std::mt19937_64 random_;
  std::vector<Grown> grown_;
};

std::vector<Mode> modes(bool with_int8) {
  std::vector<Mode> all{{"f32", Precision::kF32, KvType::kF32}};
  if (with_int8) all.push_back({"f32_int8", Precision::kF32, KvType::kInt8});
  if (!has_bf16()) return all;
  all.push_back({"bf16", Precision::kBf16, KvType::kBf16});
  if (with_int8) all.push_back({"bf16_int8", Precision::kBf16, KvType::kInt8});
  return all;
}

}  // namespace

void PrintTo(const Mode& mode, std::ostream* out) { *out << mode.name; }

std::vector<Mode> float_modes() { return modes(false); }
std::vector<Mode> all_modes() { return modes(true); }

TokenVector random_tokens(std::size_t count, std::uint64_t seed, std::size_t vocabulary) {
  std::mt19937_64 random(seed);
  TokenVector tokens(count);
  for (Token& token : tokens) token = static_cast<Token>(pick(random, vocabulary));
  return tokens;
}

std::vector<std::byte> saved_payload(const model::Runtime& runtime, model::SequenceId sequence) {
  const std::size_t length = runtime.length(sequence);
  const auto framed = must(runtime.save(sequence, 0, length));
  const std::size_t payload = length * runtime.limits().cell_bytes;
  return {framed.end() - static_cast<std::ptrdiff_t>(payload), framed.end()};
}

WholePrompt evaluate_whole(model::Runtime& runtime, TokenSpan tokens,
                           const std::vector<std::uint32_t>& rows) {
  const Sequence sequence = must(Sequence::create(runtime));
  const Step step{.sequence = sequence.id(), .tokens = tokens, .logits_rows = rows};
  const auto logits = must(runtime.evaluate({&step, 1}));
  WholePrompt whole{.logits = {logits.values.begin(), logits.values.end()}, .payload = {}};
  whole.payload = saved_payload(runtime, sequence.id());
  return whole;
}

std::string run_scenario(const Scenario& scenario, model::Runtime& subject,
                         model::Runtime& oracle) {
  Growth growth(scenario, subject);
  const std::size_t vocabulary = subject.limits().vocabulary;
  std::ostringstream found;
  for (const Grown& g : growth.run()) {
    std::vector<std::uint32_t> rows;
    for (const auto& [position, values] : g.seen)
      rows.push_back(static_cast<std::uint32_t>(position));
    const WholePrompt whole = evaluate_whole(oracle, g.target, rows);
    std::size_t next = 0;
    for (const auto& [position, values] : g.seen) {
      const auto want = std::span(whole.logits).subspan(next++ * vocabulary, vocabulary);
      if (!same_bits(values, want)) {
        found << "logits at " << position << " of " << g.target.size() << " differ by "
              << distance(values, want) << "; ";
      }
    }
    if (saved_payload(subject, g.sequence.id()) != whole.payload) {
      found << "cells of a sequence of " << g.target.size() << " differ; ";
    }
  }
  return found.str().empty() ? "" : "seed " + std::to_string(scenario.seed) + ": " + found.str();
}

}  // namespace incipit::test
