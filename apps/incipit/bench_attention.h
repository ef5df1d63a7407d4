// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "incipit/attention_check.h"
#include "incipit/command.h"
#include "incipit/types.h"

namespace incipit::app {

// The command line behind `incipit bench attention`.
int bench_attention(std::span<const std::string> arguments, const Surroundings& around);

// How a template frames a text: tokens before it, and between it and what follows.
struct Frame {
  std::size_t before = 0;
  std::size_t behind = 0;
};

// A trial of `prompt`, whose first `cut` tokens are framed text: one wrong prefix has another text
// in the frame, one has it in the second half alone. Nothing where `other` is too short, or the
// texts are the same.
[[nodiscard]] std::optional<AttentionTrial> trial_of(TokenVector prompt, std::size_t cut,
                                                     const Frame& frame, TokenSpan other);

}  // namespace incipit::app
