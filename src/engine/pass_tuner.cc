// SPDX-License-Identifier: Apache-2.0
#include "engine/pass_tuner.h"

#include <algorithm>

namespace incipit::engine {
namespace {

constexpr std::size_t kFactors[] = {1, 2, 4};
constexpr std::size_t kTrials = 2;    // The first pass of a size also compiles kernels.
constexpr double kWorthwhile = 0.98;  // A larger pass must save 2 % to be worth its memory.

}  // namespace

PassTuner::PassTuner(std::size_t rows_least, std::size_t rows_most) {
  for (const std::size_t factor : kFactors) {
    if (factor == 1 || rows_least * factor <= rows_most)
      sizes_.push_back({.rows = rows_least * factor, .trials = 0, .ms_per_row = 0});
  }
}

void PassTuner::record(std::size_t rows, double ms) {
  Size& size = sizes_[current_];
  if (settled_ || rows < size.rows * 3 / 4 || rows > size.rows * 5 / 4) return;
  const double ms_per_row = ms / static_cast<double>(rows);
  size.ms_per_row = size.trials == 0 ? ms_per_row : std::min(size.ms_per_row, ms_per_row);
  if (++size.trials < kTrials) return;
  const bool better =
      current_ == 0 || size.ms_per_row < sizes_[current_ - 1].ms_per_row * kWorthwhile;
  if (!better) {
    --current_;
    settled_ = true;
  } else if (current_ + 1 < sizes_.size()) {
    ++current_;
  } else {
    settled_ = true;
  }
}

}  // namespace incipit::engine
