// SPDX-License-Identifier: Apache-2.0
//
// How an engine starts: what it keeps, what it needs, and what it says when it cannot.
// Tests src/engine/loaded_model.cc
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/memory.h"
#include "engine/loaded_model.h"
#include "incipit/engine.h"
#include "integration/ticket_file.h"
#include "support/installed_models.h"
#include "support/own_process.h"
#include "support/prompt_model.h"
#include "support/real_runtime.h"
#include "support/temp_dir.h"
#include "support/ticket_task.h"
#include "support/tiny_model.h"

namespace incipit::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHomeOfStart = "INCIPIT_TEST_HOME_OF_START";

class EngineStart : public testing::Test {
 protected:
  void SetUp() override { fs::remove_all(home_); }
  void TearDown() override { fs::remove_all(home_); }

  [[nodiscard]] EngineOptions smollm() {
    return {.model = smollm_path(),
            .home = home_,
            .ctx_size = 256,
            .on_event = [this](const std::string& event) { events_.push_back(event); }};
  }
  static Error refusal(const EngineOptions& options) {
    const auto opened = Engine::open(options);
    EXPECT_FALSE(opened);
    return opened ? Error{} : opened.error();
  }
  [[nodiscard]] std::size_t proofs() const {
    std::size_t count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(home_))
      count += entry.path().filename().string().starts_with("law-") ? 1 : 0;
    return count;
  }

  std::string home_ = test::scratch("engine_start_test");
  std::vector<std::string> events_;
};

void expect_in(const std::string& message, const std::string& what) {
  EXPECT_NE(message.find(what), std::string::npos) << "got: " << message;
}

TEST_F(EngineStart, LibllamaRunsWhatOpenVinoDoesNotKnowAndSaysSo) {
  EngineOptions options = smollm();
  options.model = tiny_model_file("foreign", {.architecture = "internlm2", .tied_output = false});
  const auto loaded = must(engine::load_model(options));
  expect_in(loaded->runtime_name, "llama.cpp");
  EXPECT_EQ(loaded->architecture, "internlm2");
  EXPECT_FALSE(loaded->runtime->limits().exact);
  ASSERT_EQ(events_.size(), 1U);
  expect_in(events_[0], "\"internlm2\" is not supported");
  expect_in(events_[0], "approximate");
  options.runtime = RuntimeKind::kOpenVino;
  expect_in(refusal(options).message, "internlm2");
  options.runtime = RuntimeKind::kAuto;
  options.precision = Precision::kF32;
  EXPECT_EQ(refusal(options).code, ErrorCode::kInvalidArgument);
}

TEST_F(EngineStart, LibllamaIsTakenWhereItIsAskedFor) {
  EngineOptions options = smollm();
  options.runtime = RuntimeKind::kLlama;
  const auto engine = must(Engine::open(options));
  EXPECT_TRUE(events_.empty());
  const auto classifier = must(engine->classifier(ticket_task(), {}));
  const ClassifierReport& report = classifier->report();
  expect_in(report.runtime, "llama.cpp");
  EXPECT_FALSE(report.exact);
  expect_in(report.approximate_reason, "libllama");
  EXPECT_EQ(report.kv_type, "f16");
}

TEST_F(EngineStart, BothRuntimesRefuseARecurrentModelByName) {
  EngineOptions options = smollm();
  options.model = tiny_mamba_file("start");
  const Error error = refusal(options);
  EXPECT_EQ(error.code, ErrorCode::kUnavailable);
  expect_in(error.message, "\"mamba\" is not supported");
  expect_in(error.message, "\"mamba\" is recurrent");
}

// Wrong numbers in a model that OpenVINO knows are no reason to try the other runtime.
TEST_F(EngineStart, ABrokenModelIsNotHandedToLibllama) {
  EngineOptions options = smollm();
  options.model = tiny_model_file("broken", {.left_out = "blk.0.ffn_up.weight"});
  expect_in(refusal(options).message, "ffn_up");
  EXPECT_EQ(refusal(options).message.find("libllama"), std::string::npos);
}

TEST_F(EngineStart, TheSecondReadsWhatTheFirstMade) {
  const auto first = must(engine::load_model(smollm()));
  EXPECT_FALSE(first->law.is_kept);
  EXPECT_EQ(events_.size(), 2U) << "weights and law";
  EXPECT_TRUE(fs::exists(home_ + "/prepared/" + first->sha256 + "/weights"));
  EXPECT_EQ(proofs(), 1U);
  EXPECT_FALSE(fs::is_empty(home_ + "/hashes"));
  events_.clear();
  const auto second = must(engine::load_model(smollm()));
  EXPECT_TRUE(second->law.is_kept);
  EXPECT_EQ(events_, std::vector<std::string>());
  EXPECT_EQ(second->runtime->fingerprint(), first->runtime->fingerprint());
  EXPECT_EQ(second->runtime->limits().exact, first->runtime->limits().exact);
  EXPECT_EQ(second->sha256, first->sha256);
}

