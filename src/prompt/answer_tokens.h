// SPDX-License-Identifier: Apache-2.0
//
// The tokens of an answer where it is given: directly after the cue that ends the prompt.
//
// A surface by itself may tokenise otherwise than after "assistant\n", so it is read in context.
// If that changes a token of the cue, no score of the cue's logits means this answer, and the
// task is refused.
// Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "incipit/result.h"
#include "incipit/types.h"
#include "model/chat_template.h"
#include "prompt/prompt_text.h"

namespace incipit::prompt {

// The tokens of `answer` after the prompt `chat`.
// Errors: kInvalidArgument if the answer merges with the cue.
[[nodiscard]] Result<TokenVector> answer_tokens(const model::RenderedChat& chat,
                                                std::string_view answer, const PromptText& text);

// Whether `answer`, where a message of `chat` consists of it, has these tokens too. True if no
// message does.
[[nodiscard]] Result<bool> has_same_tokens_in(const model::RenderedChat& chat,
                                              std::string_view answer, TokenSpan tokens,
                                              const PromptText& text);

// The control token that the template writes after an assistant's turn, else the vocabulary's
// own end of turn.
[[nodiscard]] std::optional<Token> end_of_turn(const model::ChatTemplate& chat_template,
                                               const model::RenderOptions& options,
                                               const PromptText& text);

}  // namespace incipit::prompt
