// SPDX-License-Identifier: Apache-2.0
//
// A file job from end to end, with a fake classifier.
// Tests src/api/bias.cc
// Tests src/api/file_run.cc
// Tests src/api/file_tally.cc
// Tests src/api/job_facts.cc
// Tests src/api/output_file.cc
// Tests src/api/row_source.cc
// Tests src/api/row_window.cc
#include "incipit/classify_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <sstream>

#include "support/fake_classifier.h"
#include "support/sanitizer.h"
#include "support/temp_dir.h"
#include "support/ticket_task.h"

namespace incipit {
namespace {

using test::FakeClassifier;
using test::FakeSettings;
using test::TempDir;
using test::ticket_task;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// 60 rows, some of them repeats, some of them bad.
std::string mixed_rows() {
  std::string rows;
  for (int i = 0; i < 60; ++i) {
    const char* names[] = {"billing", "technical", "account", "nothing"};
    if (i % 11 == 5) {
      rows += i % 2 == 0 ? "{\"text\": \n" : "{\"id\":\"e\",\"text\":\" \"}\n";
      continue;
    }
    rows += "{\"id\":" + std::to_string(1000 + i) + ",\"text\":\"" + names[i % 4] + " " +
            std::to_string(i % 23) + "\",\"label\":\"" + names[i % 3] + "\"}\n";
  }
  return rows;
}

TEST(ClassifyFile, WritesOneRowForEachRowInOrder) {
  const TempDir dir;
  const std::string input = dir.file("in.jsonl",
                                     "{\"id\":50000000014435121,\"text\":\"my billing\"}\n"
                                     "{\"id\":1.10,\"text\":\"an account\"}\n"
                                     "not json\n"
                                     "{\"id\":\"x\",\"text\":\"\"}\n"
                                     "{\"id\":\"y\",\"text\":\"my billing\"}\n"
                                     "{\"id\":\"z\",\"text\":\"caf\xE9 billing\"}\n");
  FakeClassifier classifier(ticket_task(), {});
  const auto report = classify_file(classifier, {.input = input, .output = dir.path("out.jsonl")});
  ASSERT_TRUE(report) << report.error().message;
  const auto lines = lines_of(dir.read("out.jsonl"));
  ASSERT_EQ(lines.size(), 6U);
  EXPECT_TRUE(
      lines[0].starts_with("{\"id\":50000000014435121,\"label\":\"billing\",\"confidence\":0.9"))
      << lines[0];
  EXPECT_EQ(lines[0].find("probabilities"), std::string::npos);
  EXPECT_TRUE(lines[1].starts_with("{\"id\":1.10,\"label\":\"account\""));
  EXPECT_EQ(lines[2],
            "{\"id\":3,\"label\":null,\"status\":\"error\",\"error\":\"invalid_json\",\"message\":"
            "\"line 3, column 1: expected an object\"}");
  EXPECT_NE(lines[3].find("\"error\":\"empty_text\""), std::string::npos);
  EXPECT_NE(lines[4].find("\"dup_of\":50000000014435121"), std::string::npos);
  EXPECT_NE(lines[5].find("\"utf8_replaced\":1"), std::string::npos);
  EXPECT_EQ(report->rows, 6U);
  EXPECT_EQ(report->unique, 4U);
  EXPECT_EQ(report->duplicates, 1U);
  EXPECT_EQ(report->errors, 2U);
  EXPECT_FALSE(dir.has("out.jsonl.part"));
  EXPECT_FALSE(dir.has("out.jsonl.state"));
}

// Public report (C23): one long row failed the whole batch.
TEST(ClassifyFile, KeepsATooLongRowToItself) {
  const TempDir dir;
  const std::string input = dir.file(
      "in.csv", "id,text\n1,my billing\n2," + std::string(20'000, 'x') + "\n3,my account\n");
  FakeClassifier classifier(ticket_task(), {});
  const auto report = classify_file(classifier, {.input = input, .output = dir.path("out.jsonl")});
  ASSERT_TRUE(report);
  const auto lines = lines_of(dir.read("out.jsonl"));
  EXPECT_NE(lines[0].find("\"billing\""), std::string::npos);
  EXPECT_NE(lines[1].find("\"error\":\"too_long\""), std::string::npos);
  EXPECT_NE(lines[2].find("\"account\""), std::string::npos);
  EXPECT_EQ(report->errors, 1U);
}

TEST(ClassifyFile, GivesTheSameRowsInAnyBatchAndOrder) {
  const TempDir dir;
  auto rows = lines_of(mixed_rows());
  std::erase_if(rows,
                [](const std::string& row) { return row.find("\"id\":1") == std::string::npos; });
  const auto run = [&](std::size_t batch) {
    std::string text;
    for (const std::string& row : rows) text += row + "\n";
    FakeClassifier classifier(ticket_task(), {.texts_per_call = batch});
    EXPECT_TRUE(classify_file(classifier, {.input = dir.file("in.jsonl", text),
                                           .output = dir.path("out.jsonl"),
                                           .dedupe = false,
                                           .probabilities = true}));
    auto lines = lines_of(dir.read("out.jsonl"));
    std::ranges::sort(lines);
    return lines;
  };
  const auto one_by_one = run(1);
  std::ranges::shuffle(rows, std::mt19937(7));
  EXPECT_EQ(run(64), one_by_one);
}

TEST(ClassifyFile, ScoresRepeatsOnceUnlessToldNotTo) {
  const TempDir dir;
  std::string rows;
  for (int i = 0; i < 600; ++i) rows += "{\"text\":\"billing " + std::to_string(i % 3) + "\"}\n";
  const std::string input = dir.file("in.jsonl", rows);
  FakeClassifier once(ticket_task(), {});
  EXPECT_EQ(classify_file(once, {.input = input, .output = dir.path("a.jsonl")})->scored, 3U);
  FakeClassifier each(ticket_task(), {});
  EXPECT_EQ(
      classify_file(each, {.input = input, .output = dir.path("b.jsonl"), .dedupe = false})->scored,
      600U);
}

// Public report (C55): a long labelling job could not be resumed.
TEST(ClassifyFile, ResumesToTheSameBytes) {
  for (const Calibration calibration : {Calibration::kNone, Calibration::kBatch}) {
    const TempDir dir;
    const std::string input = dir.file("in.jsonl", mixed_rows());
    FileJob job{.input = input,
                .output = dir.path("whole.jsonl"),
                .calibration = calibration,
                .probabilities = true};
    FakeClassifier whole(ticket_task(), {});
    ASSERT_TRUE(classify_file(whole, job));
    const std::uint64_t texts = whole.counters().texts;

    job.output = dir.path("parts.jsonl");
    FakeClassifier stopped(ticket_task(), {.fail_after = 13});
    ASSERT_FALSE(classify_file(stopped, job));
    EXPECT_TRUE(dir.has("parts.jsonl.part"));
    EXPECT_FALSE(dir.has("parts.jsonl"));
    for (const std::string& line : lines_of(dir.read("parts.jsonl.part"))) {
      EXPECT_TRUE(line.starts_with('{') && line.ends_with('}'));
    }
    job.resume = true;
    FakeClassifier rest(ticket_task(), {.texts_per_call = 7});
    const auto report = classify_file(rest, job);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(dir.read("parts.jsonl"), dir.read("whole.jsonl"));
    EXPECT_EQ(rest.counters().texts, texts - 12);  // Twelve were finished in whole calls of four.
    EXPECT_GT(report->resumed, 0U);
  }
}

TEST(ClassifyFile, ResumesFromATornState) {
  const TempDir dir;
  const std::string input = dir.file("in.jsonl", mixed_rows());
  FileJob job{.input = input, .output = dir.path("out.jsonl")};
  FakeClassifier whole(ticket_task(), {});
  ASSERT_TRUE(classify_file(whole, job));
  const std::string expected = dir.read("out.jsonl");
  FakeClassifier stopped(ticket_task(), {.fail_after = 24});
  ASSERT_FALSE(classify_file(stopped, job));
  const std::string state = dir.read("out.jsonl.state");
  job.resume = true;
  for (const std::size_t size : {state.size() - 1, state.size() - 100, state.size() / 2}) {
    std::ignore = dir.file("out.jsonl.state", state.substr(0, size));
    FakeClassifier rest(ticket_task(), {});
    const auto report = classify_file(rest, job);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(dir.read("out.jsonl"), expected);
  }
  std::string flipped = state;
  flipped[state.size() / 2] = static_cast<char>(flipped[state.size() / 2] ^ 4);
  std::ignore = dir.file("out.jsonl.state", flipped);
  FakeClassifier rest(ticket_task(), {});
  ASSERT_TRUE(classify_file(rest, job));
  EXPECT_EQ(dir.read("out.jsonl"), expected);
}

TEST(ClassifyFile, RefusesToResumeWhatIsNotTheSame) {
  const TempDir dir;
  const std::string input = dir.file("in.jsonl", mixed_rows());
  FileJob job{.input = input, .output = dir.path("out.jsonl")};
  FakeClassifier stopped(ticket_task(), {.fail_after = 13});
  ASSERT_FALSE(classify_file(stopped, job));
  job.resume = true;
  const auto refusal = [&](Task task, FakeSettings settings, const FileJob& changed) {
    FakeClassifier other(std::move(task), std::move(settings));
    const auto report = classify_file(other, changed);
    if (report) return std::string("no refusal");
    EXPECT_EQ(report.error().code, ErrorCode::kInvalidArgument);
    return report.error().message;
  };
  EXPECT_NE(
      refusal(ticket_task(), {.model_sha256 = std::string(64, 'b')}, job).find("another model"),
      std::string::npos);
  Task labels = ticket_task();
  std::swap(labels.labels[0], labels.labels[1]);
  EXPECT_NE(refusal(labels, {}, job).find("another label list"), std::string::npos);
  Task options = ticket_task();
  options.options.min_mass = 0.1;
  EXPECT_NE(refusal(options, {}, job).find("another task"), std::string::npos);
  FileJob other = job;
  other.probabilities = true;
  EXPECT_NE(refusal(ticket_task(), {}, other).find("another set of options"), std::string::npos);
  std::ignore = dir.file("in.jsonl", "{\"text\":\"other\"}\n" + mixed_rows());
  EXPECT_NE(refusal(ticket_task(), {}, job).find("row 1 is not the row that was scored before"),
            std::string::npos);
  std::ignore = dir.file("out.jsonl.state", "something else");
  EXPECT_NE(refusal(ticket_task(), {}, job).find("does not hold scores"), std::string::npos);
  job.output = "-";
  EXPECT_NE(refusal(ticket_task(), {}, job).find("--resume"), std::string::npos);
}

TEST(ClassifyFile, StopsWhenCancelledAndKeepsWhatIsDone) {
  const TempDir dir;
  std::atomic<bool> cancelled = false;
  FileJob job{.input = dir.file("in.jsonl", mixed_rows()), .output = dir.path("out.jsonl")};
  job.cancelled = &cancelled;
  job.on_progress = [&](const Progress& progress) {
    EXPECT_EQ(progress.rows_in_all, 60U);
    cancelled = progress.rows > 20;
  };
  FakeClassifier classifier(ticket_task(), {});
  const auto report = classify_file(classifier, job);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kCancelled);
  EXPECT_NE(report.error().message.find("--resume"), std::string::npos);
  EXPECT_TRUE(dir.has("out.jsonl.state"));
}

// A stop in the middle of a window is heeded there, and what it had scored by then is kept.
TEST(ClassifyFile, StopsWithinAWindow) {
  const TempDir dir;
  std::atomic<bool> cancelled = false;
  std::size_t texts = 0;
  std::string rows;
  for (int i = 0; i < 64; ++i) rows += "{\"text\":\"row " + std::to_string(i) + " billing\"}\n";
  FileJob job{.input = dir.file("in.jsonl", rows), .output = dir.path("out.jsonl")};
  job.cancelled = &cancelled;
  std::vector<std::uint64_t> seen;
  job.on_progress = [&](const Progress& progress) { seen.push_back(progress.rows); };
  FakeClassifier classifier(ticket_task(), {.texts_per_call = 64, .on_text = [&] {
                                              cancelled = ++texts == 5 || cancelled;
                                            }});
  const auto report = classify_file(classifier, job);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kCancelled);
  EXPECT_LT(texts, 64U);
  EXPECT_EQ(lines_of(dir.read("out.jsonl.part")).size(), texts);
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{texts, texts}));

