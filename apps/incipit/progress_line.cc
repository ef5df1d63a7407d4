// SPDX-License-Identifier: Apache-2.0
#include "incipit/progress_line.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace incipit::app {
namespace {

constexpr double kRedrawS = 0.1;
constexpr double kLineS = 10;
constexpr double kLineShare = 0.05;
constexpr std::size_t kBarWidth = 24;

std::string clock_text(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::clamp(seconds, 0.0, 359'999.0));
  std::array<char, 32> buffer{};
  if (whole >= 3600) {
    std::snprintf(buffer.data(), buffer.size(), "%u:%02u:%02u", unsigned(whole / 3600),
                  unsigned(whole / 60 % 60), unsigned(whole % 60));
  } else {
    std::snprintf(buffer.data(), buffer.size(), "%02u:%02u", unsigned(whole / 60),
                  unsigned(whole % 60));
  }
  return buffer.data();
}

double share_of(const Progress& progress) {
  if (progress.rows_in_all == 0) return 0;
  return std::min(1.0,
                  static_cast<double>(progress.rows) / static_cast<double>(progress.rows_in_all));
}

}  // namespace

std::string progress_text(const Progress& progress, double elapsed_s) {
  const double rate = elapsed_s > 0 ? static_cast<double>(progress.rows) / elapsed_s : 0;
  std::string text = "classify " + std::to_string(progress.rows);
  std::string left;
  if (progress.rows_in_all > 0) {
    text += "/" + std::to_string(progress.rows_in_all) + " " +
            std::to_string(static_cast<int>(100 * share_of(progress))) + "%";
    const auto rest =
        static_cast<double>(progress.rows_in_all - std::min(progress.rows, progress.rows_in_all));
    left = "<" + (rate > 0 ? clock_text(std::round(rest / rate)) : "??:??");
  }
  std::array<char, 48> speed{};
  std::snprintf(speed.data(), speed.size(), "%.1f tickets/s", rate);
  return text + " [" + clock_text(elapsed_s) + left + ", " + speed.data() + "] ok " +
         std::to_string(progress.ok) + " review " + std::to_string(progress.review) + " err " +
         std::to_string(progress.errors);
}

std::string progress_bar(double share, std::size_t width) {
  const auto filled =
      static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(width));
  return std::string(filled, '#') + std::string(width - filled, '-');
}

void ProgressLine::update(const Progress& progress, double elapsed_s) {
  last_ = progress;
  const double share = share_of(progress);
  const bool is_due = style_.is_terminal ? elapsed_s - drawn_s_ >= kRedrawS
                                         : elapsed_s - std::max(drawn_s_, 0.0) >= kLineS ||
                                               share - drawn_share_ >= kLineShare;
  if (is_due) draw(elapsed_s);
}

void ProgressLine::draw(double elapsed_s) {
  drawn_s_ = elapsed_s;
  drawn_share_ = share_of(last_);
  const std::string text = progress_text(last_, elapsed_s);
  if (!style_.is_terminal) {
    std::fprintf(err_, "%s\n", text.c_str());
    return;
  }
  std::string bar;
  if (last_.rows_in_all > 0) {
    bar = "[" + progress_bar(drawn_share_, kBarWidth) + "] ";
    if (style_.has_colour) bar = "\x1b[32m" + bar + "\x1b[0m";
  }
  std::fprintf(err_, "\r\x1b[K%s%s", bar.c_str(), text.c_str());
  std::fflush(err_);
  has_bar_ = true;
}

void ProgressLine::finish(double elapsed_s) {
  if (last_.rows == 0) return;
  const bool is_stale = style_.is_terminal || drawn_share_ < share_of(last_) || drawn_s_ < 0;
  if (is_stale) draw(elapsed_s);
  if (has_bar_) std::fputc('\n', err_);
  has_bar_ = false;
}

}  // namespace incipit::app
