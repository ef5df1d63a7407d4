// SPDX-License-Identifier: Apache-2.0
//
// What the benchmark tries. What it measures needs a model: tests/integration.
#include "incipit/bench_attention.h"

#include <gtest/gtest.h>

namespace incipit::app {
namespace {

// One token before the text, two behind it, then the question.
const TokenVector kPrompt{1, 10, 11, 12, 13, 2, 3, 90, 91};
constexpr Frame kFrame{.before = 1, .behind = 2};

TEST(BenchAttentionTrial, PutsAnotherTextInTheFrame) {
  const auto trial = trial_of(kPrompt, 7, kFrame, TokenVector{20, 21, 22, 23, 24});
  ASSERT_TRUE(trial);
  EXPECT_EQ(trial->prompt, kPrompt);
  EXPECT_EQ(trial->cut, 7U);
  EXPECT_EQ(trial->wrong,
            (std::vector<TokenVector>{{1, 20, 21, 22, 23, 2, 3}, {1, 10, 11, 22, 23, 2, 3}}));
}

TEST(BenchAttentionTrial, NeedsAnotherTextThatIsLongEnough) {
  EXPECT_FALSE(trial_of(kPrompt, 7, kFrame, TokenVector{20, 21, 22}));
  EXPECT_FALSE(trial_of(kPrompt, 7, kFrame, TokenVector{10, 11, 12, 13}));
  EXPECT_FALSE(trial_of(kPrompt, 7, kFrame, TokenVector{20, 21, 12, 13})) << "its half is the same";
  EXPECT_FALSE(trial_of(kPrompt, 4, kFrame, TokenVector{20, 21, 22, 23}));
  EXPECT_FALSE(trial_of(kPrompt, 9, kFrame, TokenVector{20, 21, 22, 23, 24, 25}));
}

}  // namespace
}  // namespace incipit::app
