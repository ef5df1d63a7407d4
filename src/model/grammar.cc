// SPDX-License-Identifier: Apache-2.0
#include "model/grammar.h"

#include <algorithm>

#include "model/grammar_check.h"

namespace incipit::model {
namespace {

// Places visited for one token of an answer: a second at the most, where a usual one costs a
// thousand.
constexpr std::uint64_t kWorkMax = std::uint64_t{1} << 24U;

constexpr std::size_t kTidyAfter = 4096;  // Stacks.

constexpr std::uint32_t kCharacterMax = 0x10FFFF;
constexpr std::uint32_t kSurrogates = 0xD800;
constexpr std::uint32_t kBehindSurrogates = 0xE000;

bool is_character(std::uint32_t value, std::uint32_t least) {
  return value >= least && value <= kCharacterMax &&
         (value < kSurrogates || value >= kBehindSurrogates);
}

}  // namespace

Grammar::Grammar(const Tokenizer& tokenizer, const GrammarRules& rules)
    : tokenizer_(tokenizer), machine_(rules), readings_(machine_.start()) {}

Result<std::unique_ptr<Grammar>> Grammar::create(const Tokenizer& tokenizer,
                                                 std::string_view text) {
  INCIPIT_TRY(const GrammarRules rules, check_grammar(text, tokenizer));
  return std::unique_ptr<Grammar>(new Grammar(tokenizer, rules));
}

bool Grammar::is_whole() const {
  return partial_.missing == 0 && std::ranges::find(readings_, 0U) != readings_.end();
}

bool Grammar::is_exhausted() const { return machine_.work() - work_before_ > kWorkMax; }

bool Grammar::allows(Token token) {
  if (tokenizer_.ends_generation(token)) return is_whole();
  const bool is_over = readings_.size() == 1 && readings_.front() == 0;
  if (is_over || is_exhausted()) return false;
  const std::size_t mark = machine_.mark();
  const bool is_allowed = read(token);
  machine_.forget(mark);
  return is_allowed;
}

void Grammar::accept(Token token) {
  if (tokenizer_.ends_generation(token) || !read(token)) return;  // Nothing follows the end.
  readings_.swap(next_);
  partial_ = next_partial_;
  work_before_ = machine_.work();
  if (machine_.mark() > tidy_at_) {
    machine_.keep_only(readings_);
    tidy_at_ = 2 * machine_.mark() + kTidyAfter;
  }
}

std::optional<Token> Grammar::end() {
  if (!is_whole()) return std::nullopt;
  for (const auto& token : {tokenizer_.end_of_turn(), tokenizer_.eos()}) {
    if (token && tokenizer_.ends_generation(*token)) return token;
  }
  return std::nullopt;
}

bool Grammar::read(Token token) {
  const std::string bytes = tokenizer_.piece(token);
  if (bytes.empty() || bytes.contains('\0')) return false;
  const bool as_text = read_bytes(bytes);
  if (partial_.missing > 0 || (as_text && next_partial_.missing > 0)) return as_text;
  machine_.after_token(readings_, static_cast<std::uint32_t>(token), room_);
  if (!as_text) next_.clear();
  if (!as_text) next_partial_ = {};
  for (const std::uint32_t reading : room_) {
    if (std::ranges::find(next_, reading) == next_.end()) next_.push_back(reading);
  }
  return !next_.empty();
}

bool Grammar::read_bytes(std::string_view bytes) {
  next_ = readings_;
  next_partial_ = partial_;
  PartialCharacter& partial = next_partial_;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (partial.missing > 0) {
      if ((byte & 0xC0U) != 0x80U) return false;
      partial.value = (partial.value << 6U) | (byte & 0x3FU);
      --partial.missing;
    } else if (byte < 0x80U) {
      partial = {.value = byte};
    } else if (byte >= 0xF0U) {
      if (byte > 0xF4U) return false;
      partial = {.value = byte & 0x07U, .least = 0x10000, .missing = 3};
    } else if (byte >= 0xE0U) {
      partial = {.value = byte & 0x0FU, .least = 0x800, .missing = 2};
    } else if (byte >= 0xC2U) {
      partial = {.value = byte & 0x1FU, .least = 0x80, .missing = 1};
    } else {
      return false;
    }
    if (partial.missing > 0) continue;
    if (!is_character(partial.value, partial.least)) return false;
    machine_.after_character(next_, partial.value, room_);
    next_.swap(room_);
    if (next_.empty()) return false;
  }
  if (partial.missing == 0) return true;
  const unsigned bits = 6 * partial.missing;
  const std::uint32_t first = std::max(partial.value << bits, partial.least);
  const std::uint32_t last = std::min((partial.value << bits) | ((1U << bits) - 1), kCharacterMax);
  return first <= last && machine_.takes_any(next_, first, last);
}

}  // namespace incipit::model
