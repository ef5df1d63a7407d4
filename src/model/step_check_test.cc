// SPDX-License-Identifier: Apache-2.0
#include "model/step_check.h"

#include <gtest/gtest.h>

namespace incipit::model {
namespace {

const Limits kLimits{.vocabulary = 10, .context_tokens = 4};
const TokenVector kTokens{1, 2, 3};
const std::vector<std::uint32_t> kRows{0, 2};

Result<void> check(std::vector<Step> steps) {
  return check_steps(steps, kLimits, [](SequenceId) { return std::size_t{1}; });
}

void expect_refused(const std::vector<Step>& steps, const char* why) {
  const auto checked = check(steps);
  ASSERT_FALSE(checked) << why;
  EXPECT_EQ(checked.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(checked.error().message.find(why), std::string::npos) << checked.error().message;
}

TEST(StepCheck, TakesWhatFits) {
  EXPECT_TRUE(check({{SequenceId{1}, kTokens, kRows}, {SequenceId{2}, kTokens, {}}}));
  EXPECT_TRUE(check({}));
}

TEST(StepCheck, NamesWhatIsWrong) {
  const TokenVector four{1, 2, 3, 4};
  const TokenVector outside{1, 10};
  const TokenVector negative{-1};
  const std::vector<std::uint32_t> beyond{3};
  const std::vector<std::uint32_t> twice{1, 1};
  expect_refused({{SequenceId{1}, {}, {}}}, "without tokens");
  expect_refused({{SequenceId{1}, four, {}}}, "5 tokens are more than the context of 4");
  expect_refused({{SequenceId{1}, outside, {}}}, "token 10");
  expect_refused({{SequenceId{1}, negative, {}}}, "token -1");
  expect_refused({{SequenceId{1}, kTokens, beyond}}, "logits rows");
  expect_refused({{SequenceId{1}, kTokens, twice}}, "logits rows");
  expect_refused({{SequenceId{1}, kTokens, {}}, {SequenceId{1}, kTokens, {}}}, "twice");
}

TEST(StepCheck, SaysWhatToDoWithoutCells) {
  EXPECT_EQ(no_free_cells().error().code, ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace incipit::model
