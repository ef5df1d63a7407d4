// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>

#include "incipit/classify_file.h"
#include "support/fake_classifier.h"
#include "support/temp_dir.h"
#include "support/ticket_task.h"

namespace incipit {
namespace {

using test::FakeClassifier;
using test::TempDir;
using test::ticket_task;

// Texts that name their label; one in `odd` names none, so its label is a guess.
std::string labelled(int rows, int odd) {
  std::string text;
  for (int i = 0; i < rows; ++i) {
    const char* names[] = {"billing", "technical", "account"};
    const std::string name = names[i % 3];
    text += "{\"text\":\"" + (i % odd == 0 ? "odd" : name) + " " + std::to_string(i) +
            "\",\"label\":\"" + name + "\"}\n";
  }
  return text;
}

TEST(FitOnFile, SetsTheLeastConfidenceThatReachesATarget) {
  const TempDir dir;
  FakeClassifier classifier(ticket_task(), {});
  const auto report = fit_on_file(
      classifier, {.input = dir.file("a.jsonl", labelled(300, 5)), .target_accuracy = 0.99});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->rows, 300U);
  ASSERT_TRUE(report->min_confidence);
  EXPECT_EQ(classifier.task().options.min_confidence, *report->min_confidence);
  EXPECT_EQ(classifier.task().options.temperature, report->temperature);
  EXPECT_GE(report->held_accuracy, 0.99);
  EXPECT_LT(report->held_coverage, 0.9);
}

TEST(FitOnFile, StopsWithinItsTexts) {
  const TempDir dir;
  std::atomic<bool> cancelled = false;
  std::size_t texts = 0;
  FakeClassifier classifier(ticket_task(),
                            {.texts_per_call = 64, .on_text = [&] { cancelled = ++texts >= 5; }});
  const auto report = fit_on_file(
      classifier, {.input = dir.file("a.jsonl", labelled(60, 5)), .cancelled = &cancelled});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kCancelled);
  EXPECT_LT(texts, 60U);
}

TEST(FitOnFile, RefusesATargetThatDoesNotHold) {
  const TempDir dir;
  std::string wrong;  // Half of the labels contradict their text.
  for (int i = 0; i < 100; ++i) {
    wrong += "{\"text\":\"billing " + std::to_string(i) + "\",\"label\":\"" +
             (i % 4 < 2 ? "billing" : "account") + "\"}\n";
  }
  FakeClassifier classifier(ticket_task(), {});
  const auto report =
      fit_on_file(classifier, {.input = dir.file("a.jsonl", wrong), .target_accuracy = 0.99});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(classifier.task().options.min_confidence, 0.0);
}

TEST(FitOnFile, NamesTheRowThatCannotBeUsed) {
  const TempDir dir;
  FakeClassifier classifier(ticket_task(), {});
  const auto message = [&](const std::string& rows) {
    return fit_on_file(classifier, {.input = dir.file("a.jsonl", rows)}).error().message;
  };
  EXPECT_TRUE(message("{\"text\":\"a\",\"label\":\"other\"}\n")
                  .ends_with("a.jsonl:1: 'other' is not one of the labels"));
  EXPECT_TRUE(message(labelled(2, 9) + "{\"text\":\"a\"}\n")
                  .ends_with("a.jsonl:3: the row has no label to fit on"));
  EXPECT_NE(message(labelled(2, 9) + "{\n").find("line 3"), std::string::npos);
  EXPECT_FALSE(message(labelled(4, 9)).empty());  // Too few rows.
}

TEST(FitOnFile, SubtractsTheCalibrationFirst) {
  const TempDir dir;
  const std::string input = dir.file("a.jsonl", labelled(300, 2));
  FakeClassifier plain(ticket_task(), {.order_bias = 3});
  FakeClassifier batch(ticket_task(), {.order_bias = 3});
  const auto without = fit_on_file(plain, {.input = input});
  const auto with = fit_on_file(batch, {.input = input, .calibration = Calibration::kBatch});
  ASSERT_TRUE(without && with);
  EXPECT_LT(with->nll_before, without->nll_before);
}

}  // namespace
}  // namespace incipit
