// SPDX-License-Identifier: Apache-2.0
#include "model/cpu.h"

#include <cpuid.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

namespace incipit::model {
namespace {

struct Registers {
  unsigned int a = 0, b = 0, c = 0, d = 0;
};

Registers cpuid(unsigned int leaf, unsigned int subleaf = 0) {
  Registers r;
  __get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d);
  return r;
}

bool bit(unsigned int word, unsigned int index) { return ((word >> index) & 1U) != 0; }

// State that the operating system saves, without which an instruction set must not be used.
std::uint64_t enabled_state() {
  if (!bit(cpuid(1).c, 27)) return 0;  // OSXSAVE
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (std::uint64_t{high} << 32U) | low;
}

// Runs one tile instruction in a child process, which may die of it.
bool amx_works() {
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
    constexpr long kTileData = 18;
    if (::syscall(SYS_arch_prctl, kRequestPermission, kTileData) != 0) ::_exit(1);
    alignas(64) const std::array<unsigned char, 64> palette = {1};
    __asm__ volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0x00"  // ldtilecfg [rax]
                     :
                     : "a"(palette.data())
                     : "memory");
    __asm__ volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0xc0");  // tilerelease
    ::_exit(0);
  }
  int status = 1;
  return child > 0 && ::waitpid(child, &status, 0) == child && status == 0;
}

std::string brand() {
  std::array<char, 49> text{};
  for (unsigned int i = 0; i < 3; ++i) {
    const Registers r = cpuid(0x80000002U + i);
    std::memcpy(text.data() + std::size_t{i} * 16, &r, 16);
  }
  std::string name(text.data());
  name.erase(0, name.find_first_not_of(' '));
  name.erase(name.find_last_not_of(' ') + 1);
  return name.empty() ? "unnamed processor" : name;
}

CpuFacts ask() {
  CpuFacts facts{.name = brand(), .instructions = {}, .broken = {}};
  const Registers one = cpuid(1);
  const Registers seven = cpuid(7, 0);
  const Registers seven_one = cpuid(7, 1);
  const std::uint64_t state = enabled_state();
  const bool avx = (state & 0x6U) == 0x6U;
  const bool avx512 = (state & 0xe6U) == 0xe6U;
  const bool tiles = (state & 0x60000U) == 0x60000U;
  const auto add = [&](bool present, const char* name) {
    if (present) facts.instructions.emplace_back(name);
  };
  add(avx && bit(seven.b, 5), "avx2");
  add(avx && bit(one.c, 12), "fma");
  add(avx && bit(seven_one.a, 4), "avx_vnni");
  add(avx512 && bit(seven.b, 16), "avx512f");
  add(avx512 && bit(seven.b, 30), "avx512bw");
  add(avx512 && bit(seven.b, 31), "avx512vl");
  add(avx512 && bit(seven.c, 11), "avx512_vnni");
  add(avx512 && bit(seven_one.a, 5), "avx512_bf16");
  if (tiles && bit(seven.d, 24)) {
    const bool works = amx_works();
    add(works && bit(seven.d, 25), "amx_int8");
    add(works && bit(seven.d, 22), "amx_bf16");
    if (!works) facts.broken.emplace_back("amx");
  }
  return facts;
}

}  // namespace

bool CpuFacts::has(const std::string& instruction) const {
  return std::find(instructions.begin(), instructions.end(), instruction) != instructions.end();
}

std::string CpuFacts::instructions_text() const {
  std::string text;
  for (const std::string& each : instructions) text += (text.empty() ? "" : " ") + each;
  return text;
}

const CpuFacts& cpu_facts() {
  static const CpuFacts facts = ask();
  return facts;
}

std::size_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return static_cast<std::size_t>(std::max(1, CPU_COUNT(&set)));
}

}  // namespace incipit::model