  cancelled = false;
  job.resume = true;
  FakeClassifier second(ticket_task(), {.texts_per_call = 64});
  ASSERT_TRUE(classify_file(second, job));
  EXPECT_EQ(second.counters().texts, 64 - texts);
  FakeClassifier third(ticket_task(), {.texts_per_call = 64});
  FileJob whole{.input = job.input, .output = dir.path("whole.jsonl")};
  ASSERT_TRUE(classify_file(third, whole));
  EXPECT_EQ(dir.read("out.jsonl"), dir.read("whole.jsonl"));
}

TEST(ClassifyFile, AStopWhileVerifyingLeavesTheOutputWhole) {
  const TempDir dir;
  std::atomic<bool> cancelled = false;
  std::size_t texts = 0;
  FileJob job{.input = dir.file("in.jsonl", mixed_rows()), .output = dir.path("out.jsonl")};
  job.cancelled = &cancelled;
  job.verify = 10;
  FakeClassifier plain(ticket_task(), {});
  ASSERT_TRUE(classify_file(plain, job));
  const std::size_t scored = plain.counters().texts - job.verify;
  FakeClassifier classifier(ticket_task(), {.on_text = [&] { cancelled = ++texts > scored + 2; }});
  const auto report = classify_file(classifier, job);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kCancelled);
  EXPECT_NE(report.error().message.find("is complete"), std::string::npos);
  EXPECT_EQ(texts, scored + 3);
  EXPECT_EQ(lines_of(dir.read("out.jsonl")).size(), 60U);
}

