// SPDX-License-Identifier: Apache-2.0
//
// incipit explain on a classifier whose texts and tokens are as odd as they come.
#include <gtest/gtest.h>

#include "base/utf8.h"
#include "incipit/command.h"
#include "incipit/exit_code.h"
#include "support/fake_classifier.h"
#include "support/temp_dir.h"

namespace incipit::app {
namespace {

// Adds tokens to what the fake explains.
class OddClassifier final : public Classifier {
 public:
  explicit OddClassifier(Task task) : fake_(std::move(task), {}) {}

  Result<std::vector<Scored>> score(std::span<const std::string_view> texts, Route route) override {
    return fake_.score(texts, route);
  }
  [[nodiscard]] Label decide(const Scored& scored, std::span<const double> bias) const override {
    return fake_.decide(scored, bias);
  }
  Result<std::vector<Label>> classify(std::span<const std::string_view> texts) override {
    return fake_.classify(texts);
  }
  Result<std::vector<double>> content_free_bias() override { return fake_.content_free_bias(); }
  void set_temperature(double temperature) override { fake_.set_temperature(temperature); }
  void set_min_confidence(double least) override { fake_.set_min_confidence(least); }
  Result<Explanation> explain(std::string_view text) override {
    INCIPIT_TRY(Explanation explanation, fake_.explain(text));
    explanation.prefix = {{.id = 1, .text = "<|im_start|>"}, {.id = 198, .text = "\n"}};
    explanation.suffix = {{.id = 172, .text = "\xf0\x9f"},
                          {.id = 246, .text = "\x98\x80"},
                          {.id = 300, .text = "\x1b[2J \"q\" \\"},
                          {.id = 151'643, .text = std::string("\0", 1)}};
    explanation.label.facts.neutralised = 2;
    explanation.label.facts.slow_path = true;
    return explanation;
  }
  [[nodiscard]] std::size_t texts_per_call() const override { return fake_.texts_per_call(); }
  [[nodiscard]] const Task& task() const override { return fake_.task(); }
  [[nodiscard]] const ClassifierReport& report() const override { return fake_.report(); }
  [[nodiscard]] ClassifierCounters counters() const override { return fake_.counters(); }

 private:
  test::FakeClassifier fake_;
};

class OddEngine final : public Engine {
 public:
  Result<std::unique_ptr<Classifier>> classifier(Task task, ClassifierOptions) override {
    return std::make_unique<OddClassifier>(std::move(task));
  }
  Result<std::unique_ptr<Generator>> generator(const GeneratorOptions&) override {
    return failure(ErrorCode::kUnavailable, "a fake engine generates nothing");
  }
};

class ExplainCommand : public ::testing::Test {
 protected:
  int run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--task", dir_.file("task.json", task_)});
    std::FILE* out = std::fopen(dir_.path("out.txt").c_str(), "w");
    std::FILE* err = std::fopen(dir_.path("err.txt").c_str(), "w");
    const int code = run_explain(
        arguments, {.out = out,
                    .err = err,
                    .open_engine = [](const EngineOptions&) -> Result<std::unique_ptr<Engine>> {
                      return std::make_unique<OddEngine>();
                    }});
    std::fclose(out);
    std::fclose(err);
    return code;
  }
  std::string out() const { return dir_.read("out.txt"); }
  void expect_part(const char* part) const {
    EXPECT_NE(out().find(part), std::string::npos) << part << "\nin\n" << out();
  }

  test::TempDir dir_;
  std::string task_ = R"({"labels": {"billing": {}, "caf\u00e9": {}}})";
};

TEST_F(ExplainCommand, ShowsTokensAsTheyAreAndNoByteThatATerminalObeys) {
  EXPECT_EQ(run({"my billing"}), kExitDone);
  expect_part("prefix, computed once for the task: 2 tokens\n        1 \"<|im_start|>\"\n");
  expect_part("      198 \"\\n\"\n---- cut ---- (not used");
  expect_part(
      "computed for this text: 4 tokens\n      172 \"\\xf0\\x9f\"\n      246 \"\\x98\\x80\"\n");
  expect_part("      300 \"\\x1b[2J \\\"q\\\" \\\\\"\n   151643 \"\\x00\"\n");
  expect_part("2 special-token texts kept as plain text\n");
  EXPECT_TRUE(is_valid_utf8(out()));
  EXPECT_EQ(out().find('\x1b'), std::string::npos);
}

TEST_F(ExplainCommand, LinesUpTheScoresByCharacters) {
  EXPECT_EQ(run({"my billing"}), kExitDone);
  expect_part("\n  billing  score ");
  expect_part("\n  caf\xc3\xa9     score ");
  expect_part("\nlabel: billing\n");
}

TEST_F(ExplainCommand, TakesTheOptionsOfTheTask) {
  EXPECT_EQ(run({"plain text", "--min-confidence", "1"}), kExitDone);
  expect_part("\nreview: low_confidence; the best label is ");
  EXPECT_EQ(run({"plain text", "--min-confidence", "2"}), kExitUsage);
}

TEST_F(ExplainCommand, SaysWhyATextHasNoLabel) {
  EXPECT_EQ(run({""}), kExitRowErrors);
  expect_part("\nerror: empty_text\n");
  EXPECT_EQ(out().find("probability"), std::string::npos);
  EXPECT_EQ(run({}), kExitUsage);
}

}  // namespace
}  // namespace incipit::app
