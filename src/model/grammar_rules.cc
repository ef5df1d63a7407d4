// SPDX-License-Identifier: Apache-2.0
#include "model/grammar_rules.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

#include "base/utf8.h"
#include "model/grammar_scanner.h"

namespace incipit::model {
namespace {

constexpr std::size_t kNestingMax = 200;  // The parser recurses for each.
constexpr std::size_t kItemsMax = 1U << 17U;
// libllama's bound, for numbers and for the rules that a repetition makes.
constexpr std::uint64_t kRepetitionsMax = 2000;
constexpr std::size_t kTokenBytesMax = 256;

struct Repetition {
  std::uint64_t least = 0;
  std::optional<std::uint64_t> most;
};

// Recursive descent; every step takes what the one of libllama takes, and makes the same rules.
class GrammarParser : GrammarScanner {
 public:
  GrammarParser(std::string_view text, const Tokenizer& tokenizer)
      : GrammarScanner(text), tokenizer_(tokenizer) {}

  Result<GrammarRules> parse() {
    for (std::size_t at = 0; at < text_.size();) {
      const Utf8Step step = utf8_step(text_.substr(at));
      if (!step.valid) return fail(at, "a byte that is no UTF-8: write the grammar in UTF-8");
      if (text_[at] == '\0') return fail(at, "a NUL byte: remove it");
      at += step.bytes;
    }
    skip_space(true);
    while (position_ < text_.size()) INCIPIT_TRY_VOID(read_rule());
    return finish();
  }

 private:
  // What one sequence knows of its last item, which a repetition repeats.
  struct Sequence {
    GrammarSequence items;
    std::size_t last = 0;            // Where the last item begins; the end: there is none.
    std::uint64_t rules_before = 1;  // That a repetition of it repeats.
  };

  std::uint32_t new_rule() {
    ++symbols_;
    result_.rules.emplace_back();
    return static_cast<std::uint32_t>(result_.rules.size() - 1);
  }

  std::uint32_t named_rule(std::string_view name, std::size_t at) {
    const auto [found, is_new] = names_.try_emplace(std::string(name), Name{0, at});
    if (is_new) found->second.rule = new_rule();
    return found->second.rule;
  }

  // What is put into the rules in all.
  Result<void> count(std::size_t items) {
    items_ += items;
    if (items_ <= kItemsMax) return {};
    return fail(position_,
                "the grammar is too large once its repetitions are written out; repeat "
                "less, or shorter things");
  }

  Result<void> define(std::uint32_t rule, std::vector<GrammarSequence> alternatives) {
    result_.rules[rule].name = current_;
    result_.rules[rule].offset = current_offset_;
    result_.rules[rule].alternatives = std::move(alternatives);
    return count(2);
  }

  Result<void> read_rule() {
    const std::size_t begin = position_;
    while (is_word(peek())) ++position_;
    if (position_ == begin)
      return fail(begin, "a rule must begin here: NAME ::= ..., with letters, digits and -");
    current_ = std::string(text_.substr(begin, position_ - begin));
    current_offset_ = begin;
    const std::uint32_t rule = named_rule(current_, begin);
    if (!result_.rules[rule].name.empty())
      return fail(begin, "the rule " + current_ + " is defined twice; join both with |");
    skip_space(false);
    if (text_.substr(position_, 3) != "::=")
      return fail(position_, "::= must follow the name of the rule " + current_);
    position_ += 3;
    skip_space(true);
    INCIPIT_TRY(auto alternatives, read_alternatives(0));
    INCIPIT_TRY_VOID(define(rule, std::move(alternatives)));
    const char c = peek();
    if (c != '\0' && c != '\n' && c != '\r')
      return fail(position_, "a rule goes on with an item, |, or the end of the line");
    skip_space(true);
    return {};
  }

  Result<std::vector<GrammarSequence>> read_alternatives(std::size_t depth) {
    std::vector<GrammarSequence> alternatives;
    for (;;) {
      INCIPIT_TRY(auto items, read_sequence(depth));
      alternatives.push_back(std::move(items));
      if (peek() != '|') return alternatives;
      step(true);
    }
  }

  Result<GrammarSequence> read_sequence(std::size_t depth) {
    Sequence sequence;
    const bool nested = depth > 0;
    for (;;) {
      const char c = peek();
      if (c == '*' || c == '+' || c == '?' || c == '{') {
        const std::size_t at = position_;
        INCIPIT_TRY(const Repetition repetition, read_repetition(nested));
        INCIPIT_TRY_VOID(repeat(sequence, repetition, at));
        continue;
      }
      if (c != '"' && c != '[' && c != '<' && c != '!' && c != '(' && c != '.' && !is_word(c))
        return std::move(sequence.items);
      sequence.last = sequence.items.size();
      sequence.rules_before = 1;
      INCIPIT_TRY_VOID(read_item(sequence, depth));
      skip_space(nested);
    }
  }

