// SPDX-License-Identifier: Apache-2.0
#include "incipit/svg_plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "incipit/html_text.h"

namespace incipit::app {
namespace {

// Units of the view box. On a desktop one unit is about one pixel.
constexpr double kWidth = 480;
constexpr double kHeight = 320;
constexpr double kLeft = 52;
constexpr double kTop = 38;
constexpr double kBottom = 70;
constexpr double kLargestType = 17;  // The style sheet's size on a narrow screen.
constexpr double kAdvance = 0.6;     // Mean width of a character, in type sizes.
constexpr double kTickGap = 8;       // Between the labels of neighbouring ticks.
constexpr std::size_t kLooks = 4;    // Series looks in the style sheet; more series reuse them.

constexpr std::string_view kStyle = R"css(
.plot { display: block; width: 100%; height: auto; overflow: visible; }
.plot text { font: 13px system-ui, sans-serif; fill: var(--muted); }
.plot .grid { stroke: var(--line); stroke-width: 1; }
.plot .axis { stroke: var(--muted); stroke-width: 1.25; }
.plot .end { fill: var(--look); font-weight: 600; paint-order: stroke; stroke: var(--card);
  stroke-width: 4px; stroke-linejoin: round; }
.plot .title { fill: var(--ink); }
.plot .curve { fill: none; stroke: var(--look); stroke-width: 2.5; stroke-linejoin: round;
  stroke-linecap: round; }
.plot .mark { fill: var(--card); stroke: var(--look); stroke-width: 2.25; }
.look0 { --look: var(--first); }
.look1 { --look: var(--second); }
.look2 { --look: var(--third); }
.look3 { --look: var(--fourth); }
.plot .look1 .curve, .key .look1 .curve { stroke-dasharray: 8 5; }
.plot .look2 .curve, .key .look2 .curve { stroke-dasharray: 2 5; }
.plot .look3 .curve, .key .look3 .curve { stroke-dasharray: 10 4 2 4; }
@media (max-width: 520px) { .plot text { font-size: 17px; } }
)css";

bool is_drawable(const PlotPoint& point, Scale y_scale) {
  const bool has_height = std::isfinite(point.y) && (y_scale == Scale::kFromZero || point.y > 0);
  return std::isfinite(point.x) && point.x > 0 && has_height;
}

// Where data goes on the page.
struct Frame {
  double x_low = 0;  // Natural logarithms of the smallest and the largest x.
  double x_high = 0;
  Scale y_scale = Scale::kFromZero;
  std::vector<double> y_ticks = {0, 1};
  double right = 0;  // Margin for the names at the ends of the lines.

