// SPDX-License-Identifier: Apache-2.0
//
// The part of TaskPrompt that runs for every ticket.
#include <algorithm>
#include <utility>

#include "prompt/task_prompt.h"
#include "prompt/ticket_fit.h"

namespace incipit::prompt {
namespace {

// Splits prompts that begin alike into what they share, which is returned, and their own rests.
TokenVector split_shared(std::vector<TokenVector>& prompts) {
  std::size_t shared = prompts.front().size();
  for (const TokenVector& prompt : prompts) {
    shared = std::min(shared, common_length(prompts.front(), prompt));
  }
  TokenVector start(prompts.front().begin(),
                    prompts.front().begin() + static_cast<std::ptrdiff_t>(shared));
  for (TokenVector& prompt : prompts) {
    prompt.erase(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(shared));
  }
  return start;
}

EncodedText row_error(std::string_view error) {
  EncodedText result;
  result.error = error;
  return result;
}

void add_part(EncodedText& result, EncodedPart part) {
  result.facts.tokens += part.suffix.size();
  for (const TokenVector& question : part.questions) result.facts.tokens += question.size();
  result.facts.slow_path = result.facts.slow_path || part.slow_path;
  result.parts.push_back(std::move(part));
}

}  // namespace

// One ticket, or a part of one, as it would be evaluated.
struct TaskPrompt::Attempt {
  EncodedPart part;
  std::size_t markers = 0;
  bool forged_marker = false;
  std::size_t excess = 0;  // Tokens beyond the room.
};

Result<TaskPrompt::Attempt> TaskPrompt::attempt(std::string_view ticket) const {
  Attempt result;
  std::vector<TokenVector> prompts;
  std::vector<bool> slow;
  std::size_t longest = 0;
  for (const PromptFrame& frame : frames_) {
    INCIPIT_TRY(FrameTokens tokens, frame.encode(ticket, task_.special_text, text()));
    result.markers = std::max(result.markers, tokens.markers);
    result.forged_marker = result.forged_marker || tokens.forged_marker;
    const std::size_t shared = tokens.slow_path ? 0 : prefix().size();
    longest = std::max(longest, shared + tokens.suffix.size());
    slow.push_back(tokens.slow_path);
    prompts.push_back(std::move(tokens.suffix));
  }
  const std::size_t needed = longest + answer_tokens_max();
  result.excess = needed - std::min(needed, options_.tokens_max);

  // Questions share their suffix, so one that needs the slow path takes all with it.
  result.part.slow_path = std::ranges::find(slow, true) != slow.end();
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    if (result.part.slow_path && !slow[i]) {
      prompts[i].insert(prompts[i].begin(), prefix().begin(), prefix().end());
    }
  }
  if (prompts.size() == 1) {
    result.part.suffix = std::move(prompts.front());
  } else {
    result.part.suffix = split_shared(prompts);
    result.part.questions = std::move(prompts);
  }
  return result;
}

EncodedText TaskPrompt::encode(std::string_view ticket) const {
  TicketText prepared = prepare_ticket(ticket, task_);
  auto result = prepared.error.empty() ? encode_prepared(prepared.text) : row_error(prepared.error);
  if (!result) result = row_error(kTokeniserFailed);
  result->facts.utf8_replaced = prepared.utf8_replaced;
  return *std::move(result);
}

Result<EncodedText> TaskPrompt::encode_prepared(std::string_view ticket) const {
  // No token spells more bytes than the longest piece: a hopeless ticket costs no tokenising.
  const bool hopeless = ticket.size() / tokenizer_->piece_bytes_max() > options_.tokens_max;
  if (hopeless && task_.too_long == TooLongPolicy::kError) return row_error(kTooLong);

  INCIPIT_TRY(Attempt whole, attempt(ticket));
  const bool rejected = task_.special_text == SpecialTextPolicy::kReject && whole.markers > 0;
  if (rejected || whole.forged_marker) return row_error(kSpecialToken);
  EncodedText result;
  if (whole.excess == 0) {
    add_part(result, std::move(whole.part));
  } else if (task_.too_long == TooLongPolicy::kError) {
    return row_error(kTooLong);
  } else if (task_.too_long == TooLongPolicy::kShard) {
    INCIPIT_TRY(result, shard(ticket, whole.excess));
  } else {
    INCIPIT_TRY(result, shorten(ticket, whole.excess));
  }
  result.facts.neutralised = task_.special_text == SpecialTextPolicy::kAllow ? 0 : whole.markers;
  return result;
}

Result<EncodedText> TaskPrompt::shorten(std::string_view ticket, std::size_t excess) const {
  INCIPIT_TRY(const TicketTokens tokens, TicketTokens::open(ticket, *tokenizer_));
  std::size_t kept = tokens.count();
  while (excess > 0) {
    if (kept == 0) return row_error(kTooLong);
    kept -= std::min(kept, excess);
    INCIPIT_TRY(Attempt shorter, attempt(kept_part(tokens, kept, task_.too_long)));
    if (shorter.forged_marker) return row_error(kSpecialToken);
    excess = shorter.excess;
    if (excess > 0) continue;
    EncodedText result;
    result.facts.truncated_tokens = tokens.count() - kept;
    add_part(result, std::move(shorter.part));
    return result;
  }
  return row_error(kTooLong);
}

Result<EncodedText> TaskPrompt::shard(std::string_view ticket, std::size_t excess) const {
  INCIPIT_TRY(const TicketTokens tokens, TicketTokens::open(ticket, *tokenizer_));
  const std::size_t count = tokens.count();
  if (excess >= count) return row_error(kTooLong);
  const std::size_t room = count - excess;
  for (std::size_t shards = (count + room - 1) / room; shards <= count; ++shards) {
    EncodedText result;
    bool fits = true;
    for (std::size_t i = 0; fits && i < shards; ++i) {
      const std::size_t begin = count * i / shards;
      const std::size_t end = count * (i + 1) / shards;
      INCIPIT_TRY(Attempt part, attempt(tokens.part(begin, end)));
      if (part.forged_marker) return row_error(kSpecialToken);
      fits = part.excess == 0;
      part.part.weight = static_cast<double>(end - begin) / static_cast<double>(count);
      add_part(result, std::move(part.part));
    }
    if (fits) return result;
  }
  return row_error(kTooLong);
}

}  // namespace incipit::prompt
