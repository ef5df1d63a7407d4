// SPDX-License-Identifier: Apache-2.0
//
// What this processor can do, as far as it shapes the bits of a result.
//
// The instruction level chooses the kernels, and kernels differ in their last bits: it is part of
// every fingerprint. An announced AMX is tried in a child process before it is believed, since
// some virtual machines announce it and trap on its first instruction.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace incipit::model {

struct CpuFacts {
  std::string name;                       // As the processor calls itself.
  std::vector<std::string> instructions;  // Such as "avx2", "avx512_vnni"; only what works.
  std::vector<std::string> broken;        // Announced, but trapped when tried.

  [[nodiscard]] bool has(const std::string& instruction) const;
  [[nodiscard]] std::string instructions_text() const;  // Joined by spaces.
};

// Asks once; later calls return the first answer.
const CpuFacts& cpu_facts();

// Cores that this process may run on.
[[nodiscard]] std::size_t usable_cores();

}  // namespace incipit::model
