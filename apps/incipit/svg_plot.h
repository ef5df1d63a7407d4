// SPDX-License-Identifier: Apache-2.0
//
// A line plot as inline SVG: lines, points, axes and labels, without script or outside resources.
//
//     y title
//     |   o---o            each series has a colour, a marker and a dash pattern of its own, so
//     |  /     \---o name  that it is told apart in print and without colour; its name and last
//     +--+---+---+---      value stand at its end
//      50  100  200
//
// Colours and type sizes come from the page's style sheet (svg_plot_style()), which follows the
// reader's light or dark setting and enlarges the type on a narrow screen; the margins leave room
// for the larger size. x is logarithmic, since both of our plots double from point to point. y
// starts at zero, or is logarithmic too where ratios are shown. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace incipit::app {

struct PlotPoint {
  double x = 0;  // More than zero.
  double y = 0;
};

struct PlotSeries {
  std::string name;
  std::vector<PlotPoint> points;  // By rising x.
};

struct PlotTick {
  double x = 0;
  std::string label;
  std::string note;  // A second line under the label; may be empty.
};

enum class Scale { kFromZero, kLogarithmic };

struct Plot {
  std::string id;           // Unique in the page, letters and hyphens only.
  std::string description;  // For those who cannot see the plot.
  std::string x_title;
  std::string y_title;
  std::string y_unit;  // Follows a value directly: "x", " ms".
  Scale y_scale = Scale::kFromZero;
  std::vector<PlotTick> ticks;
  std::vector<PlotSeries> series;
};

// Returns an <svg> element. Points that have no place are left out: a number that is not
// finite, or one that is not above zero on a logarithmic scale.
// Requires: at least one series has a point that can be drawn; see has_points().
std::string svg_plot(const Plot& plot);

// Tells whether there is anything to draw.
bool has_points(const Plot& plot);

// The style rules that every plot of a page needs once.
std::string_view svg_plot_style();

// Returns round values from 0 up that cover [0, max] in about five steps of 1, 2, 2.5 or 5 times
// a power of ten; the last is at least `max`.
std::vector<double> axis_ticks(double max);

// Returns the values 1, 2 and 5 times a power of ten (only the powers where the range is wide)
// around [min, max]. Requires: 0 < min <= max.
std::vector<double> logarithmic_ticks(double min, double max);

}  // namespace incipit::app
