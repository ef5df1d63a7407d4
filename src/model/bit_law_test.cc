// SPDX-License-Identifier: Apache-2.0
#include "model/bit_law.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/file.h"
#include "support/must.h"
#include "support/real_runtime.h"
#include "support/temp_dir.h"
#include "support/tiny_model.h"

namespace incipit::model {
namespace {

using test::must;

// On a model of two layers, so that a proof takes milliseconds. Whether a CPU keeps the law is for
// tests/integration to say; here it is what becomes of the answer.
class BitLaw : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] test::RealRuntime open_windowed(std::size_t cells) const {
    std::filesystem::create_directories(folder_);
    return test::open_runtime(
        test::tiny_model_file("bit_law_window", {.architecture = "gemma3", .window = 40}),
        {.cells = cells, .threads = 1, .home = folder_});
  }
  [[nodiscard]] test::RealRuntime open(LawSettings law = {}) const {
    std::filesystem::create_directories(folder_);
    // Three heads of 32: scales of 32 inputs. With those of 64 a tiny model rounds the drift away.
    return test::open_runtime(test::tiny_model_file("bit_law", {.width = 96, .heads = 3}),
                              {.cells = 256, .threads = 1, .law = law, .home = folder_});
  }

  std::string folder_ = test::scratch("bit_law_test");
  std::string proof_ = folder_ + "/law";
};

constexpr LawSettings kNoShadow{.shadow_lone_token = false};

TEST_F(BitLaw, HoldsWithTheUsualSettings) {
  const auto real = open();
  EXPECT_TRUE(must(keeps_the_law(*real)));
  EXPECT_EQ(real->cells_free(), real->limits().cells) << "the test's sequences are gone";
}

TEST_F(BitLaw, HoldsAtTheEdgeOfAWindow) {
  for (const std::size_t cells : {64U, 96U, 256U}) {  // Also where the edge does not fit.
    const auto real = open_windowed(cells);
    EXPECT_EQ(real->window(), 40U);
    EXPECT_TRUE(must(keeps_the_law(*real))) << cells << " cells";
    EXPECT_EQ(real->cells_free(), real->limits().cells);
  }
}

TEST_F(BitLaw, IsSeenToBreakWhereALoneTokenHasNoShadow) {
  EXPECT_FALSE(must(keeps_the_law(*open(kNoShadow))));
}

TEST_F(BitLaw, AProofIsKeptAndReadBack) {
  const auto first = open({.rows_min = 2, .logits_rows_min = 2});
  const LawProof made = must(prove_law(*first, proof_));
  EXPECT_TRUE(made.exact);
  EXPECT_FALSE(made.is_kept);
  EXPECT_TRUE(first->limits().exact);
  EXPECT_EQ(first->limits().approximate_reason, "");
  const auto second = open({.rows_min = 2, .logits_rows_min = 2});
  const LawProof kept = must(prove_law(*second, proof_));
  EXPECT_TRUE(kept.is_kept);
  EXPECT_EQ(kept.exact, made.exact);
  EXPECT_EQ(kept.settings.rows_min, made.settings.rows_min);
  EXPECT_EQ(second->law().logits_rows_min, made.settings.logits_rows_min);
  EXPECT_EQ(second->fingerprint(), first->fingerprint());
  EXPECT_TRUE(second->limits().exact);
}

// Where nothing helps, the runtime says that it is approximate, also from a kept answer.
TEST_F(BitLaw, AFailureIsSaidAndKept) {
  for (const bool is_kept : {false, true}) {
    const auto real = open(kNoShadow);
    const LawProof proof = must(prove_law(*real, proof_));
    EXPECT_EQ(proof.is_kept, is_kept);
    EXPECT_FALSE(proof.exact);
    EXPECT_NE(proof.reason, "");
    EXPECT_FALSE(real->limits().exact);
    EXPECT_EQ(real->limits().approximate_reason, proof.reason);
  }
}

TEST_F(BitLaw, ADamagedProofIsMadeAgain) {
  const auto real = open();
  must(prove_law(*real, proof_));
  const std::string good = must(read_file(proof_, 4096));
  for (const std::string& damaged :
       {std::string(), std::string("rows_min"), good.substr(0, good.find("exact")),
        std::string("rows_min 0\nlogits_rows_min 8\nexact 1\nms 1\n"),
        std::string("rows_min 8\nlogits_rows_min 1\nexact 1\nms 1\n"),
        std::string("rows_min 99\nlogits_rows_min 8\nexact 1\nms 1\n"),
        std::string("rows_min -8\nlogits_rows_min 8\nexact 1\nms 1\n"),
        std::string("rows_min 8\nlogits_rows_min 8\nexact 7\nms 1\n"), std::string(5000, '8')}) {
    must(write_file(proof_, damaged));
    EXPECT_FALSE(must(prove_law(*real, proof_)).is_kept) << damaged.substr(0, 60);
    EXPECT_TRUE(must(prove_law(*real, proof_)).is_kept);
  }
}

TEST_F(BitLaw, AProofThatCannotBeKeptIsAnError) {
  const auto real = open();
  const auto proof = prove_law(*real, folder_ + "/absent/law");
  ASSERT_FALSE(proof);
  EXPECT_NE(proof.error().message.find("absent"), std::string::npos);
}

TEST_F(BitLaw, AMeasurementLeavesTheRuntimeAsItWas) {
  const auto real = open();
  const std::string before = real->fingerprint();
  const LawMeasurement measured = must(measure_law(*real));
  EXPECT_TRUE(measured.lone_token_needs_shadow);
  EXPECT_GE(measured.rows_min, 1U);
  EXPECT_LE(measured.rows_min, real->law().rows_min);
  EXPECT_EQ(real->fingerprint(), before);
}

}  // namespace
}  // namespace incipit::model
