// SPDX-License-Identifier: Apache-2.0
//
// Chooses tokens with libllama's samplers, from the logits of any runtime.
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
  // Errors: kInvalidArgument names the option that is wrong. The tokenizer must outlive it.
  static Result<std::unique_ptr<TokenSampler>> create(const Tokenizer& tokenizer,
                                                      const SamplingOptions& options);
  TokenSampler(const TokenSampler&) = delete;
  TokenSampler& operator=(const TokenSampler&) = delete;
  ~TokenSampler();

  // Errors: kInternal if a logit is not a number, or the grammar allows no token.
  Result<SampledToken> sample(std::span<const float> logits);

 private:
  struct Chain;
  TokenSampler(std::unique_ptr<Chain> chain, SamplingOptions options);
  Result<Token> choose(std::span<const float> logits);
  [[nodiscard]] TokenLogprobs logprobs(std::span<const float> logits, Token chosen,
                                       double log_sum) const;

  std::unique_ptr<Chain> chain_;
  SamplingOptions options_;
  bool is_plain_ = false;  // Greedy, and nothing changes the logits.
};

}  // namespace incipit::model
