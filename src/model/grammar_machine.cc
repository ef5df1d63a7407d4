// SPDX-License-Identifier: Apache-2.0
#include "model/grammar_machine.h"

#include <algorithm>
#include <utility>

namespace incipit::model {
namespace {

using Kind = GrammarItem::Kind;

constexpr std::uint64_t kVisitsMax = 1U << 16U;  // Of one step.
constexpr std::size_t kStacksMax = 1U << 19U;    // 40 MB.

std::uint64_t key_of(std::uint32_t place, std::uint32_t below) {
  return (std::uint64_t{place} << 32U) | below;
}

}  // namespace

GrammarMachine::GrammarMachine(const GrammarRules& grammar)
    : starts_(grammar.rules.size()),
      classes_(grammar.classes),
      root_(static_cast<std::uint32_t>(grammar.root)),
      stacks_(1) {
  for (std::size_t rule = 0; rule < grammar.rules.size(); ++rule) {
    for (const GrammarSequence& items : grammar.rules[rule].alternatives) {
      starts_[rule].push_back(static_cast<std::uint32_t>(places_.size()));
      for (const GrammarItem& item : items) places_.push_back({.item = item});
      places_.push_back({.item = {}, .is_end = true});
    }
  }
}

bool GrammarMachine::takes(const GrammarItem& item, std::uint32_t first, std::uint32_t last) const {
  if (item.kind == Kind::kCharacter) return first <= item.value && item.value <= last;
  if (item.kind != Kind::kClass) return false;
  const GrammarClass& characters = classes_[item.value];
  if (first == last) {
    const bool is_listed = std::ranges::any_of(characters.ranges, [&](const auto& range) {
      return range.first <= first && first <= range.second;
    });
    return is_listed != characters.is_negated;
  }
  const auto covers = [&](const auto& range) {
    return range.first <= first && last <= range.second;
  };
  const auto meets = [&](const auto& range) {
    return range.first <= last && first <= range.second;
  };
  // A negated class may leave nothing of the range only if one of its own covers it, or several
  // together; the latter is found out with the next byte.
  return characters.is_negated ? std::ranges::none_of(characters.ranges, covers)
                               : std::ranges::any_of(characters.ranges, meets);
}

const GrammarItem& GrammarMachine::top(std::uint32_t stack) const {
  return places_[stacks_[stack].place].item;
}

std::uint32_t GrammarMachine::stack(std::uint32_t place, std::uint32_t below) {
  const auto [found, is_new] =
      known_.try_emplace(key_of(place, below), static_cast<std::uint32_t>(stacks_.size()));
  if (is_new) stacks_.push_back({.place = place, .below = below});
  return found->second;
}

void GrammarMachine::forget(std::size_t mark) {
  for (std::size_t i = mark; i < stacks_.size(); ++i)
    known_.erase(key_of(stacks_[i].place, stacks_[i].below));
  stacks_.resize(mark);
}

void GrammarMachine::keep_only(GrammarReadings& readings) {
  std::vector<bool> is_kept(stacks_.size(), false);
  is_kept[0] = true;
  for (std::uint32_t reading : readings) {
    for (; !is_kept[reading]; reading = stacks_[reading].below) is_kept[reading] = true;
  }
  std::vector<std::uint32_t> number(stacks_.size());
  std::vector<Stack> kept;
  known_.clear();
  // What lies below a stack was there before it.
  for (std::size_t i = 0; i < stacks_.size(); ++i) {
    if (!is_kept[i]) continue;
    number[i] = static_cast<std::uint32_t>(kept.size());
    Stack stack = stacks_[i];
    stack.below = number[stack.below];
    if (i > 0) known_.emplace(key_of(stack.place, stack.below), number[i]);
    kept.push_back(stack);
  }
  stacks_ = std::move(kept);
  for (std::uint32_t& reading : readings) reading = number[reading];
}

void GrammarMachine::begin_step(GrammarReadings& to) {
  ++step_;
  to.clear();
}

void GrammarMachine::visit(std::uint32_t stack) {
  if (stacks_[stack].visit == step_) return;
  stacks_[stack].visit = step_;
  to_follow_.push_back(stack);
}

void GrammarMachine::follow(GrammarReadings& to) {
  std::uint64_t visits = 0;
  while (!to_follow_.empty()) {
    const std::uint32_t current = to_follow_.back();
    to_follow_.pop_back();
    ++work_;
    if (++visits > kVisitsMax || to.size() > kReadingsMax || stacks_.size() > kStacksMax) {
      to_follow_.clear();
      to.clear();
      return;
    }
    if (current == 0) {
      to.push_back(0);
      continue;
    }
    const std::uint32_t below = stacks_[current].below;
    const std::uint32_t place = stacks_[current].place;
    if (places_[place].is_end) {
      visit(below);
    } else if (places_[place].item.kind == Kind::kRule) {
      // Where nothing follows the rule, its end is the end of this sequence as well.
      const std::uint32_t behind = places_[place + 1].is_end ? below : stack(place + 1, below);
      for (const std::uint32_t start : starts_[places_[place].item.value])
        visit(stack(start, behind));
    } else {
      to.push_back(current);
    }
  }
}

GrammarReadings GrammarMachine::start() {
  GrammarReadings readings;
  begin_step(readings);
  for (const std::uint32_t place : starts_[root_]) visit(stack(place, 0));
  follow(readings);
  return readings;
}

void GrammarMachine::after_character(const GrammarReadings& from, std::uint32_t character,
                                     GrammarReadings& to) {
  begin_step(to);
  work_ += from.size() / 64;
  for (const std::uint32_t reading : from) {
    if (reading != 0 && takes(top(reading), character, character))
      visit(stack(stacks_[reading].place + 1, stacks_[reading].below));
  }
  follow(to);
}

void GrammarMachine::after_token(const GrammarReadings& from, std::uint32_t token,
                                 GrammarReadings& to) {
  begin_step(to);
  for (const std::uint32_t reading : from) {
    if (reading == 0) continue;
    const GrammarItem& item = top(reading);
    if ((item.kind == Kind::kToken && item.value == token) ||
        (item.kind == Kind::kOtherToken && item.value != token))
      visit(stack(stacks_[reading].place + 1, stacks_[reading].below));
  }
  follow(to);
}

bool GrammarMachine::takes_any(const GrammarReadings& from, std::uint32_t first,
                               std::uint32_t last) const {
  return std::ranges::any_of(from, [&](std::uint32_t reading) {
    return reading != 0 && takes(top(reading), first, last);
  });
}

}  // namespace incipit::model