TEST(ClassifyFile, ReportsAFullDisk) {
  const TempDir dir;
  FakeClassifier classifier(ticket_task(), {});
  const auto report = classify_file(
      classifier, {.input = dir.file("in.jsonl", mixed_rows()), .output = "/dev/full"});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(report.error().message.find("/dev/full"), std::string::npos);
}

TEST(ClassifyFile, SubtractsTheMeanOfTheWholeFile) {
  const TempDir dir;
  std::string rows;
  for (int i = 0; i < 40; ++i) rows += "{\"text\":\"plain " + std::to_string(i) + "\"}\n";
  const std::string input = dir.file("in.jsonl", rows);
  FakeClassifier plain(ticket_task(), {.order_bias = 5});
  const auto before = classify_file(plain, {.input = input, .output = dir.path("a.jsonl")});
  FakeClassifier batch(ticket_task(), {.order_bias = 5});
  const auto after = classify_file(
      batch, {.input = input, .output = dir.path("b.jsonl"), .calibration = Calibration::kBatch});
  ASSERT_TRUE(before && after);
  EXPECT_EQ(before->predicted[0], 40U);
  EXPECT_EQ(before->dominant, 0U);
  EXPECT_LT(after->predicted[0], 30U);
  EXPECT_EQ(after->predicted_uncalibrated, before->predicted);
  EXPECT_EQ(after->changed_by_calibration, 40 - after->predicted[0]);
}

