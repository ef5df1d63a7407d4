// SPDX-License-Identifier: Apache-2.0
#include "decode/pass_runner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "support/fake_runtime.h"

namespace incipit::decode {
namespace {

using test::FakeRuntime;

const std::vector<std::uint32_t> kFirstRow{0};
const TokenVector kTail{20, 21};

// Hangs `tails` items below each root and keeps the last logit of every row that it reads.
class Recorder final : public PassVisitor {
 public:
  explicit Recorder(std::size_t tails) : tails_(tails) {}

  void read(const PassItem& item, const model::Logits& logits, std::size_t first_row) override {
    read_[{item.prompt, item.segment}] = logits.row(first_row).back();
  }
  std::vector<PassItem> next(const PassItem& item, const model::Sequence& sequence) override {
    std::vector<PassItem> below;
    for (std::size_t i = 1; item.segment == 0 && i <= tails_; ++i) {
      below.push_back({.prompt = item.prompt,
                       .segment = i,
                       .parent = sequence.id(),
                       .shared = sequence.length(),
                       .tokens = kTail,
                       .logits_rows = kFirstRow});
    }
    return below;
  }
  void does_not_fit(const PassItem& item) override { refused_.push_back(item.prompt); }

  [[nodiscard]] const auto& rows() const { return read_; }
  [[nodiscard]] const std::vector<std::size_t>& refused() const { return refused_; }

 private:
  std::size_t tails_;
  std::map<std::pair<std::size_t, std::size_t>, float> read_;
  std::vector<std::size_t> refused_;
};

std::vector<PassItem> roots_of(const std::vector<TokenVector>& prompts, bool has_more) {
  std::vector<PassItem> roots;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    roots.push_back(
        {.prompt = i, .tokens = prompts[i], .logits_rows = kFirstRow, .has_more = has_more});
  }
  return roots;
}

const std::vector<TokenVector> kPrompts{{1, 2, 3}, {4, 5}, {6}, {7, 8, 9, 10}};

TEST(PassRunner, TakesOnePassForEachLevelWhereThereIsRoom) {
  FakeRuntime runtime;
  PassRunner runner(runtime, {});
  Recorder recorder(3);
  ASSERT_TRUE(runner.run(roots_of(kPrompts, true), recorder));
  EXPECT_EQ(recorder.rows().size(), 4U + 4 * 3);
  EXPECT_EQ(runner.counters().passes, 2U);
  EXPECT_EQ(runner.counters().tokens, 10U + 4 * 3 * 2);
  EXPECT_EQ(runner.counters().logits_rows, 16U);
  EXPECT_EQ(runtime.counters().passes, 2U);
}

TEST(PassRunner, FewCellsCostPassesAndChangeNothing) {
  FakeRuntime roomy;
  Recorder want(3);
  ASSERT_TRUE(PassRunner(roomy, {}).run(roots_of(kPrompts, true), want));
  for (std::size_t cells = 6; cells < 40; ++cells) {
    FakeRuntime tight({.cells = cells});
    Recorder got(3);
    ASSERT_TRUE(PassRunner(tight, {}).run(roots_of(kPrompts, true), got));
    EXPECT_TRUE(got.refused().empty()) << cells;
    EXPECT_EQ(got.rows(), want.rows()) << cells;
    EXPECT_EQ(tight.cells_free(), cells);
  }
}

// The estimate is wrong where a fork costs more than it says: then the group is halved.
TEST(PassRunner, HalvesAGroupThatIsRefused) {
  FakeRuntime runtime({.cells = 10});
  PassRunner runner(runtime, {});
  Recorder recorder(0);
  const std::vector<PassItem> roots = roots_of(kPrompts, false);
  ASSERT_TRUE(runner.run(roots, recorder));
  EXPECT_EQ(runner.counters().passes, 1U);
  runtime.withhold_cells(5);
  ASSERT_TRUE(runner.run(roots, recorder));
  EXPECT_TRUE(recorder.refused().empty());
  EXPECT_EQ(runner.counters().passes, 1U + 2);
}

TEST(PassRunner, RefusesOnlyWhatDoesNotFitByItself) {
  FakeRuntime runtime({.cells = 3});
  Recorder recorder(0);
  ASSERT_TRUE(PassRunner(runtime, {}).run(roots_of(kPrompts, false), recorder));
  EXPECT_EQ(recorder.refused(), (std::vector<std::size_t>{3}));
  EXPECT_EQ(recorder.rows().size(), 3U);
}

TEST(PassRunner, StopsAtAFailureOfTheModelAndDropsItsForks) {
  FakeRuntime runtime;
  for (std::size_t nth = 1; nth <= 2; ++nth) {
    runtime.fail_evaluate(nth);
    Recorder recorder(2);
    const auto done = PassRunner(runtime, {}).run(roots_of(kPrompts, true), recorder);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ErrorCode::kInternal);
    EXPECT_EQ(runtime.sequence_count(), 0U);
  }
}

TEST(PassRunner, RunSinglyHoldsOnePath) {
  FakeRuntime runtime({.cells = 6});
  PassRunner runner(runtime, {});
  Recorder recorder(3);
  const std::vector<TokenVector> prompt{{1, 2, 3, 4}};
  const std::vector<PassItem> roots = roots_of(prompt, true);
  ASSERT_TRUE(runner.run_singly(roots[0], recorder));
  EXPECT_TRUE(recorder.refused().empty());
  EXPECT_EQ(runner.counters().passes, 1U + 3);
}

}  // namespace
}  // namespace incipit::decode