  Result<void> read_item(Sequence& sequence, std::size_t depth) {
    switch (peek()) {
      case '"':
        return read_literal(sequence);
      case '[':
        return read_class(sequence);
      case '<':
      case '!':
        return read_token(sequence);
      case '(':
        return read_group(sequence, depth);
      case '.':
        ++position_;
        add_class(sequence, {.is_negated = true, .ranges = {}}, 1);
        return count(1);
      default:
        const std::size_t begin = position_;
        while (is_word(peek())) ++position_;
        const std::uint32_t rule = named_rule(text_.substr(begin, position_ - begin), begin);
        sequence.items.push_back({.kind = GrammarItem::Kind::kRule, .value = rule});
        return count(1);
    }
  }

  void add_class(Sequence& sequence, GrammarClass characters, std::uint32_t elements) {
    sequence.items.push_back({.kind = GrammarItem::Kind::kClass,
                              .value = static_cast<std::uint32_t>(result_.classes.size()),
                              .elements = elements});
    result_.classes.push_back(std::move(characters));
  }

  Result<void> read_literal(Sequence& sequence) {
    const std::size_t begin = position_++;
    while (peek() != '"') {
      if (position_ >= text_.size()) return fail(begin, "this literal has no closing \"");
      INCIPIT_TRY(const std::uint32_t character, read_character());
      sequence.items.push_back({.kind = GrammarItem::Kind::kCharacter, .value = character});
      INCIPIT_TRY_VOID(count(1));
    }
    ++position_;
    return {};
  }

  Result<void> read_class(Sequence& sequence) {
    const std::size_t begin = position_++;
    GrammarClass characters{.is_negated = peek() == '^', .ranges = {}};
    if (characters.is_negated) ++position_;
    std::uint32_t elements = 0;  // libllama's count: an end of a range is one more.
    while (peek() != ']') {
      if (position_ >= text_.size()) return fail(begin, "this class has no closing ]");
      const std::size_t at = position_;
      INCIPIT_TRY(const std::uint32_t from, read_character());
      characters.ranges.emplace_back(from, from);
      ++elements;
      if (peek() != '-' || peek(1) == ']') continue;
      ++position_;
      if (position_ >= text_.size()) return fail(begin, "this class has no closing ]");
      INCIPIT_TRY(const std::uint32_t to, read_character());
      characters.ranges.back().second = to;
      ++elements;
      if (to < from) return fail(at, "this range runs backwards; exchange its ends");
    }
    ++position_;
    if (elements == 0) return fail(begin, "an empty class; name its characters, or write .");
    add_class(sequence, std::move(characters), elements);
    return count(elements);
  }

  // <[123]>, <|im_end|>, and each with a ! before it.
  Result<void> read_token(Sequence& sequence) {
    const auto kind = peek() == '!' ? GrammarItem::Kind::kOtherToken : GrammarItem::Kind::kToken;
    if (peek() == '!') ++position_;
    const std::size_t begin = position_;
    if (peek() != '<') return fail(begin, "a token must follow !, as in !<[123]>");
    const std::size_t end = text_.find('>', begin);
    if (end == std::string_view::npos || end - begin >= kTokenBytesMax)
      return fail(begin, "this token has no closing >");
    const std::string_view surface = text_.substr(begin, end + 1 - begin);
    position_ = end + 1;
    if (surface[1] == '[') {
      std::uint32_t id = 0;
      const std::string_view number =
          surface.substr(2, surface.size() < 5 ? 0 : surface.size() - 4);
      const auto read = std::from_chars(number.data(), number.data() + number.size(), id);
      if (!surface.ends_with("]>") || read.ptr != number.data() + number.size() ||
          read.ec != std::errc{} || id >= tokenizer_.vocabulary())
        return fail(begin, "<[N]> needs the number of a token of this vocabulary");
      sequence.items.push_back({.kind = kind, .value = id});
      return count(1);
    }
    const auto tokens = tokenizer_.encode_whole(surface);
    if (!tokens || tokens->size() != 1)
      return fail(begin, std::string(surface) + " is no single token of this vocabulary");
    sequence.items.push_back({.kind = kind, .value = static_cast<std::uint32_t>(tokens->front())});
    return count(1);
  }

  Result<void> read_group(Sequence& sequence, std::size_t depth) {
    const std::size_t begin = position_;
    if (depth >= kNestingMax)
      return fail(begin, "parentheses nest too deeply; give the inner ones rules of their own");
    step(true);
    const std::size_t symbols = symbols_;
    const std::uint32_t rule = new_rule();
    INCIPIT_TRY(auto alternatives, read_alternatives(depth + 1));
    if (peek() != ')') return fail(begin, "this parenthesis has no closing )");
    ++position_;
    INCIPIT_TRY_VOID(define(rule, std::move(alternatives)));
    sequence.rules_before = symbols_ - symbols;
    sequence.items.push_back({.kind = GrammarItem::Kind::kRule, .value = rule});
    return count(1);
  }

