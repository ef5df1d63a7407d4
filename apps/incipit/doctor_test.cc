// SPDX-License-Identifier: Apache-2.0
//
// incipit doctor with a machine that is made up.
#include "incipit/doctor.h"

#include <gtest/gtest.h>

#include "incipit/command.h"
#include "incipit/doctor_output.h"
#include "incipit/exit_code.h"
#include "support/temp_dir.h"

namespace incipit::app {
namespace {

DoctorReport healthy() {
  return {.cpu = "Invented CPU",
          .instructions = "avx512_vnni avx512_bf16",
          .broken_instructions = {"amx_tile"},
          .cores = 2,
          .memory_available_bytes = std::size_t{3} << 30U,
          .memory_peak_bytes = std::size_t{90} << 20U,
          .home = "/cache",
          .runtime = "OpenVINO 1.2.3",
          .other_runtime = "llama.cpp 4.5.6",
          .precisions = {"f32", "bf16"},
          .models = {{.file = "/cache/models/a.gguf",
                      .bytes = std::size_t{400} << 20U,
                      .summary = "qwen2, 24 layers"}},
          .runs = {{.precision = "bf16",
                    .kv_type = "int8",
                    .exact = true,
                    .rows_min = 8,
                    .logits_rows_min = 8,
                    .rows_needed = 5,
                    .logits_rows_needed = 2,
                    .lone_token_needs_shadow = true,
                    .ms_self_test = 123.4,
                    .cell_bytes = 6144}}};
}

class DoctorCommand : public ::testing::Test {
 protected:
  int run(std::vector<std::string> arguments) {
    std::FILE* out = std::fopen(dir_.path("out.txt").c_str(), "w");
    std::FILE* err = std::fopen(dir_.path("err.txt").c_str(), "w");
    const int code = run_doctor(
        arguments, {.out = out, .err = err, .examine = [this](const EngineOptions& options) {
                      options_ = options;
                      if (options.on_event) options.on_event("looking\x1b");
                      return report_;
                    }});
    std::fclose(out);
    std::fclose(err);
    return code;
  }
  std::string out() const { return dir_.read("out.txt"); }

  test::TempDir dir_;
  Result<DoctorReport> report_ = healthy();
  EngineOptions options_;
};

TEST_F(DoctorCommand, PrintsWhatItFound) {
  EXPECT_EQ(run({"-m", "a.gguf"}), kExitDone);
  EXPECT_EQ(options_.model, "a.gguf");
  EXPECT_EQ(
      out(),
      "CPU          Invented CPU, 2 cores to use\n"
      "instructions avx512_vnni avx512_bf16\n"
      "             amx_tile is announced but does not work here; it is not used\n"
      "memory       3072 MiB available; this process took 90 MiB at most\n"
      "cache        /cache\n"
      "runtime      OpenVINO 1.2.3 (exact; precisions: f32, bf16)\n"
      "             llama.cpp 4.5.6 (approximate; for other architectures)\n"
      "model        a.gguf: qwen2, 24 layers, 400 MiB\n"
      "law          bf16, int8 cells: exact, to the last bit\n"
      "             passes of at least 8 rows (5 needed), logits of at least 8 rows (2 needed)\n"
      "             attention has to see a token on its own twice\n"
      "             6144 bytes of memory a token; the self-test took 123 ms\n"
      "result       cached, batched and whole prompts agree to the last bit\n");
  EXPECT_EQ(dir_.read("err.txt"), "incipit: looking\\x1b\n");
}

TEST_F(DoctorCommand, GivesAnApproximateRunCode4AndTheReason) {
  report_->runs.push_back({.precision = "f32",
                           .kv_type = "f32",
                           .exact = false,
                           .approximate_reason = "pieces of 2 tokens differ"});
  EXPECT_EQ(run({"-m", "a.gguf"}), kExitMismatch);
  EXPECT_NE(out().find("law          f32, f32 cells: APPROXIMATE: pieces of 2 tokens differ\n"),
            std::string::npos)
      << out();
  EXPECT_NE(out().find("may DIFFER"), std::string::npos);
}

TEST_F(DoctorCommand, TakesARunThatIsNotPossibleForNoFault) {
  report_->runs.push_back(
      {.precision = "bf16", .kv_type = "bf16", .refused = "the CPU has no bf16"});
  EXPECT_EQ(run({"-m", "a.gguf"}), kExitDone);
  EXPECT_NE(out().find("bf16, bf16 cells: cannot run here: the CPU has no bf16"),
            std::string::npos);
}

TEST_F(DoctorCommand, ProvesNothingWhereNoRunIsPossible) {
  report_->runs = {{.precision = "bf16", .kv_type = "int8", .refused = "no memory"}};
  EXPECT_EQ(run({"-m", "a.gguf"}), kExitFailed);
  EXPECT_EQ(out().find("agree to the last bit"), std::string::npos) << out();
  EXPECT_NE(out().find("result       not proved: no precision and cell type can run here\n"),
            std::string::npos)
      << out();
}

TEST_F(DoctorCommand, HasNothingToProveOnLibllama) {
  report_->runs.clear();
  report_->models.front().is_approximate = true;
  EXPECT_EQ(run({"-m", "a.gguf"}), kExitDone);
  EXPECT_NE(out().find("not proved: this model runs on libllama"), std::string::npos) << out();
}

TEST(DoctorText, SaysWhereTheSystemTellsNothing) {
  DoctorReport report = healthy();
  report.cpu.clear();
  report.instructions.clear();
  report.cores = 1;
  const std::string text = doctor_text(report, "");
  EXPECT_NE(
      text.find("CPU          unknown, 1 core to use\ninstructions none of those that matter\n"),
      std::string::npos)
      << text;
}

TEST_F(DoctorCommand, LoadsNoModelWhereOnlyTheMachineIsAskedFor) {
  report_->runs.clear();
  EXPECT_EQ(run({"--machine-only", "-m", "a.gguf"}), kExitDone);
  EXPECT_EQ(options_.model, "");
  EXPECT_NE(out().find("law          not proved: --machine-only loads no model\n"),
            std::string::npos);
}

TEST_F(DoctorCommand, HandsOnAModelThatCannotBeUsed) {
  report_ = failure(ErrorCode::kUnavailable, "no.gguf: \x1b[2J is not supported");
  EXPECT_EQ(run({"-m", "no.gguf"}), kExitFailed);
  EXPECT_EQ(dir_.read("err.txt"),
            "incipit: looking\\x1b\nincipit: no.gguf: \\x1b[2J is not supported\n");
}

TEST(DoctorText, ShowsNoControlCharacterOfAModelFile) {
  DoctorReport report = healthy();
  report.models = {{.file = "/m/\x1b]0;x\x07.gguf", .refused = "architecture \"\n\""}};
  const std::string text = doctor_text(report, "");
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(text.find("model        \\x1b]0;x\\x07.gguf: cannot be used: architecture \"\\n\"\n"),
            std::string::npos)
      << text;
  report.models = {{.file = "/m/b.gguf", .summary = "mixtral", .is_approximate = true}};
  EXPECT_NE(doctor_text(report, "").find("b.gguf: mixtral, 0 MiB; with libllama, approximate\n"),
            std::string::npos);
  report.models.clear();
  EXPECT_NE(doctor_text(report, "").find("none in /cache/models"), std::string::npos);
}

}  // namespace
}  // namespace incipit::app
