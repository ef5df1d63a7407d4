// SPDX-License-Identifier: Apache-2.0
//
// Progress on standard error: a bar that redraws itself on a terminal, else a line now and then.
//
//     classify 240/600 40% [00:32<00:48, 7.5 tickets/s] ok 231 review 8 err 1
#pragma once

#include <cstdio>
#include <string>

#include "incipit/classify_file.h"

namespace incipit::app {

// The line above. Without a number of rows in all it has no share and no time left.
[[nodiscard]] std::string progress_text(const Progress& progress, double elapsed_s);

// A bar of `width` characters.
[[nodiscard]] std::string progress_bar(double share, std::size_t width);

class ProgressLine {
 public:
  struct Style {
    bool is_terminal = false;
    bool has_colour = false;
  };

  ProgressLine(std::FILE* err, Style style) : err_(err), style_(style) {}

  // Draws if it is time to: ten times a second on a terminal, else every ten seconds or 5 %.
  void update(const Progress& progress, double elapsed_s);
  // Draws the last state and ends the line.
  void finish(double elapsed_s);

 private:
  void draw(double elapsed_s);

  std::FILE* err_;
  Style style_;
  Progress last_;
  double drawn_s_ = -1e9;
  double drawn_share_ = 0;
  bool has_bar_ = false;  // A bar stands on the terminal's current line.
};

}  // namespace incipit::app
