// SPDX-License-Identifier: Apache-2.0
//
// The command as a user meets it: flags, exit codes, what is printed where.
#include <gtest/gtest.h>

#include <atomic>

#include "incipit/command.h"
#include "incipit/exit_code.h"
#include "support/fake_classifier.h"
#include "support/temp_dir.h"

namespace incipit::app {
namespace {

class ClassifyCommand : public ::testing::Test {
 protected:
  // Runs `incipit classify --task TASK ARGUMENTS`.
  int run(std::vector<std::string> arguments) {
    const std::string task = dir_.file("task.json", task_);
    arguments.insert(arguments.begin(), {"--task", task});
    std::FILE* out = std::fopen(dir_.path("out.txt").c_str(), "w");
    std::FILE* err = std::fopen(dir_.path("err.txt").c_str(), "w");
    const int code = run_classify(
        arguments,
        {.out = out,
         .err = err,
         .interrupted = &interrupted_,
         .open_engine = [this](const EngineOptions& options) -> Result<std::unique_ptr<Engine>> {
           options_ = options;
           if (options.model == "missing.gguf") {
             return failure(ErrorCode::kInvalidArgument, "cannot read missing.gguf");
           }
           return std::make_unique<test::FakeEngine>(settings_);
         }});
    std::fclose(out);
    std::fclose(err);
    return code;
  }
  std::string err() const { return dir_.read("err.txt"); }
  std::string rows(const std::string& bytes) const { return dir_.file("in.jsonl", bytes); }
  std::string output() const { return dir_.path("out.jsonl"); }

  test::TempDir dir_;
  std::string task_ = R"({"instructions": "Answer with one of {labels}.",
                           "labels": {"billing": "", "technical": "", "account": ""}})";
  test::FakeSettings settings_;
  EngineOptions options_;
  std::atomic<bool> interrupted_ = false;
};

constexpr const char* kGood = "{\"text\":\"my billing\"}\n{\"text\":\"my account\"}\n";

TEST_F(ClassifyCommand, LabelsAFile) {
  EXPECT_EQ(run({rows(kGood), "-o", output(), "--report", dir_.path("r.json")}), kExitDone)
      << err();
  EXPECT_NE(dir_.read("out.jsonl").find("\"label\":\"account\""), std::string::npos);
  EXPECT_NE(err().find("2 rows: 2 ok, 0 review, 0 errors; 2 distinct texts"), std::string::npos);
  EXPECT_NE(dir_.read("r.json").find("\"speedup_kind\": \"estimated\""), std::string::npos);
}

TEST_F(ClassifyCommand, PrintsHelpThatWarns) {
  EXPECT_EQ(run({"--help"}), kExitDone);
  const std::string help = dir_.read("out.txt");
  EXPECT_NE(help.find("--min-confidence"), std::string::npos);
  EXPECT_NE(help.find("--no-end-token"), std::string::npos);
  std::string joined = help;
  std::erase(joined, '\n');
  EXPECT_NE(joined.find("dominates"), std::string::npos);
}

TEST_F(ClassifyCommand, GivesUsageErrorsCode2AndNamesTheFlag) {
  const std::string input = rows(kGood);
  const struct {
    std::vector<std::string> arguments;
    const char* message;
  } cases[] = {
      {{input, "--nonsense"}, "--nonsense"},
      {{input, "--precision", "f16"}, "--precision: expected auto|bf16|f32, not 'f16'"},
      {{input, "--batch", "0"}, "--batch: expected a number from 1 on, or auto"},
      {{input, "--verify", "some"}, "--verify"},
      {{input, "--calibrate", "lots"}, "--calibrate"},
      {{input, "--scoring", "fast"}, "scoring: expected auto|first|sequence"},
      {{input, "--min-mass", "2"}, "min_mass: expected a number from 0 to 1"},
      {{input, "--none-label", "other"}, "'other' is not one of the labels"},
      {{input, "--delimiter", ";"}, "--delimiter and --no-header are for CSV"},
      {{input, "--resume"}, "--resume"},
      {{input, "--target-accuracy", "0.9"}, "--calibrate-on"},
      {{input, "--report", "/nonexistent/r.json"}, "--report"},
      {{dir_.path("none.jsonl")}, "none.jsonl"},
      {{dir_.file("a.txt", "x")}, "--format"},
      {{input, "-m", "missing.gguf"}, "missing.gguf"},
      {{input, "-o", input}, "is the input file"},
  };
  for (const auto& item : cases) {
    EXPECT_EQ(run(item.arguments), kExitUsage) << item.message;
    EXPECT_NE(err().find(item.message), std::string::npos) << err();
  }
}

TEST_F(ClassifyCommand, NamesAWrongTaskFile) {
  task_ = "{\"labels\": {\"billing\": \"\",\n \" billing\": \"\"}}";
  EXPECT_EQ(run({rows(kGood)}), kExitUsage);
  EXPECT_NE(err().find("task.json:2:2: labels.billing"), std::string::npos) << err();
}

