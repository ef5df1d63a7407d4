// SPDX-License-Identifier: Apache-2.0
//
// Runs one test of this program in a process of its own: for peaks of memory, for two starts at
// once, and to be killed. What it shall do there it reads from the environment.
#pragma once

#include <spawn.h>
#include <sys/wait.h>

#include <csignal>
#include <string>
#include <vector>

extern char** environ;

namespace incipit::test {

class OwnProcess {
 public:
  // `environment`: "NAME=value" lines that go before the present ones.
  OwnProcess(const std::string& test, const std::vector<std::string>& environment) {
    std::string self = "/proc/self/exe";
    std::string filter = "--gtest_filter=" + test;
    char* arguments[] = {self.data(), filter.data(), nullptr};
    std::vector<std::string> lines = environment;
    std::vector<char*> all;
    for (std::string& line : lines) all.push_back(line.data());
    for (char** each = environ; *each != nullptr; ++each) all.push_back(*each);
    all.push_back(nullptr);
    if (::posix_spawn(&child_, self.c_str(), nullptr, nullptr, arguments, all.data()) != 0)
      child_ = -1;
  }
  OwnProcess(const OwnProcess&) = delete;
  OwnProcess& operator=(const OwnProcess&) = delete;
  ~OwnProcess() {
    if (child_ > 0) ::waitpid(child_, nullptr, 0);
  }
  // As kill -9 does. False if it had ended by itself.
  [[nodiscard]] bool killed() {
    int status = 0;
    ::kill(child_, SIGKILL);
    const bool ended = child_ > 0 && ::waitpid(child_, &status, 0) == child_;
    child_ = -1;
    return ended && WIFSIGNALED(status);
  }
  // Waits for it.
  [[nodiscard]] bool passed() {
    int status = 1;
    const bool ended = child_ > 0 && ::waitpid(child_, &status, 0) == child_;
    child_ = -1;
    return ended && status == 0;
  }

 private:
  pid_t child_ = -1;
};

}  // namespace incipit::test
