// SPDX-License-Identifier: Apache-2.0
#include "model/cpu.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace incipit::model {
namespace {

// The kernel's own list, which is read another way than ours.
std::set<std::string> kernel_flags() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with("flags")) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    return {std::istream_iterator<std::string>(words), {}};
  }
  return {};
}

TEST(Cpu, NamesTheProcessor) {
  const CpuFacts& facts = cpu_facts();
  EXPECT_FALSE(facts.name.empty());
  EXPECT_NE(facts.name.front(), ' ');
  EXPECT_NE(facts.name.back(), ' ');
}

TEST(Cpu, AgreesWithTheKernelAboutInstructions) {
  const std::set<std::string> flags = kernel_flags();
  ASSERT_FALSE(flags.empty());
  for (const char* name : {"avx2", "fma", "avx_vnni", "avx512f", "avx512bw", "avx512vl",
                           "avx512_vnni", "avx512_bf16"}) {
    EXPECT_EQ(cpu_facts().has(name), flags.contains(name)) << name;
  }
}

// An announced AMX either works or is listed as broken; one that is not announced is neither.
TEST(Cpu, BelievesAmxOnlyAfterATry) {
  const CpuFacts& facts = cpu_facts();
  const bool works = facts.has("amx_int8") || facts.has("amx_bf16");
  const bool broken = std::ranges::count(facts.broken, "amx") == 1;
  EXPECT_EQ(works || broken, kernel_flags().contains("amx_tile"));
  EXPECT_FALSE(works && broken);
}

TEST(Cpu, JoinsInstructionsWithSpaces) {
  const CpuFacts facts{.name = "x", .instructions = {"avx2", "fma"}, .broken = {}};
  EXPECT_EQ(facts.instructions_text(), "avx2 fma");
  EXPECT_TRUE(facts.has("fma"));
  EXPECT_FALSE(facts.has("fm"));
  EXPECT_EQ(CpuFacts{}.instructions_text(), "");
}

TEST(Cpu, CountsTheCoresOfThisProcessOnly) {
  const std::size_t before = usable_cores();
  ASSERT_GE(before, 1U);
  cpu_set_t old;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(old), &old), 0);
  int first = 0;
  while (!CPU_ISSET(first, &old)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(usable_cores(), 1U);
  ASSERT_EQ(::sched_setaffinity(0, sizeof(old), &old), 0);
  EXPECT_EQ(usable_cores(), before);
}

}  // namespace
}  // namespace incipit::model
