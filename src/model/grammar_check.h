// SPDX-License-Identifier: Apache-2.0
//
// Whether a grammar can be used, in bounded time and memory.
//
// Beyond the syntax (grammar_rules.h) three things are asked of the rules: no rule begins with
// itself, directly, through others or behind what may be empty, for it would never come to a
// character; no rule has more than 2,048 ways to begin, all of which are followed at once; and no
// rule begins with a chain of more than 1,000 rules.
// What passes, libllama takes too, in milliseconds and a few megabytes, and prints nothing.
// Pure; costs are linear in the expanded grammar.
#pragma once

#include <string_view>

#include "incipit/result.h"
#include "model/grammar_rules.h"
#include "model/tokenizer.h"

namespace incipit::model {

// Syntax and rules. Errors: kInvalidArgument, "grammar: LINE:COLUMN: what is wrong; what to do".
[[nodiscard]] Result<GrammarRules> check_grammar(std::string_view text, const Tokenizer& tokenizer);

}  // namespace incipit::model
