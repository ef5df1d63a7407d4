// SPDX-License-Identifier: Apache-2.0
//
// A count with its noun, for messages and reports: "1 row", "2 rows", "0 passes".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace incipit {

// Returns "1 `one`", else `count` with the noun's plural: `many`, or `one` with an s behind it.
[[nodiscard]] inline std::string counted(std::uint64_t count, std::string_view one,
                                         std::string_view many = {}) {
  std::string text = std::to_string(count) + ' ';
  if (count == 1) return text.append(one);
  return many.empty() ? text.append(one).append("s") : text.append(many);
}

}  // namespace incipit