TEST(ClassifyFile, AddsPriorsOfTheUser) {
  const TempDir dir;
  const std::string input = dir.file("in.jsonl", "{\"text\":\"plain\"}\n");
  FileJob job{.input = input, .output = dir.path("o.jsonl"), .calibration = Calibration::kPrior};
  job.prior_file = dir.file("p.json", R"({"billing": 1, "technical": 1e9, "account": 1})");
  FakeClassifier classifier(ticket_task(), {});
  ASSERT_TRUE(classify_file(classifier, job));
  EXPECT_NE(dir.read("o.jsonl").find("\"label\":\"technical\""), std::string::npos);
  job.prior_file = dir.file("p.json", R"({"billing": 1, "technical": 1})");
  EXPECT_NE(classify_file(classifier, job).error().message.find("no prior for 'account'"),
            std::string::npos);
  job.prior_file = dir.file("p.json", R"({"billing": 0})");
  EXPECT_NE(classify_file(classifier, job).error().message.find("greater than 0"),
            std::string::npos);
}

TEST(ClassifyFile, VerifiesAgainstWholePrompts) {
  const TempDir dir;
  FileJob job{.input = dir.file("in.jsonl", mixed_rows()), .output = dir.path("o.jsonl")};
  job.verify = 5;
  FakeClassifier exact(ticket_task(), {});
  auto report = classify_file(exact, job);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->verify->rows, 5U);
  EXPECT_EQ(report->verify->mismatches, 0U);
  job.verify = FileJob::kVerifyAll;
  FakeClassifier drifting(ticket_task(), {.full_drift = 1e-15});
  report = classify_file(drifting, job);
  EXPECT_EQ(report->verify->rows, report->unique);
  EXPECT_GT(report->verify->mismatches, 0U);
  EXPECT_FALSE(report->verify->examples.empty());
  FakeClassifier approximate(ticket_task(), {.full_drift = 1e-3, .exact = false});
  report = classify_file(approximate, job);
  EXPECT_EQ(report->verify->mismatches, 0U);
  EXPECT_GT(report->verify->max_difference, 0.0);
}

