// SPDX-License-Identifier: Apache-2.0
//
// Requests for random answers, and what makes two answers the same to the bit.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <utility>

#include "incipit/generator.h"

namespace incipit::test {

inline GenerateRequest drawn_answer(TokenVector tokens, std::size_t answer) {
  GenerateRequest request;
  request.tokens = std::move(tokens);
  request.tokens_max = answer;
  request.sampling = {.temperature = 0.8, .top_p = 0.9, .seed = 7, .logprobs = 3};
  return request;
}

inline void expect_same(const Generated& a, const Generated& b) {
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.text, b.text);
  ASSERT_EQ(a.logprobs.size(), b.logprobs.size());
  for (std::size_t i = 0; i < a.logprobs.size(); ++i) {
    EXPECT_EQ(a.logprobs[i].chosen.logprob, b.logprobs[i].chosen.logprob) << i;
    ASSERT_EQ(a.logprobs[i].top.size(), b.logprobs[i].top.size()) << i;
    for (std::size_t k = 0; k < a.logprobs[i].top.size(); ++k)
      EXPECT_EQ(a.logprobs[i].top[k].logprob, b.logprobs[i].top[k].logprob) << i;
  }
}

}  // namespace incipit::test
