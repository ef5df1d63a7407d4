// SPDX-License-Identifier: Apache-2.0
#include "api/paced_scorer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "support/fake_classifier.h"
#include "support/must.h"
#include "support/ticket_task.h"

namespace incipit::api {
namespace {

using test::FakeClassifier;
using test::must;

std::vector<std::string> some_texts(std::size_t count) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < count; ++i) texts.push_back("text " + std::to_string(i));
  return texts;
}

TEST(PacedScorer, GivesTheScoresOfOneCallInOrder) {
  FakeClassifier classifier(test::ticket_task(), {.texts_per_call = 64});
  const auto owned = some_texts(200);
  const std::vector<std::string_view> texts(owned.begin(), owned.end());
  const auto whole = must(classifier.score(texts, Route::kBatched));
  std::size_t heard = 0;
  const auto paced = must(PacedScorer(classifier).score(texts, [&](std::size_t count) {
    EXPECT_GT(count, heard);
    heard = count;
    return true;
  }));
  EXPECT_EQ(heard, texts.size());
  ASSERT_EQ(paced.size(), whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(paced[i].scores, whole[i].scores);
}

TEST(PacedScorer, StopsBetweenCallsAndKeepsWhatIsDone) {
  FakeClassifier classifier(test::ticket_task(), {.texts_per_call = 64});
  const auto owned = some_texts(64);
  const std::vector<std::string_view> texts(owned.begin(), owned.end());
  const auto stopped =
      must(PacedScorer(classifier).score(texts, [](std::size_t) { return false; }));
  EXPECT_GT(stopped.size(), 0U);
  EXPECT_LT(stopped.size(), texts.size());
  EXPECT_EQ(classifier.counters().texts, stopped.size());
}

TEST(PacedScorer, AsksMoreOftenWhereTextsAreSlow) {
  FakeClassifier classifier(test::ticket_task(),
                            {.texts_per_call = 64, .on_text = [] {
                               std::this_thread::sleep_for(std::chrono::milliseconds(60));
                             }});
  const auto owned = some_texts(48);
  const std::vector<std::string_view> texts(owned.begin(), owned.end());
  PacedScorer scorer(classifier);
  std::size_t asked = 0;
  ASSERT_TRUE(scorer.score(texts, [&](std::size_t) { return ++asked > 0; }));
  EXPECT_GE(asked, 3U);  // 48 texts of 60 ms are three seconds.
}

}  // namespace
}  // namespace incipit::api