TEST_F(EngineStart, AProofBelongsToItsSettings) {
  EngineOptions options = smollm();
  options.precision = Precision::kF32;
  const auto plain = must(engine::load_model(options));
  options.kv_type = KvType::kInt8;
  const auto packed = must(engine::load_model(options));
  EXPECT_FALSE(packed->law.is_kept);
  EXPECT_NE(packed->runtime->fingerprint(), plain->runtime->fingerprint());
  EXPECT_EQ(proofs(), 2U);
}

TEST_F(EngineStart, ADamagedProofIsMadeAgain) {
  const auto first = must(engine::load_model(smollm()));
  for (const auto& entry : fs::recursive_directory_iterator(home_)) {
    if (!entry.path().filename().string().starts_with("law-")) continue;
    must(write_file(entry.path().string(), "rows_min 0\nlogits_rows_min 0\nexact 1\nms 1\n"));
  }
  const auto second = must(engine::load_model(smollm()));
  EXPECT_FALSE(second->law.is_kept);
  EXPECT_EQ(second->law.settings.rows_min, first->law.settings.rows_min);
}

TEST_F(EngineStart, NamesWhatIsWrongWithTheModel) {
  const Error missing = refusal({.model = "/nonexistent/model.gguf", .home = home_});
  EXPECT_EQ(missing.code, ErrorCode::kUnavailable);
  expect_in(missing.message, "/nonexistent/model.gguf");
  const std::string damaged = home_ + "/damaged.gguf";
  fs::create_directories(home_);
  must(write_file(damaged, "GGUF and then nothing that makes sense"));
  const Error broken = refusal({.model = damaged, .home = home_});
  EXPECT_EQ(broken.code, ErrorCode::kCorruption);
  expect_in(broken.message, damaged);
  const Error directory = refusal({.model = home_, .home = home_});
  EXPECT_EQ(directory.code, ErrorCode::kUnavailable);
  expect_in(directory.message, home_);
}

TEST_F(EngineStart, SaysHowManyCellsWouldFit) {
  EngineOptions options = smollm();
  options.ctx_size = std::size_t{1} << 29U;
  const Error error = refusal(options);
  EXPECT_EQ(error.code, ErrorCode::kResourceExhausted);
  expect_in(error.message, "cells would fit (--ctx-size)");
  options.ctx_size = 10;
  expect_in(refusal(options).message, "--ctx-size 10");
}

TEST_F(EngineStart, RefusesCellsThatBreakTheLaw) {
  EngineOptions options = smollm();
  options.precision = Precision::kF32;
  options.kv_type = KvType::kBf16;
  const Error error = refusal(options);
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  expect_in(error.message, "--kv-type");
}

TEST_F(EngineStart, RefusesATaskThatTheContextCannotHold) {
  EngineOptions options = smollm();
  options.ctx_size = 64;
  const auto engine = must(Engine::open(options));
  const auto refused = engine->classifier(ticket_task(), {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument) << refused.error().message;
  expect_in(refused.error().message, "raise the context size");
}

void start_and_score(const std::string& home_of_start) {
  const auto engine = must(Engine::open({.model = smollm_path(), .home = home_of_start}));
  const auto classifier = must(engine->classifier(ticket_task(), {}));
  const std::vector<std::string_view> texts{example_tickets()[0]};
  EXPECT_EQ(must(classifier->score(texts, Route::kBatched))[0].error, "");
}

TEST_F(EngineStart, TwoAtOnceInOneEmptyHomeBothWork) {
  if (const char* home_of_start = std::getenv(kHomeOfStart)) return start_and_score(home_of_start);
  // Not home_: each process clears its own.
  const std::string shared = test::scratch("engine_start_test_shared");
  fs::remove_all(shared);
  const std::vector<std::string> environment{std::string(kHomeOfStart) + "=" + shared};
  OwnProcess one("EngineStart.TwoAtOnceInOneEmptyHomeBothWork", environment);
  OwnProcess two("EngineStart.TwoAtOnceInOneEmptyHomeBothWork", environment);
  EXPECT_TRUE(one.passed());
  EXPECT_TRUE(two.passed());
  for (const auto& entry : fs::recursive_directory_iterator(shared)) {
    EXPECT_EQ(entry.path().string().find(".tmp"), std::string::npos) << entry.path();
  }
  EXPECT_TRUE(must(engine::load_model({.model = smollm_path(), .home = shared}))->law.is_kept);
  fs::remove_all(shared);
}

// The first start may take more: it also dequantises the model.
TEST_F(EngineStart, TheSecondOfTheDefaultModelStaysWithin1700MiB) {
  if (std::getenv(kHomeOfStart) == nullptr) {
    must(Engine::open({.model = qwen_path(), .ctx_size = 64}));  // Makes what is not there yet.
    OwnProcess second("EngineStart.TheSecondOfTheDefaultModelStaysWithin1700MiB",
                      {std::string(kHomeOfStart) + "=" + home()});
    EXPECT_TRUE(second.passed());
    return;
  }
  const auto engine = must(Engine::open({.model = qwen_path(), .ctx_size = 4096}));
  const auto classifier = must(engine->classifier(ticket_task(), {}));
  must(classifier->score(views(example_tickets()), Route::kBatched));
  const std::size_t peak = peak_memory_bytes() >> 20U;
  std::printf("peak memory %zu MiB\n", peak);
  EXPECT_LE(peak, 1700U);
}

}  // namespace
}  // namespace incipit::test
