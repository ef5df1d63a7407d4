// SPDX-License-Identifier: Apache-2.0
//
// How long something took, by the clock that never jumps.
#pragma once

#include <chrono>

namespace incipit {

[[nodiscard]] inline double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace incipit
