// SPDX-License-Identifier: Apache-2.0
//
// The benchmark's checks, counts and forms, on a classifier without a model.
#include <gtest/gtest.h>
#include <simdjson.h>

#include <atomic>
#include <cmath>
#include <filesystem>

#include "incipit/bench_output.h"
#include "incipit/bench_run.h"
#include "incipit/command.h"
#include "incipit/exit_code.h"
#include "support/fake_classifier.h"
#include "support/temp_dir.h"
#include "support/ticket_task.h"

namespace incipit::app {
namespace {

using test::FakeClassifier;
using test::FakeEngine;
using test::FakeSettings;

std::vector<LabelledText> rows() {
  return {{"my billing", "billing"},
          {"a technical one", "technical"},
          {"my account", "billing"},  // Labelled wrongly.
          {"my billing", "billing"},
          {"no label", ""}};
}

TEST(BenchRun, FindsEveryWayEqualUnderTheLaw) {
  FakeClassifier classifier(test::ticket_task(), {});
  const auto check = check_equality(classifier, rows(), {});
  ASSERT_TRUE(check) << check.error().message;
  EXPECT_TRUE(check->all_equal());
  EXPECT_EQ(check->texts, 4U);
  EXPECT_EQ(check->labelled, 4U);
  EXPECT_EQ(check->right, 3U);
}

TEST(BenchRun, SeesADriftOfTheLastBit) {
  FakeClassifier classifier(test::ticket_task(), {.full_drift = 1e-15});
  const auto check = check_equality(classifier, rows(), {});
  ASSERT_TRUE(check) << check.error().message;
  EXPECT_FALSE(check->all_equal());
  EXPECT_LT(check->equal_cached, check->texts);
  EXPECT_EQ(check->equal_labels, check->texts);
}

TEST(BenchRun, CorrectsByTheBiasThatClassifyUses) {
  // Every text wants the first label; what is left of the differences is right.
  FakeClassifier classifier(test::ticket_task(), {.order_bias = 1000});
  const auto check = check_equality(classifier, rows(), {});
  ASSERT_TRUE(check) << check.error().message;
  EXPECT_EQ(check->right, 3U);
  EXPECT_GE(check->right_calibrated, 1U);
}

TEST(BenchRun, TimesEveryModeAgainstWholePrompts) {
  FakeClassifier classifier(test::ticket_task(), {});
  std::size_t texts = 0;
  const auto times =
      time_modes(classifier, rows(), "f32", 2, [&texts](std::size_t count) -> Result<void> {
        texts += count;
        return {};
      });
  ASSERT_TRUE(times) << times.error().message;
  ASSERT_EQ(times->size(), 5U);
  EXPECT_EQ(texts, 2U * (4 * 5 + 4));  // The last mode scores distinct texts only.
  EXPECT_EQ(times->front().mode, BenchMode::kFull);
  EXPECT_DOUBLE_EQ(times->front().speed_up, 1.0);
  for (const ModeTime& time : *times) {
    EXPECT_GT(time.total_s, 0);
    EXPECT_NEAR(time.ms_per_ticket, time.total_s * 1e3 / 5, 1e-9);
  }
}

TEST(BenchRun, BatchesFewDistinctTextsOutOfManyRows) {
  std::vector<LabelledText> many;
  for (int i = 0; i < 600; ++i) many.push_back({i % 2 == 0 ? "one" : "two", ""});
  FakeEngine engine;
  std::size_t texts = 0;
  const auto points = time_batches(engine, test::ticket_task(), many, "f32", 2,
                                   [&texts](std::size_t count) -> Result<void> {
                                     texts += count;
                                     return {};
                                   });
  ASSERT_TRUE(points) << points.error().message;
  ASSERT_EQ(points->size(), 7U);
  EXPECT_EQ(points->back().batch, 64U);
  EXPECT_EQ(texts, 7U * 2 * 64);
}

TEST(BenchRun, EndsWhereAPrefixDoesNotGrow) {
  FakeEngine engine;  // Its prefix has 100 tokens whatever the instructions are.
  const auto points = time_shares(engine, test::ticket_task(), rows(), "f32", {});
  ASSERT_TRUE(points) << points.error().message;
  ASSERT_EQ(points->size(), 1U);
  EXPECT_EQ(points->front().prefix_tokens, 100U);
  EXPECT_GT(points->front().static_share, 0.9);
}

TEST(BenchRun, HandsUpAFailedModelAndAnInterruption) {
  FakeClassifier broken(test::ticket_task(), {.fail_after = 3});
  EXPECT_EQ(check_equality(broken, rows(), {}).error().code, ErrorCode::kInternal);
  FakeClassifier classifier(test::ticket_task(), {});
  const auto stop = [](std::size_t) -> Result<void> {
    return failure(ErrorCode::kCancelled, "stop");
  };
  EXPECT_EQ(check_equality(classifier, rows(), stop).error().code, ErrorCode::kCancelled);
  EXPECT_EQ(time_modes(classifier, rows(), "f32", 1, stop).error().code, ErrorCode::kCancelled);
}

BenchResult result() {
  BenchResult made;
  made.rows = 600;
  made.suffix_tokens = 16.6;
  made.facts.model_file = "model.gguf";
  made.facts.architecture = "qwen2";
  made.facts.threads = 2;
  made.facts.prefix_tokens = 168;
  made.checks = {{"f32",
                  {.texts = 30,
                   .equal_cached = 30,
                   .equal_batched = 29,
                   .equal_full_batched = 30,
                   .equal_labels = 30,
                   .right = 24,
                   .right_calibrated = 27,
                   .labelled = 30}}};
  made.modes = {{.precision = "f32",
                 .mode = BenchMode::kFull,
                 .total_s = 184.96,
                 .ms_per_ticket = 308.27,
                 .speed_up = 1},
                {.precision = "f32",
                 .mode = BenchMode::kCached,
                 .total_s = 80.0699,
                 .ms_per_ticket = 133.45,
                 .speed_up = 2.31}};
  return made;
}

TEST(BenchOutput, PrintsTheFiguresInTheirForm) {
  const std::string text = bench_text(result());
  for (const char* part :
       {"tickets: 600\n", "static prefix: 168 tokens\n", "full prompt: 185 tokens (91 % static)\n",
        "\nf32, full\n  total: 184.96 s\n  308.3 ms per ticket\n  speed-up: 1.00x\n",
        "\nf32, cached\n  total: 80.07 s\n  133.4 ms per ticket\n  speed-up: 2.31x\n",
        "f32: cached = full: 30 of 30, batched = full: 29 of 30, full in one pass = full: 30 of "
        "30, "
        "labels: 30 of 30\n",
        "f32: right labels: 24 of 30, with --calibrate batch: 27 of 30\n"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nin\n" << text;
  }
}

TEST(BenchOutput, IsValidJsonWhateverTheModelIsCalled) {
  BenchResult made = result();
  made.facts.model_file = "\"\\\n\x1b\xff</script>" + std::string(2000, 'x');
  made.facts.instructions = std::string(1000, 'y');
  made.modes[0].speed_up = std::nan("");
  simdjson::dom::parser parser;
  const simdjson::padded_string bytes(bench_json(made));
  simdjson::dom::element json;
  ASSERT_EQ(parser.parse(bytes).get(json), simdjson::SUCCESS);
  EXPECT_EQ(std::string(json["model"].get_string().value()),
            "\"\\\n\x1b\xef\xbf\xbd</script>" + std::string(2000, 'x'));
  EXPECT_EQ(json["tickets"].get_uint64().value(), 600U);
  EXPECT_EQ(json["checks"].at(0)["batched_equal"].get_uint64().value(), 29U);
  EXPECT_EQ(json["modes"].at(1)["mode"].get_string().value(), "cached");
  EXPECT_EQ(json["modes"].at(1)["ms_per_ticket"].get_double().value(), 133.45);
  EXPECT_TRUE(json["modes"].at(0)["speed_up"].is_null());
  const std::string text = bench_text(made);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(text.find("static prefix: 168 tokens\n"), std::string::npos);
}

TEST(BenchOutput, EscapesTheModelsNameInThePage) {
  test::TempDir dir;
  BenchResult made = result();
  made.facts.model_file = "<script>alert(1)</script>";
  ASSERT_TRUE(write_bench_html(made, "incipit bench classify", dir.path("page.html")));
  EXPECT_EQ(dir.read("page.html").find("<script"), std::string::npos);
  EXPECT_NE(dir.read("page.html").find("&lt;script"), std::string::npos);
}

TEST(BenchOutput, SaysThatThePageFoundNoRoom) {
  test::TempDir dir;  // A link, so that a mistake here cannot hit the machine's own device.
  std::filesystem::create_symlink("/dev/full", dir.path("page.html"));
  const auto written = write_bench_html(result(), "x", dir.path("page.html"));
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kResourceExhausted);
}

class BenchCommand : public ::testing::Test {
 protected:
  int run(std::vector<std::string> arguments) {
    arguments.insert(
        arguments.begin(),
        {"classify", "--task", dir_.file("task.json", R"({"labels": {"a": {}, "b": {}}})")});
    std::FILE* out = std::fopen(dir_.path("out.txt").c_str(), "w");
    std::FILE* err = std::fopen(dir_.path("err.txt").c_str(), "w");
    const int code = run_bench(
        arguments,
        {.out = out,
         .err = err,
         .interrupted = &interrupted_,
         .open_engine = [this](const EngineOptions& options) -> Result<std::unique_ptr<Engine>> {
           if (options.precision == Precision::kBf16) {
             return failure(ErrorCode::kInvalidArgument, "no bf16 here");
           }
           return std::make_unique<FakeEngine>(settings_);
         }});
    std::fclose(out);
    std::fclose(err);
    return code;
  }
  std::string rows_file() const {
    std::string text;
    for (int i = 0; i < 30; ++i)
      text += "{\"text\":\"a " + std::to_string(i) + "\",\"label\":\"a\"}\n";
    return dir_.file("in.jsonl", text);
  }
  std::string err() const { return dir_.read("err.txt"); }

