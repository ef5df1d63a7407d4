// SPDX-License-Identifier: Apache-2.0
//
// How many rows a pass should have, found while working.
//
// More rows share the cost of reading the weights; too many leave the CPU's caches. Where the
// best lies depends on model, precision and machine, so the sizes are tried upwards on real work
// and the fastest per row is kept. Results do not depend on it (docs/adr/0002), time does.
// Confined to one thread.
#pragma once

#include <cstddef>
#include <vector>

namespace incipit::engine {

class PassTuner {
 public:
  // Tries `rows_least`, twice and four times as many, up to `rows_most`.
  PassTuner(std::size_t rows_least, std::size_t rows_most);

  // Rows that the next pass should have.
  [[nodiscard]] std::size_t rows() const { return sizes_[current_].rows; }

  // Tells what a pass of `rows` rows took. Passes far from rows() teach nothing: they are the
  // end of a file.
  void record(std::size_t rows, double ms);

 private:
  struct Size {
    std::size_t rows = 0;
    std::size_t trials = 0;
    double ms_per_row = 0;  // The best of its trials.
  };
  std::vector<Size> sizes_;  // Ascending.
  std::size_t current_ = 0;
  bool settled_ = false;
};

}  // namespace incipit::engine
