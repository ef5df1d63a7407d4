// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <simdjson.h>

#include "incipit/classify_file.h"
#include "support/fake_classifier.h"
#include "support/ticket_task.h"

namespace incipit {
namespace {

FileReport full_report() {
  FileReport report;
  report.rows = 600;
  report.unique = 3;
  report.duplicates = 597;
  report.ok = 590;
  report.review = 9;
  report.errors = 1;
  report.scored = 3;
  report.tokens_evaluated = 50;
  report.tokens_full = 500;
  report.ms_tickets = 45;
  report.predicted = {300, 200, 99};
  report.predicted_uncalibrated = {400, 100, 99};
  report.bias = {0.5, -0.5, 0};
  report.changed_by_calibration = 100;
  report.quality = FileQuality{.rows = 600,
                               .accuracy = 0.95,
                               .macro_f1 = 0.9,
                               .coverage = 0.98,
                               .accepted_accuracy = 0.97,
                               .confusion = {{1, 2, 3}, {0, 0, 0}, {4, 5, 6}}};
  report.verify = VerifyReport{
      .rows = 2,
      .mismatches = 1,
      .max_difference = 1e-13,
      .examples = {{.id = "\"a\"", .scores = {-1, -2, -3}, .full_scores = {-1, -2.5, -3}}},
      .ms_full = 400};
  return report;
}

TEST(FileReport, IsJsonWithEverythingInIt) {
  const test::FakeClassifier classifier(test::ticket_task(), {});
  const FileReport file = full_report();
  const FitReport fit{.rows = 100, .temperature = 1.5, .min_confidence = 0.7};
  const OrderReport order{.texts = 20, .orders = 3, .flipped = 4, .flipped_calibrated = 5};
  const FileJob job{.calibration = Calibration::kBatch};
  const std::string text =
      report_json(classifier, {.job = &job, .file = &file, .fit = &fit, .order = &order});
  simdjson::dom::parser parser;
  const simdjson::dom::element json = parser.parse(text);
  EXPECT_EQ(std::string_view(json["model"]["file"]), "fake.gguf");
  EXPECT_EQ(int64_t(json["tickets"]), 600);
  EXPECT_EQ(std::string_view(json["speedup_kind"]), "measured");
  EXPECT_NEAR(double(json["speedup"]), 200.0 / 15, 1e-3);
  EXPECT_EQ(double(json["deduplication_gain"]), 200);
  EXPECT_EQ(std::string_view(json["calibration"]["kind"]), "batch");
  EXPECT_EQ(int64_t(json["calibration"]["predicted_before"]["billing"]), 400);
  EXPECT_EQ(int64_t(json["quality"]["confusion"].at(2).at(1)), 5);
  EXPECT_EQ(double(json["verify"]["mismatches"].at(0)["full_scores"].at(1)), -2.5);
  EXPECT_EQ(double(json["fit"]["min_confidence"]), 0.7);
  EXPECT_EQ(int64_t(json["order_test"]["flipped_calibrated"]), 5);
}

TEST(FileReport, HasNoSpeedWhereNothingReachedTheModel) {
  const test::FakeClassifier classifier(test::ticket_task(), {});
  const FileReport file{.rows = 1, .unique = 1, .errors = 1, .scored = 1};
  EXPECT_EQ(report_text(classifier, {.file = &file}),
            "1 row: 0 ok, 0 review, 1 error; 1 distinct text\nlabels:\n");
}

TEST(FileReport, TellsAPersonTheMainThings) {
  const test::FakeClassifier classifier(test::ticket_task(), {});
  const FileReport file = full_report();
  const std::string text = report_text(classifier, {.file = &file});
  EXPECT_NE(text.find("600 rows: 590 ok, 9 review, 1 error; 3 distinct texts"), std::string::npos);
  EXPECT_NE(text.find("15.0 ms per ticket; speed-up against full prompts 13.33x (measured)"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("accuracy 95.0 %"), std::string::npos);
  EXPECT_NE(text.find("cached = full: 1 of 2"), std::string::npos);
}

TEST(FileReport, WarnsOfALabelThatAlwaysWinsAndOfApproximateResults) {
  const test::FakeClassifier classifier(test::ticket_task(), {.exact = false});
  FileReport file = full_report();
  file.dominant = 1;
  file.dominant_share = 0.95;
  const std::string text = report_text(classifier, {.file = &file});
  EXPECT_NE(text.find("95.0 % of the distinct texts got the label 'technical'"), std::string::npos);
  EXPECT_NE(text.find("approximate"), std::string::npos);
}

}  // namespace
}  // namespace incipit
