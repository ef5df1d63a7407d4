// SPDX-License-Identifier: Apache-2.0
//
// Chooses tokens with libllama's samplers, from the logits of any runtime.
//
// A grammar is asked about one token where that is enough: a token is chosen without it, and only
// if the grammar refuses that one, another is chosen from what it allows among the best 1,024, or
// among all if it allows none of these. For the most probable token (temperature 0) this gives
// exactly what a grammar over the whole vocabulary gives. A drawn token has the same distribution
// too, as long as top_k, top_p and min_p leave everything and the tail behind 1,024 is nothing.
//
// The choice depends on the options, the seed, the tokens chosen so far and the logits, and on
// nothing else: a request gives the same text alone and in a full batch. Equal logits: the lowest
// token wins.
// Confined to one thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "incipit/result.h"
#include "incipit/sampling.h"
#include "incipit/types.h"
#include "model/tokenizer.h"

namespace incipit::model {

struct SampledToken {
  Token token = 0;
  TokenLogprobs logprobs;  // Empty where none were asked for.
};

class TokenSampler {
 public:
  // Errors: kInvalidArgument names the option that is wrong, with the place in a grammar or
  // schema. The tokenizer must outlive it.
  static Result<std::unique_ptr<TokenSampler>> create(const Tokenizer& tokenizer,
                                                      const SamplingOptions& options);
  TokenSampler(const TokenSampler&) = delete;
  TokenSampler& operator=(const TokenSampler&) = delete;
  ~TokenSampler();

  // Where a grammar is at its end, the result ends generation, whatever bias says.
  // Errors: kInternal if a logit is not a number, or grammar and bias leave no token.
  Result<SampledToken> sample(std::span<const float> logits);

 private:
  struct Chain;
  TokenSampler(std::unique_ptr<Chain> chain, const SamplingOptions& options);
  Result<Token> choose(std::span<const float> logits);
  [[nodiscard]] TokenLogprobs logprobs(std::span<const float> logits, Token chosen,
                                       double log_sum) const;

  std::unique_ptr<Chain> chain_;
  std::size_t logprobs_ = 0;
  bool changes_logits_ = false;
};

}  // namespace incipit::model