  [[nodiscard]] double x(double value) const {
    const double share = x_high > x_low ? (std::log(value) - x_low) / (x_high - x_low) : 0.5;
    return kLeft + 12 + share * (kWidth - right - kLeft - 12);
  }
  [[nodiscard]] double y(double value) const {
    const double share =
        y_scale == Scale::kFromZero
            ? value / y_ticks.back()
            : std::log(value / y_ticks.front()) / std::log(y_ticks.back() / y_ticks.front());
    return kHeight - kBottom - share * (kHeight - kBottom - kTop);
  }
};

std::string coordinate(double value) { return fixed_number(value, 1); }

std::string text_at(double x, double y, std::string_view attributes, std::string_view text) {
  return "<text x=\"" + coordinate(x) + "\" y=\"" + coordinate(y) + "\" " +
         std::string(attributes) + ">" + escape_html(text) + "</text>\n";
}

std::string line_of(std::string_view kind, std::array<double, 4> ends) {
  return "<line class=\"" + std::string(kind) + "\" x1=\"" + coordinate(ends[0]) + "\" y1=\"" +
         coordinate(ends[1]) + "\" x2=\"" + coordinate(ends[2]) + "\" y2=\"" + coordinate(ends[3]) +
         "\"/>\n";
}

// A value with as many digits as a reader needs: 3 significant ones.
std::string short_number(double value) {
  const double size = std::abs(value);
  return fixed_number(value, size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
}

std::vector<PlotSeries> drawable_series(const Plot& plot) {
  std::vector<PlotSeries> series = plot.series;
  for (PlotSeries& one : series) {
    std::erase_if(one.points,
                  [&](const PlotPoint& point) { return !is_drawable(point, plot.y_scale); });
  }
  std::erase_if(series, [](const PlotSeries& one) { return one.points.empty(); });
  return series;
}

std::string end_label(const PlotSeries& series, const Plot& plot) {
  return series.name + " " + short_number(series.points.back().y) + plot.y_unit;
}

Frame frame_of(const Plot& plot, const std::vector<PlotSeries>& series) {
  Frame frame{.x_low = std::log(series.front().points.front().x),
              .x_high = std::log(series.front().points.front().x),
              .y_scale = plot.y_scale};
  double y_min = series.front().points.front().y;
  double y_max = y_min;
  std::size_t label_size = 0;
  for (const PlotSeries& one : series) {
    label_size = std::max(label_size, end_label(one, plot).size());
    for (const PlotPoint& point : one.points) {
      frame.x_low = std::min(frame.x_low, std::log(point.x));
      frame.x_high = std::max(frame.x_high, std::log(point.x));
      y_min = std::min(y_min, point.y);
      y_max = std::max(y_max, point.y);
    }
  }
  frame.y_ticks =
      plot.y_scale == Scale::kFromZero ? axis_ticks(y_max) : logarithmic_ticks(y_min, y_max);
  // A hostile name must not push the lines off the page: at most 40 % is for names.
  const double wanted = 14 + kAdvance * kLargestType * static_cast<double>(label_size);
  frame.right = std::min(wanted, 0.4 * kWidth);
  return frame;
}

std::string y_axis(const Plot& plot, const Frame& frame) {
  std::string svg;
  const double step = frame.y_ticks[1] - frame.y_ticks[0];
  const int decimals = step >= 1 && step == std::floor(step) ? 0 : step >= 0.1 ? 1 : 2;
  for (const double tick : frame.y_ticks) {
    const double y = frame.y(tick);
    const std::string_view kind = tick == frame.y_ticks.front() ? "axis" : "grid";
    svg += line_of(kind, {kLeft, y, kWidth - frame.right, y});
    svg += text_at(kLeft - 8, y + 5, "text-anchor=\"end\"", fixed_number(tick, decimals));
  }
  return svg + text_at(0, 14, "class=\"title\"", plot.y_title);
}

std::string x_axis(const Plot& plot, const Frame& frame) {
  const auto half_width = [](const PlotTick& tick) {
    const std::size_t characters = std::max(tick.label.size(), tick.note.size());
    return (kAdvance * kLargestType * static_cast<double>(characters) + kTickGap) / 2;
  };
  std::string svg;
  const double base = kHeight - kBottom;
  // The last tick always has its label; the others only where there is room.
  const double last_from =
      plot.ticks.empty() ? 0 : frame.x(plot.ticks.back().x) - half_width(plot.ticks.back());
  double free_from = -kWidth;
  for (std::size_t i = 0; i < plot.ticks.size(); ++i) {
    const PlotTick& tick = plot.ticks[i];
    const double x = frame.x(tick.x);
    const double half = half_width(tick);
    svg += line_of("axis", {x, base, x, base + 5});
    const bool is_last = i + 1 == plot.ticks.size();
    if (!is_last && (x - half < free_from || x + half > last_from)) continue;
    free_from = x + half;
    svg += text_at(x, base + 21, "text-anchor=\"middle\"", tick.label);
    if (!tick.note.empty()) svg += text_at(x, base + 39, "text-anchor=\"middle\"", tick.note);
  }
  const bool has_notes =
      std::ranges::any_of(plot.ticks, [](const PlotTick& tick) { return !tick.note.empty(); });
  const double middle = (kLeft + kWidth - frame.right) / 2;
  return svg + text_at(middle, base + (has_notes ? 62 : 46),
                       "class=\"title\" text-anchor=\"middle\"", plot.x_title);
}

std::string marker(std::size_t look, double x, double y) {
  const std::string place =
      "\" transform=\"translate(" + coordinate(x) + " " + coordinate(y) + ")\"";
  constexpr std::array<std::string_view, kLooks> kShapes = {
      "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", "M-3.6 -3.6h7.2v7.2h-7.2z", "M0 -5L4.6 3.4H-4.6z",
      "M0 -5L5 0L0 5L-5 0z"};
  return "<path class=\"mark\" d=\"" + std::string(kShapes[look]) + place;
}

std::string curve(const PlotSeries& series, std::size_t look, const Plot& plot,
                  const Frame& frame) {
  std::string path;
  std::string marks;
  for (const PlotPoint& point : series.points) {
    const double x = frame.x(point.x);
    const double y = frame.y(point.y);
    path += (path.empty() ? "M" : "L") + coordinate(x) + " " + coordinate(y);
    marks += marker(look, x, y) + "><title>" +
             escape_html(series.name + ": " + short_number(point.y) + plot.y_unit) +
             "</title></path>\n";
  }
  return "<g class=\"look" + std::to_string(look) + "\">\n<path class=\"curve\" d=\"" + path +
         "\"/>\n" + marks + "</g>\n";
}

// The names at the ends of the lines, moved apart where lines end close together.
std::string end_labels(const Plot& plot, const std::vector<PlotSeries>& series,
                       const Frame& frame) {
  struct Place {
    double y;
    std::size_t index;
  };
  std::vector<Place> places;
  for (std::size_t i = 0; i < series.size(); ++i) {
    places.push_back({frame.y(series[i].points.back().y) + 5, i});
  }
  std::ranges::stable_sort(places, {}, &Place::y);
  constexpr double kLineHeight = kLargestType + 1;
  for (std::size_t i = 1; i < places.size(); ++i) {
    places[i].y = std::max(places[i].y, places[i - 1].y + kLineHeight);
  }
  // What was pushed below the axis pushes back up.
  double limit = kHeight - kBottom;
  for (std::size_t i = places.size(); i-- > 0; limit = places[i].y - kLineHeight) {
    places[i].y = std::min(places[i].y, limit);
  }
  std::string svg;
  for (const Place& place : places) {
    const PlotSeries& one = series[place.index];
    svg += text_at(frame.x(one.points.back().x) + 11, place.y,
                   "class=\"end look" + std::to_string(place.index % kLooks) + "\"",
                   end_label(one, plot));
  }
  return svg;
}

}  // namespace

std::vector<double> axis_ticks(double max) {
  if (!std::isfinite(max) || max <= 0) max = 1;
  const double rough = max / 5;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.5, 2.0, 1.0}) {
    if (factor * power >= rough) step = factor * power;
  }
  std::vector<double> ticks = {0};
  // The tolerance keeps a rounding error from adding an empty step above `max`.
  while (ticks.back() < max * (1 - 1e-9)) {
    ticks.push_back(step * static_cast<double>(ticks.size()));
  }
  return ticks;
}

