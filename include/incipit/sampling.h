// SPDX-License-Identifier: Apache-2.0
//
// How the next token is chosen from the model's logits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "incipit/types.h"

namespace incipit {

// The defaults choose the most probable token. Penalties and bias change the logits first; then
// top_k, top_p, min_p and the temperature apply in this order.
struct SamplingOptions {
  double temperature = 0;     // 0 to 2; 0 takes the most probable token.
  std::size_t top_k = 0;      // Only the k most probable; 0: all.
  double top_p = 1;           // Only the fewest whose probabilities sum to this, in (0, 1].
  double min_p = 0;           // Only those of this share of the best one's probability, in [0, 1].
  double repeat_penalty = 1;  // Divides what occurred, 0.1 to 10; 1: none.
  double frequency_penalty = 0;        // Subtracted for each occurrence, -2 to 2.
  double presence_penalty = 0;         // Subtracted once for what occurred, -2 to 2.
  std::size_t penalty_tokens = 64;     // Of the answer so far, that penalties look back at.
  std::uint32_t seed = 0;              // One seed gives one text, alone or in a crowd.
  std::map<Token, double> logit_bias;  // Added, -100 to 100; -100 and below never occurs.
  std::vector<std::string> stop;       // The text ends before the first of these; none is empty.
  std::size_t logprobs = 0;            // Most probable alternatives to report for a token, 0 to 20.
  // What the answer must match, as a GBNF grammar whose rule "root" is the whole answer, or as a
  // JSON schema; at most one of both (docs/sampling.md). The answer ends where it is whole.
  // A token is chosen without regard to it first, and again from what it allows if it refuses.
  std::string grammar;
  std::string json_schema;
};

struct TokenLogprob {
  Token token = 0;
  double logprob = 0;  // Natural logarithm, of the model's own distribution.
};

// Of one token of an answer.
struct TokenLogprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // The most probable first; equal ones by token.
};

}  // namespace incipit
