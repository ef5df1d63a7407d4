// SPDX-License-Identifier: Apache-2.0
//
// One loaded engine, many callers: classifiers and generators on threads of their own share its
// passes and its cache, and each gets the bits that it gets alone.
// Tests src/engine/served_model.cc
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "incipit/engine.h"
#include "integration/same_answer.h"
#include "integration/ticket_file.h"
#include "support/installed_models.h"
#include "support/must.h"
#include "support/ticket_task.h"

namespace incipit::test {
namespace {

Task question_task() {
  Task task = ticket_task();
  task.options.multi_label = true;
  return task;
}

std::vector<std::vector<double>> scores_of(Classifier& classifier, std::size_t texts) {
  const std::vector<std::string> some(
      example_tickets().begin(), example_tickets().begin() + static_cast<std::ptrdiff_t>(texts));
  std::vector<std::vector<double>> scores;
  for (Scored& scored : must(classifier.score(views(some), Route::kBatched))) {
    EXPECT_EQ(scored.error, "");
    scores.push_back(std::move(scored.scores));
  }
  return scores;
}

class EngineThreads : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    engine_ = must(Engine::open({.model = smollm_path(), .ctx_size = 2048}));
  }
  static void TearDownTestSuite() { engine_.reset(); }

  inline static std::unique_ptr<Engine> engine_;
};

TEST_F(EngineThreads, TwoClassifiersAndAGeneratorGetTheBitsOfEachAlone) {
  constexpr std::size_t kTexts = 30;
  constexpr std::size_t kQuestionTexts = 8;
  const auto labels = scores_of(*must(engine_->classifier(ticket_task(), {})), kTexts);
  const auto odds = scores_of(*must(engine_->classifier(question_task(), {})), kQuestionTexts);
  GenerateRequest request;
  request.turns = {{"user", "Write three words about parcels."}};
  request.tokens_max = 24;
  const Generated answer = must(must(engine_->generator({}))->generate(request));

  const auto generator = must(engine_->generator({}));
  std::vector<std::jthread> threads;
  threads.emplace_back([&] {
    const auto classifier = must(engine_->classifier(ticket_task(), {}));
    for (int round = 0; round < 2; ++round) EXPECT_EQ(scores_of(*classifier, kTexts), labels);
  });
  threads.emplace_back([&] {
    const auto classifier = must(engine_->classifier(question_task(), {.tenant = "questions"}));
    for (int round = 0; round < 2; ++round) EXPECT_EQ(scores_of(*classifier, kQuestionTexts), odds);
  });
  threads.emplace_back([&] {
    for (int round = 0; round < 3; ++round) expect_same(must(generator->generate(request)), answer);
  });
  threads.clear();

  // A task's prefix is an entry like any other; a text's own tokens are not kept.
  const auto entries = generator->entries();
  EXPECT_TRUE(std::ranges::any_of(
      entries, [](const KvEntry& entry) { return entry.tenant == "questions" && entry.is_live; }));
  const auto classifier = must(engine_->classifier(ticket_task(), {}));
  std::size_t kept = 0;
  for (const KvEntry& entry : entries)
    if (entry.tenant.empty()) kept += entry.end - entry.begin;
  EXPECT_LE(kept, classifier->report().prefix_tokens + answer.kv.tokens + answer.tokens.size());
  EXPECT_GT(generator->counters().kv.tokens_matched, kTexts * classifier->report().prefix_tokens);
}

TEST_F(EngineThreads, TheFirstOptionsHoldAsLongAsTheyAreInUse) {
  auto classifier = must(engine_->classifier(ticket_task(), {}));
  auto same = must(engine_->generator({}));
  const auto refused = engine_->generator({.jobs_max = 3});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  classifier.reset();
  EXPECT_FALSE(engine_->generator({.jobs_max = 3}));
  same.reset();
  const auto other = must(engine_->generator({.jobs_max = 3}));
  EXPECT_TRUE(other->entries().empty()) << "the cache of those before is gone with them";
}

TEST_F(EngineThreads, ATenantNameIsNoDoorToSharedOpenings) {
  const auto refused = engine_->classifier(ticket_task(), {.tenant = std::string("\0public", 7)});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace incipit::test
