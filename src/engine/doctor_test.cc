// SPDX-License-Identifier: Apache-2.0
#include "incipit/doctor.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "engine/loaded_model.h"
#include "support/temp_dir.h"
#include "support/tiny_model.h"

namespace incipit {
namespace {

TEST(Doctor, LooksAtTheMachineWithoutAModel) {
  const test::TempDir folder;
  const std::string home = folder.path("home");
  const auto report = examine({.model = "", .home = home});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_FALSE(report->cpu.empty());
  EXPECT_GE(report->cores, 1U);
  EXPECT_GT(report->memory_available_bytes, 0U);
  EXPECT_EQ(report->home, home);
  EXPECT_NE(report->runtime.find("OpenVINO"), std::string::npos);
  EXPECT_TRUE(report->models.empty());
  EXPECT_TRUE(report->runs.empty());
}

TEST(Doctor, SaysWhyAModelOfTheCacheDirectoryCannotBeUsed) {
  const test::TempDir folder;
  std::filesystem::create_directories(folder.path("models"));
  const std::string broken = folder.file("models/broken.gguf", "GGUF, but no more than that..");
  const auto report = examine({.model = "", .home = folder.path(".")});
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_EQ(report->models.size(), 1U);
  EXPECT_NE(report->models[0].refused.find("broken.gguf"), std::string::npos) << broken;
}

TEST(Doctor, SaysOfEachModelWhatItIs) {
  const test::TempDir folder;
  std::filesystem::create_directories(folder.path("models"));
  folder.file("models/a.gguf", test::tiny_model({.architecture = "mamba"}).bytes());
  const std::string good = folder.file("models/b.gguf", test::tiny_model().bytes());
  folder.file("models/notes.txt", "no model");
  const auto report = examine({.home = folder.path(".")});
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_EQ(report->models.size(), 2U);
  EXPECT_NE(report->models[0].refused.find("mamba"), std::string::npos);
  EXPECT_EQ(report->models[1].refused, "");
  EXPECT_EQ(report->models[1].bytes, std::filesystem::file_size(good));
  EXPECT_NE(report->models[1].summary.find("llama, 2 layers, width 64"), std::string::npos);
}

TEST(Doctor, ProvesTheLawInEveryWayThatThisCpuHas) {
  const test::TempDir folder;
  const std::string model = folder.file("tiny.gguf", test::tiny_model().bytes());
  const auto report = examine({.model = model, .home = folder.path("home"), .ctx_size = 256});
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_EQ(report->runs.size(), 4U);
  for (const DoctorRun& run : report->runs) {
    const bool can_run = run.precision == "f32" || engine::can_compute_bf16();
    EXPECT_EQ(run.refused.empty(), can_run) << run.refused;
    if (!can_run) continue;
    EXPECT_EQ(run.exact, run.approximate_reason.empty());
    EXPECT_GE(run.rows_min, run.rows_needed);
    EXPECT_GT(run.cell_bytes, 0U);
  }
}

TEST(Doctor, RefusesAModelThatIsNotThere) {
  const auto report = examine({.model = "/nonexistent/model.gguf"});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(report.error().message.find("/nonexistent/model.gguf"), std::string::npos);
}

TEST(Doctor, IsNotWellWhereOneRunIsApproximate) {
  DoctorReport report;
  report.runs = {{.precision = "f32", .kv_type = "f32", .refused = "", .exact = true}};
  EXPECT_TRUE(report.is_well());
  report.runs.push_back({.precision = "bf16", .kv_type = "bf16", .refused = "not on this CPU"});
  EXPECT_TRUE(report.is_well());
  report.runs.push_back({.precision = "f32", .kv_type = "int8", .refused = "", .exact = false});
  EXPECT_FALSE(report.is_well());
}

}  // namespace
}  // namespace incipit
