// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>

#include "incipit/classify_file.h"
#include "support/fake_classifier.h"
#include "support/temp_dir.h"
#include "support/ticket_task.h"

namespace incipit {
namespace {

Task listed_task() {
  Task task = test::ticket_task();
  task.instructions = "Answer with one of {labels}.";
  return task;
}

std::string plain_rows(int count) {
  std::string rows;
  for (int i = 0; i < count; ++i) rows += "{\"text\":\"plain " + std::to_string(i) + "\"}\n";
  return rows + "{\"text\":\"plain 0\"}\n{\n";
}

TEST(LabelOrder, SeesLabelsThatStayAndLabelsThatTurn) {
  const test::TempDir dir;
  const FileJob job{.input = dir.file("a.jsonl", plain_rows(20))};
  test::FakeEngine steady;
  const auto none = test_order(steady, listed_task(), job, {.orders = 3});
  ASSERT_TRUE(none) << none.error().message;
  EXPECT_EQ(none->texts, 20U);  // Repeats and broken rows are left out.
  EXPECT_EQ(none->orders, 3U);
  EXPECT_EQ(none->flipped, 0U);
  test::FakeEngine biased({.order_bias = 5});
  const auto all = test_order(biased, listed_task(), job, {.orders = 9, .texts_max = 10});
  EXPECT_EQ(all->texts, 10U);
  EXPECT_EQ(all->orders, 3U);
  EXPECT_EQ(all->flipped, 10U);
}

// Public report (C19): a correction of priors brought dependence on the order back, unseen.
TEST(LabelOrder, TellsWhatACalibrationDoesToTheFlips) {
  const test::TempDir dir;
  const FileJob job{.input = dir.file("a.jsonl", plain_rows(60)),
                    .calibration = Calibration::kBatch};
  test::FakeEngine biased({.order_bias = 5});
  const auto report = test_order(biased, listed_task(), job, {.orders = 3});
  ASSERT_TRUE(report);
  EXPECT_EQ(report->flipped, 60U);
  EXPECT_LT(report->flipped_calibrated, 60U);
}

TEST(LabelOrder, StopsWithinItsTexts) {
  const test::TempDir dir;
  std::atomic<bool> cancelled = false;
  std::size_t texts = 0;
  FileJob job{.input = dir.file("a.jsonl", plain_rows(60))};
  job.cancelled = &cancelled;
  test::FakeEngine engine({.texts_per_call = 64, .on_text = [&] { cancelled = ++texts >= 5; }});
  const auto report = test_order(engine, listed_task(), job, {.orders = 3});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kCancelled);
  EXPECT_LT(texts, 60U);
}

TEST(LabelOrder, NeedsAnInputThatCanBeReadTwice) {
  test::FakeEngine engine;
  EXPECT_FALSE(test_order(engine, listed_task(), {.input = "-"}, {.orders = 3}));
}

TEST(LabelOrder, NeedsALabelListInThePrompt) {
  const test::TempDir dir;
  test::FakeEngine engine;
  const auto report = test_order(engine, test::ticket_task(),
                                 {.input = dir.file("a.jsonl", plain_rows(2))}, {.orders = 3});
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message.find("{labels}"), std::string::npos);
}

}  // namespace
}  // namespace incipit
