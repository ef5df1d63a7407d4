// SPDX-License-Identifier: Apache-2.0
#include "prompt/ticket_fit.h"

#include <algorithm>

namespace incipit::prompt {
namespace {

constexpr std::string_view kOmission = "\n...\n";

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

}  // namespace

Result<TicketTokens> TicketTokens::open(std::string_view text, const model::Tokenizer& tokenizer) {
  INCIPIT_TRY(const TokenVector tokens, tokenizer.encode_plain(text));
  std::vector<std::size_t> borders{0};
  borders.reserve(tokens.size() + 1);
  std::size_t bytes = 0;
  for (const Token token : tokens) bytes += tokenizer.piece(token).size();
  // A vocabulary that puts a space in front spells more bytes than the text has.
  const std::size_t added = bytes - std::min(bytes, text.size());
  bytes = 0;
  for (const Token token : tokens) {
    bytes += tokenizer.piece(token).size();
    std::size_t border = std::min(bytes - std::min(bytes, added), text.size());
    while (border > 0 && border < text.size() && continues_character(text[border])) --border;
    borders.push_back(std::max(border, borders.back()));
  }
  borders.back() = text.size();
  return TicketTokens(text, std::move(borders));
}

std::string kept_part(const TicketTokens& ticket, std::size_t tokens, TooLongPolicy policy) {
  const std::size_t count = ticket.count();
  tokens = std::min(tokens, count);
  if (policy == TooLongPolicy::kHead) return std::string(ticket.part(0, tokens));
  if (policy == TooLongPolicy::kTail) return std::string(ticket.part(count - tokens, count));
  const std::size_t head = (tokens + 1) / 2;
  std::string kept(ticket.part(0, head));
  kept += kOmission;
  kept += ticket.part(count - (tokens - head), count);
  return kept;
}

}  // namespace incipit::prompt
