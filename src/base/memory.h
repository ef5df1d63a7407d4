// SPDX-License-Identifier: Apache-2.0
//
// How much memory this process may still take, and how much it took at most.
#pragma once

#include <cstddef>

namespace incipit {

// The smaller of the system's available memory and what is left under the control group's limit.
[[nodiscard]] std::size_t available_memory_bytes();

// The peak of the resident set (VmHWM); 0 where the system does not tell.
[[nodiscard]] std::size_t peak_memory_bytes();

}  // namespace incipit