std::vector<double> logarithmic_ticks(double min, double max) {
  const double decades = std::log10(max / min);
  const std::vector<double> factors =
      decades > 3 ? std::vector<double>{1} : std::vector<double>{1, 2, 5};
  std::vector<double> ticks;
  const auto is_missing = [&] { return ticks.size() < 2 || ticks.back() < max; };
  for (double power = std::pow(10, std::floor(std::log10(min))); is_missing(); power *= 10) {
    for (const double factor : factors) {
      const double tick = factor * power;
      if (tick <= min) ticks.clear();  // Only the largest tick below the data stays.
      if (is_missing()) ticks.push_back(tick);
    }
  }
  return ticks;
}

bool has_points(const Plot& plot) { return !drawable_series(plot).empty(); }

std::string_view svg_plot_style() { return kStyle; }

std::string svg_plot(const Plot& plot) {
  const std::vector<PlotSeries> series = drawable_series(plot);
  const Frame frame = frame_of(plot, series);
  const std::string label = escape_html(plot.id) + "-description";
  std::string svg = "<svg class=\"plot\" role=\"img\" aria-labelledby=\"" + label +
                    "\" viewBox=\"0 0 " + fixed_number(kWidth, 0) + " " + fixed_number(kHeight, 0) +
                    "\">\n<desc id=\"" + label + "\">" + escape_html(plot.description) +
                    "</desc>\n";
  svg += y_axis(plot, frame) + x_axis(plot, frame);
  for (std::size_t i = 0; i < series.size(); ++i) {
    svg += curve(series[i], i % kLooks, plot, frame);
  }
  return svg + end_labels(plot, series, frame) + "</svg>\n";
}

}  // namespace incipit::app
