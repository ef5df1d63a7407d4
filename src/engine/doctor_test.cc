// SPDX-License-Identifier: Apache-2.0
#include "incipit/doctor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "engine/loaded_model.h"
#include "support/must.h"
#include "support/tiny_model.h"

namespace incipit {
namespace {

using test::must;

// A cache directory with a model of two layers in it.
class Doctor : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(home_);
    std::filesystem::create_directories(home_ + "/models");
    must(write_file(model_, test::tiny_model().bytes()));
  }
  void TearDown() override { std::filesystem::remove_all(home_); }

  std::string home_ = testing::TempDir() + "doctor_test";
  std::string model_ = home_ + "/models/tiny.gguf";
};

TEST_F(Doctor, LooksAtTheMachineWithoutAModel) {
  const DoctorReport report = must(examine({.home = home_}));
  EXPECT_NE(report.cpu, "");
  EXPECT_GE(report.cores, 1U);
  EXPECT_GT(report.memory_available_bytes, 0U);
  EXPECT_GT(report.memory_peak_bytes, 0U);
  EXPECT_EQ(report.home, home_);
  EXPECT_EQ(report.precisions.front(), "f32");
  EXPECT_TRUE(report.runs.empty());
  EXPECT_TRUE(report.is_well());
}

TEST_F(Doctor, SaysOfEachModelWhatItIsOrWhyNot) {
  must(write_file(home_ + "/models/a-damaged.gguf", "GGUF and no more than that"));
  must(write_file(home_ + "/models/b-mamba.gguf",
                  test::tiny_model({.architecture = "mamba"}).bytes()));
  must(write_file(home_ + "/models/notes.txt", "no model"));
  const DoctorReport report = must(examine({.home = home_}));
  ASSERT_EQ(report.models.size(), 3U);
  EXPECT_NE(report.models[0].refused, "");
  EXPECT_NE(report.models[1].refused.find("mamba"), std::string::npos);
  EXPECT_EQ(report.models[2].file, model_);
  EXPECT_EQ(report.models[2].refused, "");
  EXPECT_EQ(report.models[2].bytes, std::filesystem::file_size(model_));
  EXPECT_NE(report.models[2].summary.find("llama, 2 layers, width 64"), std::string::npos);
}

TEST_F(Doctor, ProvesTheLawInEveryWay) {
  std::vector<std::string> events;
  const DoctorReport report =
      must(examine({.model = model_,
                    .home = home_,
                    .ctx_size = 256,
                    .on_event = [&](const std::string& event) { events.push_back(event); }}));
  EXPECT_EQ(report.models.size(), 1U) << "the model asked for is one of the cache directory";
  ASSERT_EQ(report.runs.size(), 4U);
  EXPECT_GE(events.size(), report.runs.size());
  for (const DoctorRun& run : report.runs) {
    const bool can_run = run.precision == "f32" || engine::can_compute_bf16();
    EXPECT_EQ(run.refused.empty(), can_run) << run.refused;
    if (!can_run) continue;
    EXPECT_EQ(run.exact, run.approximate_reason.empty());
    EXPECT_GE(run.rows_min, run.rows_needed);
    EXPECT_GT(run.cell_bytes, 0U);
  }
}

TEST_F(Doctor, AModelThatCannotBeLoadedIsAnError) {
  const auto report = examine({.model = home_ + "/absent.gguf", .home = home_});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(report.error().message.find("absent.gguf"), std::string::npos);
}

TEST(DoctorReport, IsWellWhereEveryPossibleRunIsExact) {
  DoctorReport report;
  report.runs = {{.refused = "no bf16"}, {.exact = true}};
  EXPECT_TRUE(report.is_well());
  report.runs.push_back({.exact = false});
  EXPECT_FALSE(report.is_well());
}

}  // namespace
}  // namespace incipit