TEST(ClassifyFile, MeasuresQualityAgainstTrueLabels) {
  const TempDir dir;
  const std::string input = dir.file("in.csv",
                                     "text,label\nbilling one,billing\naccount,account\n"
                                     "account two,billing\nx,other\ny,\n");
  FakeClassifier classifier(ticket_task(), {});
  const auto report = classify_file(classifier, {.input = input, .output = dir.path("o.csv")});
  ASSERT_TRUE(report && report->quality);
  EXPECT_EQ(report->quality->rows, 3U);
  EXPECT_EQ(report->quality->unknown_gold, 1U);
  EXPECT_NEAR(report->quality->accuracy, 2.0 / 3, 1e-9);
  EXPECT_EQ(report->quality->confusion[0][2], 1U);
  EXPECT_TRUE(
      dir.read("o.csv").starts_with("text,label,predicted_label,confidence,status,reason\n"));
}

// The resident set, in bytes.
std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t pages = 0;
  statm >> pages >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST(ClassifyFile, TakesNoMoreMemoryForMoreRows) {
  const TempDir dir;
  constexpr std::uint64_t kRows = 100'000;
  {
    std::ofstream rows(dir.path("in.jsonl"));
    for (std::uint64_t i = 0; i < kRows; ++i) {
      rows << "{\"id\":" << i << ",\"text\":\"ticket " << i << " " << std::string(150, 'x')
           << "\"}\n";
    }
  }
  std::size_t early = 0;
  std::size_t late = 0;
  FileJob job{.input = dir.path("in.jsonl"), .output = dir.path("out.jsonl")};
  job.on_progress = [&](const Progress& progress) {
    if (progress.rows <= kRows / 10) early = resident_bytes();
    late = resident_bytes();
  };
  FakeClassifier classifier(ticket_task(), {.texts_per_call = 64});
  const auto report = classify_file(classifier, job);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->unique, kRows);
  constexpr std::size_t kBytesPerText = 64;
  constexpr std::size_t kSlack = std::size_t{2} << 20U;  // Of the allocator.
  if (!test::kIsSanitized) {
    EXPECT_LT(late, early + kRows * kBytesPerText + kSlack);
  }
}

TEST(ClassifyFile, RefusesToOverwriteItsInput) {
  const TempDir dir;
  const std::string input = dir.file("in.jsonl", "{\"text\":\"a\"}\n");
  FakeClassifier classifier(ticket_task(), {});
  const auto report = classify_file(classifier, {.input = input, .output = dir.path("./in.jsonl")});
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message.find("is the input file"), std::string::npos);
  EXPECT_EQ(dir.read("in.jsonl"), "{\"text\":\"a\"}\n");
}

}  // namespace
}  // namespace incipit
