// SPDX-License-Identifier: Apache-2.0
//
// A rendered chat becomes tokens: control tokens where the template wrote them, words elsewhere.
//
//     <|im_start|> user\nTicket: My card ... <|im_end|> \n <|im_start|> assistant\n
//     '--control-' '-----plain piece------' '-control-' '' '-control--' '--plain--'
//
// Nothing merges across a control token, so each plain piece is tokenised by itself and as a
// whole. Surfaces of special tokens inside a message are cut (special_text.h). A prompt begins
// with exactly the BOS that the template and the vocabulary's rule ask for: one that the template
// prints turns the vocabulary's own off.
//
// Invariant (prompt_text_test.cc): for a chat whose messages hold no marker, encode() equals
// libllama's own reading of the whole text.
// Immutable.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "incipit/result.h"
#include "incipit/task.h"
#include "incipit/types.h"
#include "model/chat_template.h"
#include "model/tokenizer.h"
#include "prompt/special_text.h"

namespace incipit::prompt {

// A control token that the template wrote, or a plain piece, as a range of the rendered text.
struct PromptPiece {
  TextRange range;
  const model::SpecialToken* control = nullptr;  // Null for a plain piece. Owned by SpecialText.
  bool strip_left = false;   // The control token before it swallows white space.
  bool strip_right = false;  // The one after it does.
};

// A plain piece and what of it counts as the ticket.
struct PlainText {
  std::string_view text;
  TextRange ticket;
  bool strip_left = false;
  bool strip_right = false;
};

struct PlainTokens {
  TokenVector tokens;
  std::size_t markers = 0;  // That touch the ticket.
};

class PromptText {
 public:
  // Borrows both, which must outlive it.
  PromptText(const model::Tokenizer& tokenizer, const SpecialText& special)
      : tokenizer_(&tokenizer), special_(&special) {}

  [[nodiscard]] std::vector<PromptPiece> split(const model::RenderedChat& chat) const;

  // Every surface of a marker is cut; under kAllow the whole piece is read as a prompt instead.
  [[nodiscard]] Result<PlainTokens> encode_plain(const PlainText& plain,
                                                 SpecialTextPolicy policy) const;

  // The tokens of pieces of `chat`, without a BOS. `policy` holds for the piece around `ticket`;
  // everything else is always neutralised.
  [[nodiscard]] Result<TokenVector> encode_pieces(const model::RenderedChat& chat,
                                                  std::span<const PromptPiece> pieces,
                                                  TextRange ticket, SpecialTextPolicy policy) const;

  // The tokens of a whole chat, read from its text alone.
  // Errors: kInternal if the prompt would begin with two BOS tokens.
  [[nodiscard]] Result<TokenVector> encode(const model::RenderedChat& chat, TextRange ticket,
                                           SpecialTextPolicy policy) const;

  // Puts the BOS in front where it is missing. Errors: as encode().
  [[nodiscard]] Result<void> begin_with_bos(TokenVector& tokens) const;

  [[nodiscard]] const model::Tokenizer& tokenizer() const { return *tokenizer_; }
  [[nodiscard]] const SpecialText& special() const { return *special_; }

 private:
  const model::Tokenizer* tokenizer_;
  const SpecialText* special_;
};

// The template's own bytes of a rendered chat.
[[nodiscard]] std::string template_bytes(const model::RenderedChat& chat);

}  // namespace incipit::prompt
