// SPDX-License-Identifier: Apache-2.0
//
// What a fuzz target is: a parser of foreign bytes, the inputs to begin with, and what must hold.
//
// LLVMFuzzerTestOneInput() is libFuzzer's interface (LLVM's "libFuzzer - a library for
// coverage-guided fuzz testing"). Where the compiler has no libFuzzer, replay.cc is the driver: it
// runs the seeds and mutations of them, the same in every run.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace incipit::fuzz {

// Defined by each target: inputs that are read without an error, and the words of the format.
std::vector<std::string> seeds();
std::vector<std::string> words();

// How many inputs were read without an error. The driver sees by it that the seeds are, so that
// mutations of them get beyond the first check.
inline std::size_t accepted = 0;

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Ends the process where what must hold does not: the driver then shows the input.
inline void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

// Bytes as a file in memory, for parsers that open a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    expect(descriptor_ >= 0 && ::write(descriptor_, bytes.data(), bytes.size()) ==
                                   static_cast<ssize_t>(bytes.size()),
           "no memory for a file");
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(descriptor_); }
  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace incipit::fuzz