  test::TempDir dir_;
  FakeSettings settings_;
  std::atomic<bool> interrupted_ = false;
};

TEST_F(BenchCommand, LeavesOutAPrecisionThatTheCpuLacks) {
  EXPECT_EQ(run({rows_file(), "--rounds", "1", "--json"}), kExitDone) << err();
  EXPECT_NE(err().find("incipit: bf16 is left out: no bf16 here\n"), std::string::npos) << err();
  EXPECT_NE(err().find("incipit: f32: 100 tickets scored\n"), std::string::npos) << err();
  simdjson::dom::parser parser;
  const auto json = parser.load(dir_.path("out.txt"));
  EXPECT_EQ(json["checks"].get_array().size(), 1U);
  EXPECT_EQ(run({rows_file(), "--rounds", "1", "--quiet"}), kExitDone);
  EXPECT_EQ(err(), "");
}

TEST_F(BenchCommand, GivesADifferenceCode4) {
  settings_.full_drift = 1e-12;
  EXPECT_EQ(run({rows_file(), "--rounds", "1"}), kExitMismatch);
}

TEST_F(BenchCommand, GivesAnInterruptionCode130) {
  interrupted_ = true;
  EXPECT_EQ(run({rows_file(), "--rounds", "1"}), kExitInterrupted);
  EXPECT_NE(err().find("incipit: interrupted"), std::string::npos) << err();
}

TEST_F(BenchCommand, RefusesAReportInNoFolderBeforeItMeasures) {
  EXPECT_EQ(run({rows_file(), "--report", "/nonexistent/r.html"}), kExitUsage);
  EXPECT_NE(err().find("--report: there is no directory /nonexistent"), std::string::npos);
}

}  // namespace
}  // namespace incipit::app