  Result<std::uint64_t> read_times(bool nested) {
    const std::size_t begin = position_;
    while (is_digit(peek())) ++position_;
    std::uint64_t value = 0;
    const auto read = std::from_chars(text_.data() + begin, text_.data() + position_, value);
    if (position_ == begin) return fail(begin, "a number of repetitions must stand here");
    if (read.ec != std::errc{} || value >= kRepetitionsMax)
      return fail(begin, "repetitions must stay below " + std::to_string(kRepetitionsMax));
    skip_space(nested);
    return value;
  }

  Result<Repetition> read_repetition(bool nested) {
    const std::size_t begin = position_;
    const char sign = peek();
    step(nested);
    if (sign == '*') return Repetition{0, {}};
    if (sign == '+') return Repetition{1, {}};
    if (sign == '?') return Repetition{0, 1};
    Repetition repetition;
    INCIPIT_TRY(repetition.least, read_times(nested));
    if (peek() == ',') {
      step(nested);
      if (is_digit(peek())) {
        INCIPIT_TRY(repetition.most, read_times(nested));
      }
    } else {
      repetition.most = repetition.least;
    }
    if (peek() != '}') return fail(position_, "a repetition is {M}, {M,} or {M,N}");
    step(nested);
    if (repetition.most && *repetition.most < repetition.least)
      return fail(begin, "{M,N} needs M <= N; exchange the numbers");
    return repetition;
  }

  // libllama's rewriting: S{m,n} is S m times, then n-m rules S'(k) ::= S S'(k-1) | nothing, and
  // S{m,} is S m times, then S' ::= S S' | nothing.
  Result<void> repeat(Sequence& sequence, const Repetition& repetition, std::size_t at) {
    const std::size_t last = sequence.last;
    if (last == sequence.items.size()) return fail(at, "there is nothing before this to repeat");
    const std::uint64_t most = repetition.most.value_or(0);
    const std::uint64_t times = std::max<std::uint64_t>({1, most != 0 ? most : repetition.least});
    if (sequence.rules_before * times >= kRepetitionsMax)
      return fail(at, "repetitions in repetitions must stay below " +
                          std::to_string(kRepetitionsMax) + " in all; repeat less");
    const GrammarSequence repeated(sequence.items.begin() + static_cast<std::ptrdiff_t>(last),
                                   sequence.items.end());
    const std::uint64_t chain = repetition.most ? most - repetition.least : 1;
    const std::uint64_t copies = std::max<std::uint64_t>(repetition.least, 1) - 1;
    std::size_t elements = 0;
    for (const GrammarItem& item : repeated) elements += item.elements;
    INCIPIT_TRY_VOID(count(elements * copies + (elements + 2) * chain));
    if (repetition.least == 0) sequence.items.resize(last);
    for (std::uint64_t i = 0; i < copies; ++i)
      sequence.items.insert(sequence.items.end(), repeated.begin(), repeated.end());
    std::uint32_t previous = 0;
    for (std::uint64_t i = 0; i < chain; ++i) {
      const std::uint32_t rule = new_rule();
      GrammarSequence once = repeated;
      if (!repetition.most) once.push_back({.kind = GrammarItem::Kind::kRule, .value = rule});
      if (repetition.most && i > 0)
        once.push_back({.kind = GrammarItem::Kind::kRule, .value = previous});
      INCIPIT_TRY_VOID(define(rule, {std::move(once), {}}));
      previous = rule;
    }
    if (chain > 0) sequence.items.push_back({.kind = GrammarItem::Kind::kRule, .value = previous});
    sequence.rules_before *= times;
    return {};
  }

  Result<GrammarRules> finish() {
    for (const auto& [name, use] : names_) {
      if (result_.rules[use.rule].name.empty())
        return fail(use.offset, "the rule " + name + " is not defined; define it or mend the name");
    }
    const auto root = names_.find("root");
    if (root == names_.end())
      return fail(0, "there is no rule root, which says what a whole answer is; add root ::= ...");
    result_.root = root->second.rule;
    return std::move(result_);
  }

  struct Name {
    std::uint32_t rule = 0;
    std::size_t offset = 0;  // Of its first use.
  };

  const Tokenizer& tokenizer_;
  std::size_t items_ = 0;
  std::size_t symbols_ = 0;
  std::string current_;  // The rule that is being read.
  std::size_t current_offset_ = 0;
  std::map<std::string, Name> names_;
  GrammarRules result_;
};

}  // namespace

Result<GrammarRules> parse_grammar(std::string_view text, const Tokenizer& tokenizer) {
  return GrammarParser(text, tokenizer).parse();
}

}  // namespace incipit::model
