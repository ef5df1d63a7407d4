// SPDX-License-Identifier: Apache-2.0
#include "incipit/svg_plot.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <regex>
#include <string>
#include <vector>

namespace incipit::app {
namespace {

TEST(AxisTicks, StartAtZeroAndCoverTheLargestValueInFewSteps) {
  for (double max = 1e-3; max < 1e6; max *= 1.07) {
    const std::vector<double> ticks = axis_ticks(max);
    EXPECT_EQ(ticks.front(), 0);
    EXPECT_GE(ticks.back(), max * (1 - 1e-9));
    EXPECT_LT(ticks[ticks.size() - 2], max);
    EXPECT_GE(ticks.size(), 3U) << max;
    EXPECT_LE(ticks.size(), 6U) << max;
  }
  EXPECT_EQ(axis_ticks(100), (std::vector<double>{0, 20, 40, 60, 80, 100}));
  EXPECT_EQ(axis_ticks(0).back(), 1);
  EXPECT_EQ(axis_ticks(std::numeric_limits<double>::quiet_NaN()).back(), 1);
}

TEST(LogarithmicTicks, EncloseTheDataClosely) {
  EXPECT_EQ(logarithmic_ticks(4.5, 150), (std::vector<double>{2, 5, 10, 20, 50, 100, 200}));
  EXPECT_EQ(logarithmic_ticks(10, 10), (std::vector<double>{10, 20}));
  EXPECT_EQ(logarithmic_ticks(5, 5), (std::vector<double>{5, 10}));
  for (double min = 1e-3; min < 1e4; min *= 1.3) {
    for (double max = min; max < 1e7; max *= 1.7) {
      const std::vector<double> ticks = logarithmic_ticks(min, max);
      ASSERT_GE(ticks.size(), 2U);
      EXPECT_LE(ticks.front(), min);
      EXPECT_GE(ticks.back(), max);
      EXPECT_GT(ticks[1], min);
      EXPECT_TRUE(ticks.size() == 2 || ticks[ticks.size() - 2] < max);
    }
  }
}

TEST(SvgPlot, KeepsEndLabelsApartWhereLinesEndTogether) {
  Plot plot{.id = "p",
            .description = "",
            .x_title = "",
            .y_title = "",
            .y_unit = "",
            .y_scale = Scale::kFromZero,
            .ticks = {},
            .series = {}};
  for (int i = 0; i < 4; ++i) plot.series.push_back({"s" + std::to_string(i), {{1, 1}, {2, 0}}});
  const std::string svg = svg_plot(plot);
  std::vector<double> heights;
  const std::regex label("<text x=\"[^\"]*\" y=\"([^\"]*)\" class=\"end");
  for (std::sregex_iterator it(svg.begin(), svg.end(), label), end; it != end; ++it) {
    heights.push_back(std::stod((*it)[1]));
  }
  ASSERT_EQ(heights.size(), 4U);
  for (std::size_t i = 1; i < heights.size(); ++i) EXPECT_GE(heights[i] - heights[i - 1], 17);
  EXPECT_LE(heights.back(), 250);
}

}  // namespace
}  // namespace incipit::app
