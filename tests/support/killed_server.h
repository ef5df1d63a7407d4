// SPDX-License-Identifier: Apache-2.0
//
// A serving process that is killed with SIGKILL, again and again, over one folder of KV states.
//
// Several threads of it ask for prompts whose openings come back, some of them since earlier
// rounds, with too little room for all of them: cells, memory and folder spill and evict all the
// time. After each kill the folder is opened here: every file must be whole, no draft be left, and
// every answer have the bits of one computed without any cache.
#pragma once

#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "incipit/generator.h"
#include "integration/same_answer.h"
#include "store/folder_files.h"
#include "support/must.h"
#include "support/own_process.h"
#include "support/seed.h"
#include "support/temp_dir.h"

namespace incipit::test {

struct KilledServerOptions {
  std::string test;  // Full name of the test that calls run().
  int rounds = 20;   // INCIPIT_KILL_ROUNDS, where that may change it.
  std::size_t prefix_tokens = 200;
  std::size_t answer_tokens = 4;
  std::chrono::milliseconds start{0};  // That a process takes until it serves.
  // A generator with a folder; what it uses must live as long as the test.
  std::function<std::unique_ptr<Generator>(const std::string& folder,
                                           std::function<void(const std::string&)> on_event)>
      open;
};

class KilledServer {
 public:
  explicit KilledServer(KilledServerOptions options) : options_(std::move(options)) {}

  void run() {
    if (const char* folder = std::getenv(kFolder))
      return serve(folder, std::atoi(std::getenv(kRound)));
    int partial = 0;
    for (int round = 0; round < options_.rounds && !testing::Test::HasFailure(); ++round) {
      kill_one(round);
      partial += drafts() > 0 ? 1 : 0;
      check(round);
    }
    EXPECT_GE(4 * partial, options_.rounds) << "few rounds left a partial file";
    EXPECT_GT(restored_, 0U) << "no answer came from a file";
    std::printf("%d rounds, %d with a partial file, %zu tokens restored\n", options_.rounds,
                partial, restored_);
  }

 private:
  static constexpr const char* kFolder = "INCIPIT_SERVED_FOLDER";
  static constexpr const char* kRound = "INCIPIT_SERVED_ROUND";

  // Three new openings, and one of each of the two rounds before.
  [[nodiscard]] std::vector<TokenVector> prompts(int round) const {
    std::vector<TokenVector> all;
    for (const int opening :
         {3 * round, 3 * round + 1, 3 * round + 2, 3 * round - 1, 3 * round - 4}) {
      std::mt19937_64 random(seed_of(1000 + static_cast<std::uint64_t>(opening + 10)));
      TokenVector prefix(options_.prefix_tokens / 2 + random() % options_.prefix_tokens);
      for (Token& token : prefix) token = static_cast<Token>(270 + random() % 100);
      for (Token question = 0; question < 3; ++question) {
        all.push_back(prefix);
        all.back().push_back(300 + question);
        all.back().push_back(301);
      }
    }
    return all;
  }

  // In the process that is to be killed.
  void serve(const std::string& folder, int round) const {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const auto generator = options_.open(folder, nullptr);
    const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    std::vector<std::jthread> callers;
    for (std::uint64_t caller = 0; caller < 4; ++caller) {
      callers.emplace_back([&, caller] {
        std::mt19937_64 random(caller);
        const auto all = prompts(round);
        while (std::chrono::steady_clock::now() < until)
          must(generator->generate(
              drawn_answer(all[random() % all.size()], options_.answer_tokens)));
      });
    }
  }

  // In every second round at a moment after a draft was seen.
  void kill_one(int round) {
    OwnProcess server(options_.test, {std::string(kFolder) + "=" + folder_,
                                      std::string(kRound) + "=" + std::to_string(round)});
    const auto start = std::chrono::steady_clock::now();
    const auto passed = [&] { return std::chrono::steady_clock::now() - start; };
    const auto patience = std::chrono::seconds(20) + 10 * options_.start;
    if (round % 2 == 0) {
      while (drafts() == 0 && passed() < patience)
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      std::this_thread::sleep_for(std::chrono::microseconds(random_() % 3000));
    } else {
      const auto most = options_.start * 3 / 2 + std::chrono::milliseconds(200);
      std::this_thread::sleep_for(std::chrono::microseconds(
          random_() % static_cast<std::uint64_t>(std::chrono::microseconds(most).count())));
    }
    EXPECT_TRUE(server.killed()) << "it ended by itself";
  }

  [[nodiscard]] int drafts() const {
    int count = 0;
    std::error_code gone;
    for (std::filesystem::directory_iterator it(folder_, gone), end; !gone && it != end;
         it.increment(gone))
      count += it->path().string().ends_with(store::kDraftEnding) ? 1 : 0;
    return count;
  }

  void check(int round) {
    std::vector<std::string> events;
    const auto generator =
        options_.open(folder_, [&events](const std::string& event) { events.push_back(event); });
    EXPECT_TRUE(events.empty()) << events.front();
    EXPECT_EQ(drafts(), 0);
    std::size_t files = 0;
    for (const auto& file : must(store::folder_files(folder_, true))) {
      ASSERT_EQ(file.kind, store::FileKind::kState) << file.path;
      const store::StateFacts facts = must(file.facts);
      for (std::size_t i = 0; i < facts.pieces.size(); ++i)
        must(store::read_state_piece(file.path, facts, i));
      ++files;
    }
    // Each file begins a node of its own or one that others share: none is unknown.
    std::size_t in_files = 0;
    for (const KvEntry& entry : generator->entries()) in_files += entry.is_in_file ? 1 : 0;
    EXPECT_GE(in_files, files);
    for (const TokenVector& prompt : prompts(round)) {
      GenerateRequest request = drawn_answer(prompt, options_.answer_tokens);
      const Generated warm = must(generator->generate(request));
      request.reads_cache = request.writes_cache = false;
      expect_same(warm, must(generator->generate(request)));
      restored_ += warm.kv.restored;
    }
    EXPECT_EQ(generator->counters().kv.lost, 0U);
    EXPECT_TRUE(events.empty()) << events.front();
  }

  KilledServerOptions options_;
  TempDir dir_;
  std::string folder_ = dir_.path("states");
  std::mt19937_64 random_{seed_of(21)};
  std::size_t restored_ = 0;
};

inline int kill_rounds(int otherwise) {
  const char* wanted = std::getenv("INCIPIT_KILL_ROUNDS");
  return wanted == nullptr ? otherwise : std::atoi(wanted);
}

}  // namespace incipit::test