TEST_F(ClassifyCommand, GivesRowErrorsCode1) {
  EXPECT_EQ(run({rows("{\"text\":\"\"}\n"), "-o", output()}), kExitRowErrors);
}

TEST_F(ClassifyCommand, GivesReviewCode1OnlyIfAsked) {
  const std::string input = rows("{\"text\":\"qwertz\"}\n");
  EXPECT_EQ(run({input, "-o", output(), "--min-confidence", "0.99"}), kExitDone);
  EXPECT_NE(dir_.read("out.jsonl").find("\"label\":null"), std::string::npos);
  EXPECT_NE(
      dir_.read("out.jsonl").find("\"status\":\"review\",\"reason\":\"low_confidence\",\"best\":"),
      std::string::npos)
      << dir_.read("out.jsonl");
  EXPECT_EQ(run({input, "-o", output(), "--min-confidence", "0.99", "--fail-on-review"}),
            kExitRowErrors);
}

TEST_F(ClassifyCommand, GivesAFailedModelAndAFullDiskCode3) {
  settings_.fail_after = 1;
  EXPECT_EQ(run({rows(kGood), "-o", output()}), kExitFailed);
  settings_ = {};
  EXPECT_EQ(run({rows(kGood), "-o", "/dev/full"}), kExitFailed);
  EXPECT_NE(err().find("/dev/full"), std::string::npos);
}

TEST_F(ClassifyCommand, GivesAMismatchCode4WithBothScores) {
  EXPECT_EQ(run({rows(kGood), "-o", output(), "--verify", "all"}), kExitDone);
  EXPECT_NE(err().find("cached = full: 2 of 2, to the bit"), std::string::npos) << err();
  settings_.full_drift = 1e-12;
  EXPECT_EQ(run({rows(kGood), "-o", output(), "--verify", "1", "--quiet"}), kExitMismatch);
  EXPECT_NE(err().find("mismatch at id "), std::string::npos) << err();
}

TEST_F(ClassifyCommand, GivesAnInterruptionCode130) {
  interrupted_ = true;
  EXPECT_EQ(run({rows(kGood), "-o", output()}), kExitInterrupted);
  interrupted_ = false;
  EXPECT_EQ(run({rows(kGood), "-o", output(), "--resume"}), kExitDone);
}

TEST_F(ClassifyCommand, ReadsCsvWithFlags) {
  const std::string input = dir_.file("in.csv", "7;my;billing\n8;an;account\n");
  EXPECT_EQ(run({input, "-o", dir_.path("o.csv"), "--no-header", "--delimiter", ";", "--text-field",
                 "2,3", "--join", " ", "--id-field", "1", "--quiet"}),
            kExitDone)
      << err();
  EXPECT_TRUE(dir_.read("o.csv").starts_with("7;my;billing;billing;0.9")) << dir_.read("o.csv");
  EXPECT_EQ(err(), "");
}

TEST_F(ClassifyCommand, FitsOnLabelledRowsAndTestsTheOrder) {
  std::string labelled;
  for (int i = 0; i < 200; ++i) {
    const std::string name = i % 3 == 0 ? "billing" : i % 3 == 1 ? "technical" : "account";
    labelled += "{\"text\":\"" + (i % 10 == 0 ? "odd" : name) + " " + std::to_string(i) +
                "\",\"label\":\"" + name + "\"}\n";
  }
  const std::string fit = dir_.file("fit.jsonl", labelled);
  EXPECT_EQ(run({rows(kGood), "-o", output(), "--calibrate-on", fit, "--target-accuracy", "0.9",
                 "--order-test", "3"}),
            kExitDone)
      << err();
  EXPECT_NE(err().find("fit on 200 rows"), std::string::npos) << err();
  EXPECT_NE(err().find("order test: 0 of 2 texts"), std::string::npos) << err();
  const std::string unlabelled = dir_.file("fit.jsonl", kGood);
  EXPECT_EQ(run({rows(kGood), "-o", output(), "--calibrate-on", unlabelled}), kExitUsage);
  EXPECT_NE(err().find("fit.jsonl:1: the row has no label"), std::string::npos) << err();
}

TEST_F(ClassifyCommand, SeesLabelsThatTurnWithTheOrder) {
  settings_.order_bias = 5;
  std::string plain;
  for (int i = 0; i < 20; ++i) plain += "{\"text\":\"plain " + std::to_string(i) + "\"}\n";
  EXPECT_EQ(run({rows(plain), "-o", output(), "--order-test", "3", "--calibrate", "batch"}),
            kExitDone);
  EXPECT_NE(err().find("order test: 20 of 20 texts"), std::string::npos) << err();
}

TEST_F(ClassifyCommand, TakesADefaultModelFromTheCacheDirectory) {
  EXPECT_EQ(run({rows(kGood), "-o", output(), "-c", "1000", "-t", "2", "--kv-type", "int8"}),
            kExitDone);
  EXPECT_TRUE(options_.model.ends_with("/models/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"));
  EXPECT_EQ(options_.ctx_size, 1000U);
  EXPECT_EQ(options_.kv_type, KvType::kInt8);
}

}  // namespace
}  // namespace incipit::app
