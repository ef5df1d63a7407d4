// SPDX-License-Identifier: Apache-2.0
#include "model/grammar_check.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace incipit::model {
namespace {

constexpr std::uint64_t kBeginningsMax = 2048;  // Of one rule.
constexpr std::uint64_t kBeginningsSumMax = std::uint64_t{1} << 22U;
constexpr std::size_t kChainMax = 1000;  // libllama would recurse along it.

class GrammarChecker {
 public:
  GrammarChecker(std::string_view text, const GrammarRules& grammar)
      : text_(text), rules_(grammar.rules) {}

  Result<void> check() {
    find_empty_rules();
    facts_.resize(rules_.size());
    std::uint64_t sum = 0;
    for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
      INCIPIT_TRY_VOID(follow(rule));
      sum += facts_[rule].beginnings;
      if (sum > kBeginningsSumMax) return fail(rule, "has too many ways to begin with the others");
    }
    return {};
  }

 private:
  enum class Visit : std::uint8_t { kNone, kOpen, kDone };
  struct Facts {
    std::vector<std::uint32_t> leading;  // Rules that it may begin with, as often as it may.
    std::uint64_t beginnings = 0;
    std::size_t chain = 0;
    Visit visit = Visit::kNone;
  };
  struct Frame {
    std::size_t rule = 0;
    std::size_t next = 0;  // In `leading`.
  };

  [[nodiscard]] std::unexpected<Error> fail(std::size_t rule, const std::string& what) const {
    return grammar_failure(text_, rules_[rule].offset,
                           "the rule " + rules_[rule].name + " " + what);
  }

  // A rule may be empty if an alternative has only rules that may be. Each alternative counts the
  // items that it still waits for, so that the whole costs one look at each.
  void find_empty_rules() {
    struct Waiting {
      std::size_t rule = 0;
      std::size_t items = 0;
    };
    std::vector<Waiting> waiting;
    std::vector<std::vector<std::size_t>> waiters(rules_.size());
    std::vector<std::size_t> empty;
    may_be_empty_.assign(rules_.size(), false);
    const auto found = [&](std::size_t rule) {
      if (!may_be_empty_[rule]) empty.push_back(rule);
      may_be_empty_[rule] = true;
    };
    for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
      for (const GrammarSequence& items : rules_[rule].alternatives) {
        if (items.empty()) found(rule);
        if (std::ranges::any_of(items, [](const GrammarItem& item) {
              return item.kind != GrammarItem::Kind::kRule;
            }))
          continue;
        for (const GrammarItem& item : items) waiters[item.value].push_back(waiting.size());
        waiting.push_back({rule, items.size()});
      }
    }
    while (!empty.empty()) {
      const std::size_t rule = empty.back();
      empty.pop_back();
      for (const std::size_t index : waiters[rule])
        if (--waiting[index].items == 0) found(waiting[index].rule);
    }
  }

  void list_leading(std::size_t rule) {
    Facts& facts = facts_[rule];
    for (const GrammarSequence& items : rules_[rule].alternatives) {
      ++facts.beginnings;
      for (const GrammarItem& item : items) {
        if (item.kind != GrammarItem::Kind::kRule) break;
        facts.leading.push_back(item.value);
        if (!may_be_empty_[item.value]) break;
      }
    }
  }

  // Depth first along the rules that a rule may begin with; without recursion of our own.
  Result<void> follow(std::size_t start) {
    if (facts_[start].visit == Visit::kDone) return {};
    std::vector<Frame> path{{start, 0}};
    while (!path.empty()) {
      Frame& frame = path.back();
      Facts& facts = facts_[frame.rule];
      if (facts.visit == Visit::kNone) {
        facts.visit = Visit::kOpen;
        list_leading(frame.rule);
      }
      if (frame.next == facts.leading.size()) {
        INCIPIT_TRY_VOID(sum_up(frame.rule));
        path.pop_back();
        continue;
      }
      const std::uint32_t next = facts.leading[frame.next++];
      if (facts_[next].visit == Visit::kOpen)
        return fail(next,
                    "begins with itself; let something stand before it, or repeat with * "
                    "what cannot be empty");
      if (facts_[next].visit == Visit::kNone) path.push_back({next, 0});
    }
    return {};
  }

  Result<void> sum_up(std::size_t rule) {
    Facts& facts = facts_[rule];
    for (const std::uint32_t next : facts.leading) {
      facts.beginnings += facts_[next].beginnings;
      facts.chain = std::max(facts.chain, facts_[next].chain + 1);
      if (facts.beginnings > kBeginningsMax)
        return fail(rule, "has more than " + std::to_string(kBeginningsMax) +
                              " ways to begin; let it begin with fewer rules, or with a literal");
    }
    if (facts.beginnings > kBeginningsMax)
      return fail(rule, "has more than " + std::to_string(kBeginningsMax) + " alternatives");
    if (facts.chain > kChainMax)
      return fail(rule, "begins with a chain of too many rules; make it shorter");
    facts.visit = Visit::kDone;
    return {};
  }

  std::string_view text_;  // The caller's, for the length of check().
  const std::vector<GrammarRule>& rules_;
  std::vector<bool> may_be_empty_;
  std::vector<Facts> facts_;
};

}  // namespace

Result<GrammarRules> check_grammar(std::string_view text, const Tokenizer& tokenizer) {
  INCIPIT_TRY(GrammarRules rules, parse_grammar(text, tokenizer));
  INCIPIT_TRY_VOID(GrammarChecker(text, rules).check());
  return rules;
}

}  // namespace incipit::model
