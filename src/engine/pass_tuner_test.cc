// SPDX-License-Identifier: Apache-2.0
#include "engine/pass_tuner.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace incipit::engine {
namespace {

// Runs passes of the size that the tuner asks for, until it has had time to settle.
std::size_t settled_rows(PassTuner& tuner, const std::function<double(std::size_t)>& ms_per_row) {
  for (int i = 0; i < 20; ++i) {
    tuner.record(tuner.rows(), ms_per_row(tuner.rows()) * static_cast<double>(tuner.rows()));
  }
  return tuner.rows();
}

TEST(PassTuner, GrowsWhileLargerPassesAreCheaperPerRow) {
  PassTuner tuner(256, 4096);
  EXPECT_EQ(tuner.rows(), 256U);
  EXPECT_EQ(
      settled_rows(tuner, [](std::size_t rows) { return 1.0 + 100.0 / static_cast<double>(rows); }),
      1024U);
}

TEST(PassTuner, GoesBackToTheSizeThatWasBest) {
  PassTuner tuner(256, 4096);
  EXPECT_EQ(settled_rows(tuner,
                         [](std::size_t rows) {
                           return rows == 1024 ? 3.0 : rows == 512 ? 1.0 : 2.0;
                         }),
            512U);
  PassTuner steady(256, 4096);
  EXPECT_EQ(settled_rows(steady, [](std::size_t) { return 1.0; }), 256U) << "no gain, no memory";
}

TEST(PassTuner, KeepsToWhatMemoryAllows) {
  PassTuner tuner(256, 600);
  EXPECT_EQ(settled_rows(tuner, [](std::size_t rows) { return 1.0 / static_cast<double>(rows); }),
            512U);
  PassTuner tiny(40, 20);
  EXPECT_EQ(settled_rows(tiny, [](std::size_t) { return 1.0; }), 40U);
}

// The last pass of a file is small, and one with a giant ticket is large.
TEST(PassTuner, LearnsNothingFromPassesOfAnotherSize) {
  PassTuner tuner(256, 4096);
  for (int i = 0; i < 50; ++i) {
    tuner.record(3, 1000);
    tuner.record(2000, 1000);
  }
  EXPECT_EQ(tuner.rows(), 256U);
}

// The first pass of a size is slow for a reason of its own: the better of two counts.
TEST(PassTuner, ForgivesTheFirstPassOfASize) {
  PassTuner tuner(256, 4096);
  tuner.record(256, 256 * 9.0);
  tuner.record(256, 256 * 1.0);
  EXPECT_EQ(tuner.rows(), 512U);
  tuner.record(512, 512 * 9.0);
  tuner.record(512, 512 * 0.5);
  EXPECT_EQ(tuner.rows(), 1024U);
}

// Once it has settled, a busy machine does not move it.
TEST(PassTuner, StaysSettled) {
  PassTuner tuner(256, 600);
  settled_rows(tuner, [](std::size_t rows) { return 1.0 / static_cast<double>(rows); });
  EXPECT_EQ(settled_rows(tuner, [](std::size_t) { return 100.0; }), 512U);
}

}  // namespace
}  // namespace incipit::engine
