// SPDX-License-Identifier: Apache-2.0
#include "base/memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace incipit {
namespace {

// A "Name:  123 kB" line of a file under /proc, in bytes.
std::size_t proc_bytes(const char* path, const std::string& name, std::size_t fallback) {
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    std::size_t kib = 0;
    if (word == name + ":" && file >> kib) return kib * 1024;
  }
  return fallback;
}

std::size_t file_number(const char* path, std::size_t fallback) {
  std::ifstream file(path);
  std::size_t number = 0;
  return file >> number ? number : fallback;  // "max" is no number: no limit.
}

}  // namespace

std::size_t available_memory_bytes() {
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  const std::size_t system = proc_bytes("/proc/meminfo", "MemAvailable", kNone);
  const std::size_t limit = file_number("/sys/fs/cgroup/memory.max", kNone);
  if (limit == kNone) return system;
  const std::size_t used = file_number("/sys/fs/cgroup/memory.current", 0);
  return std::min(system, limit - std::min(limit, used));
}

std::size_t peak_memory_bytes() { return proc_bytes("/proc/self/status", "VmHWM", 0); }

}  // namespace incipit
