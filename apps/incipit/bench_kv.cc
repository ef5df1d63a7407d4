// SPDX-License-Identifier: Apache-2.0
//
// incipit bench kv: what a cached prefix is worth, from each level, alone and in a crowd.
#include "incipit/bench_kv.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/elapsed.h"
#include "incipit/bench_run.h"
#include "incipit/engine_flags.h"
#include "incipit/exit_code.h"
#include "incipit/generator.h"
#include "incipit/scratch_folder.h"

namespace incipit::app {
namespace {

constexpr const char* kDescription =
    "Times the KV prefix cache: the first token after a long prefix, computed and cached on each "
    "level; five prefixes in room for four; 64 callers with one new prefix; requests to four "
    "prefixes in turn, also while files are written. Every cached first token is compared with the "
    "computed one, to the last bit.";

constexpr const char* kFooter =
    "Example:\n  incipit bench kv --precision f32\n\n"
    "Exit codes: 0 done, 2 usage, 3 model, memory or disk, 4 a cached answer differs, 130 "
    "interrupted.";

constexpr std::size_t kNewTokens = 20;  // Behind the prefix: a question.
constexpr std::size_t kCallers = 64;
constexpr std::size_t kCrowdPrefix = 2000;
constexpr std::size_t kThrashPrefix = 500;
constexpr std::size_t kThrashRoom = 4;
constexpr std::size_t kTurns = 4;  // Prefixes that requests take turns at.
constexpr std::size_t kTurnPrefix = 500;
constexpr std::size_t kRequestsOfTurn = 16;
constexpr std::size_t kRequests = kTurns * kRequestsOfTurn;
constexpr std::size_t kAnswerTokens = 20;

struct BenchKvFlags {
  EngineFlags engine;
  std::vector<std::size_t> prefixes{200, 2000, 8000};
  std::size_t rounds = 3;
  std::vector<std::string> only;
  bool quiet = false;

  [[nodiscard]] bool wants(const std::string& part) const {
    return only.empty() || std::ranges::find(only, part) != only.end();
  }
};

const std::vector<std::string> kParts{"first-token", "thrash", "crowd",  "turns",
                                      "memory",      "files",  "writing"};

using Clock = std::chrono::steady_clock;

// Tokens whose content does not matter: time depends on their number alone.
TokenVector some_tokens(std::uint64_t seed, std::size_t count) {
  std::mt19937_64 random(seed);
  TokenVector tokens(count);
  for (Token& token : tokens) token = static_cast<Token>(1000 + random() % 20'000);
  return tokens;
}

class BenchKv {
 public:
  BenchKv(const BenchKvFlags& flags, const Surroundings& around, Generator& generator)
      : flags_(flags), around_(around), generator_(generator) {}

  // First tokens, from each level. Errors: as generate().
  Result<void> first_tokens() {
    print("first token after a prefix and %zu new tokens (median of %zu, ms)\n", kNewTokens,
          flags_.rounds);
    print("%8s %10s %10s %8s %10s %8s\n", "prefix", "computed", "live", "", "memory", "");
    for (const std::size_t length : flags_.prefixes) {
      if (length + 4 * kNewTokens > generator_.cells()) {
        print("%8zu does not fit into --ctx-size\n", length);
        continue;
      }
      INCIPIT_TRY_VOID(first_token(length));
    }
    return {};
  }

  // One prefix more than there is room for, in turn: LRU would lose all of them.
  Result<void> thrash() {
    constexpr std::size_t kRounds = 4;
    const std::size_t room =
        std::min<std::size_t>(kThrashRoom, generator_.cells() / (kThrashPrefix + 2 * kNewTokens));
    const std::size_t length = generator_.cells() / room - 2 * kNewTokens;
    const std::uint64_t restored = generator_.counters().kv.tokens_restored;
    std::size_t matched = 0;
    std::size_t asked = 0;
    generator_.drop("", {});
    const auto start = Clock::now();
    for (std::size_t round = 0; round < kRounds; ++round) {
      for (std::size_t i = 0; i <= room; ++i) {
        INCIPIT_TRY(const Generated answer, ask(some_tokens(500 + i, length), ++asked));
        matched += round == 0 ? 0 : answer.kv.matched;
      }
    }
    print(
        "\n%zu prefixes of %zu tokens in turn, room for %zu: %.0f %% of their tokens reused after "
        "the first round, %llu restored from memory, %.1f ms a request\n",
        room + 1, length, room,
        100.0 * static_cast<double>(matched) /
            static_cast<double>((kRounds - 1) * (room + 1) * length),
        static_cast<unsigned long long>(generator_.counters().kv.tokens_restored - restored),
        ms_since(start) / static_cast<double>(asked));
    return {};
  }

  // Many callers, one prefix that nobody has computed.
  Result<void> crowd() {
    if (kCrowdPrefix + kCallers * (kNewTokens + 64) > generator_.cells()) {
      print("\n%zu callers do not fit into --ctx-size\n", kCallers);
      return {};
    }
    generator_.drop("", {});
    INCIPIT_TRY(const Generated alone, ask(some_tokens(1, kCrowdPrefix), 1));
    INCIPIT_TRY(const double all_cached, crowd_ms(some_tokens(1, kCrowdPrefix)));
    const std::uint64_t rows = generator_.counters().rows;
    INCIPIT_TRY(const double all_new, crowd_ms(some_tokens(2, kCrowdPrefix)));
    const std::uint64_t given = generator_.counters().rows - rows;
    const double least = alone.ms + all_cached;
    print(
        "\n%zu callers at once, one new prefix of %zu tokens: %.0f ms, %.2f x (one prefill %.0f ms "
        "+ all suffixes %.0f ms); %llu rows given to the model, %zu needed\n",
        kCallers, kCrowdPrefix, all_new, all_new / least, alone.ms, all_cached,
        static_cast<unsigned long long>(given), kCrowdPrefix + kCallers * kNewTokens);
    return {};
  }

  [[nodiscard]] bool has_room_for_turns() {
    constexpr std::size_t kCells =
        kTurns * kTurnPrefix + kRequests * (kNewTokens + kAnswerTokens + 64);
    if (kCells <= generator_.cells()) return true;
    print("\n%zu requests in turn do not fit into --ctx-size\n", kRequests);
    return false;
  }

  struct Turns {
    double ms = 0;
    std::size_t tokens = 0;  // Of the answers.
  };
  // What a server does: requests to several prefixes, interleaved, each with an answer to write.
  // `seed`: of the prefixes.
  Result<Turns> ask_in_turn(std::uint64_t seed) {
    std::vector<Result<Generated>> answers(kRequests);
    const auto start = Clock::now();
    {
      std::vector<std::jthread> callers;
      for (std::size_t i = 0; i < kRequests; ++i)
        callers.emplace_back([&, i] {
          answers[i] =
              ask(some_tokens(seed + i % kTurns, kTurnPrefix), 500 + i, true, kAnswerTokens);
        });
    }
    Turns turns{.ms = ms_since(start)};
    for (const auto& answer : answers) {
      INCIPIT_TRY_VOID(answer);
      turns.tokens += answer->tokens.size();
    }
    return turns;
  }

  Result<void> turns() {
    if (!has_room_for_turns()) return {};
    generator_.drop("", {});
    const std::uint64_t rows = generator_.counters().rows;
    INCIPIT_TRY(const Turns turns, ask_in_turn(900));
    print(
        "\n%zu requests at once, in turn to %zu new prefixes of %zu tokens, each with %zu new "
        "tokens: %.0f ms, %.2f requests/s; %zu answer tokens of %zu, %llu rows\n",
        kRequests, kTurns, kTurnPrefix, kNewTokens, turns.ms, 1000.0 * kRequests / turns.ms,
        turns.tokens, kRequests * kAnswerTokens,
        static_cast<unsigned long long>(generator_.counters().rows - rows));
    return {};
  }

  void memory() { print("\nmemory of a token: %zu bytes live\n", generator_.cell_bytes()); }

  // Leaves the prefix of a length in files, as after two requests.
  Result<double> leave(std::size_t length) {
    INCIPIT_TRY(const Generated first, ask(some_tokens(length, length), 1));
    INCIPIT_TRY_VOID(ask(some_tokens(length, length), 2));
    return first.ms_to_first_token;
  }
  // Finds it again after a restart.
  Result<void> find(std::size_t length, double computed) {
    INCIPIT_TRY(const Generated restored, ask(some_tokens(length, length), 3));
    INCIPIT_TRY(const Generated full, ask(some_tokens(length, length), 3, false));
    expect_hit(restored.kv, length, true);
    expect_same(restored, full);
    print("%8zu %10.1f %10.1f %7.1fx\n", length, computed, restored.ms_to_first_token,
          computed / restored.ms_to_first_token);
    return {};
  }

  [[nodiscard]] std::size_t different() const { return different_; }

 private:
  template <typename... Arguments>
  void print(const char* format, Arguments... arguments) {
    std::fprintf(around_.out, format, arguments...);
    std::fflush(around_.out);
  }

  Result<Generated> ask(TokenVector prompt, std::uint64_t question, bool cached = true,
                        std::size_t answer_tokens = 1) {
    INCIPIT_TRY_VOID(check_interrupt(around_));
    const TokenVector tail = some_tokens(1'000'000 + question, kNewTokens);
    prompt.insert(prompt.end(), tail.begin(), tail.end());
    GenerateRequest request;
    request.tokens = std::move(prompt);
    request.tokens_max = answer_tokens;
    if (answer_tokens == 1) request.sampling.logprobs = 5;
    request.reads_cache = cached;
    request.writes_cache = cached;
    return generator_.generate(request);
  }

  Result<void> first_token(std::size_t length) {
    std::vector<double> computed;
    std::vector<double> live;
    std::vector<double> memory;
    for (std::size_t round = 0; round < flags_.rounds; ++round) {
      const TokenVector prefix = some_tokens(length + round, length);
      generator_.drop("", {});
      INCIPIT_TRY(const Generated first, ask(prefix, 1));
      INCIPIT_TRY(const Generated again, ask(prefix, 2));
      INCIPIT_TRY(const Generated full, ask(prefix, 2, false));
      generator_.spill();
      INCIPIT_TRY(const Generated restored, ask(prefix, 3));
      INCIPIT_TRY(const Generated full_again, ask(prefix, 3, false));
      computed.push_back(first.ms_to_first_token);
      live.push_back(again.ms_to_first_token);
      memory.push_back(restored.ms_to_first_token);
      expect_hit(again.kv, length, false);
      expect_hit(restored.kv, length, true);
      expect_same(again, full);
      expect_same(restored, full_again);
    }
    const double base = median(computed);
    print("%8zu %10.1f %10.1f %7.1fx %10.1f %7.1fx\n", length, base, median(live),
          base / median(live), median(memory), base / median(memory));
    return {};
  }

  // A time of what was no hit would be a lie.
  void expect_hit(const KvLookup& kv, std::size_t length, bool is_restored) {
    if (kv.matched >= length && (kv.restored > 0) == is_restored) return;
    ++different_;
    print("NOT A HIT: %zu of %zu tokens matched, %zu restored: %s\n", kv.matched, length,
          kv.restored, to_string(kv.miss).c_str());
  }

  void expect_same(const Generated& a, const Generated& b) {
    const auto same = [](const TokenLogprob& x, const TokenLogprob& y) {
      return x.token == y.token && x.logprob == y.logprob;
    };
    const bool equal =
        a.tokens == b.tokens && std::ranges::equal(a.logprobs[0].top, b.logprobs[0].top, same);
    if (equal || !generator_.exact()) return;
    ++different_;
    std::fputs("DIFFERENT: a cached answer is not the computed one\n", around_.out);
  }

  Result<double> crowd_ms(const TokenVector& prefix) {
    std::vector<Result<Generated>> answers(kCallers);
    const auto start = Clock::now();
    {
      std::vector<std::jthread> callers;
      for (std::size_t i = 0; i < kCallers; ++i)
        callers.emplace_back([&, i] { answers[i] = ask(prefix, 100 + i); });
    }
    const double ms = ms_since(start);
    for (auto& answer : answers) INCIPIT_TRY_VOID(answer);
    return ms;
  }

  const BenchKvFlags& flags_;
  const Surroundings& around_;
  Generator& generator_;
  std::size_t different_ = 0;
};

// First tokens from files, each with a generator that was made anew: what a restart leaves.
Result<std::size_t> bench_files(const BenchKvFlags& flags, const Surroundings& around,
                                Engine& engine) {
  std::fprintf(around.out,
               "\nfirst token after a restart, the prefix in files that the page cache holds (ms)\n"
               "%8s %10s %10s\n",
               "prefix", "computed", "file");
  std::size_t different = 0;
  for (const std::size_t length : flags.prefixes) {
    const ScratchFolder folder;
    GeneratorOptions options;
    options.kv.memory_bytes = std::size_t{1} << 30U;
    options.kv.folder = folder.path();
    INCIPIT_TRY(auto generator, engine.generator(options));
    if (length + 4 * kNewTokens > generator->cells()) continue;
    INCIPIT_TRY(const double computed, BenchKv(flags, around, *generator).leave(length));
    generator.reset();
    INCIPIT_TRY(generator, engine.generator(options));
    BenchKv bench(flags, around, *generator);
    INCIPIT_TRY_VOID(bench.find(length, computed));
    different += bench.different();
  }
  return different;
}

// What writing files costs those who are served meanwhile: requests in turn, by generators with
// and without a folder, one after the other.
Result<void> bench_writing(const BenchKvFlags& flags, const Surroundings& around, Engine& engine) {
  std::vector<double> ms[2];
  KvCounters of_files;
  for (std::size_t round = 0; round < flags.rounds; ++round) {
    for (const bool has_files : {false, true}) {
      const ScratchFolder folder;
      GeneratorOptions options;
      if (has_files) options.kv.folder = folder.path();
      options.kv.second_sight = false;  // Requests at once share a prefix before it is seen twice.
      INCIPIT_TRY(const auto generator, engine.generator(options));
      BenchKv bench(flags, around, *generator);
      if (!bench.has_room_for_turns()) return {};
      INCIPIT_TRY(const auto turns, bench.ask_in_turn(2000 + 10 * round));
      ms[has_files].push_back(turns.ms);
      if (has_files) of_files = generator->counters().kv;
    }
  }
  std::fprintf(around.out,
               "\n%zu requests in turn (median of %zu): %.0f ms without files, %.0f ms while %llu "
               "states were written\n",
               kRequests, flags.rounds, median(ms[0]), median(ms[1]),
               static_cast<unsigned long long>(of_files.written));
  return {};
}

Result<std::size_t> measure(const BenchKvFlags& flags, const Surroundings& around) {
  INCIPIT_TRY(EngineOptions options, engine_options(flags.engine));
  options.on_event = notices(around, flags.quiet);
  INCIPIT_TRY(const auto engine, around.open_engine(options));
  GeneratorOptions generator_options;
  generator_options.kv.memory_bytes = std::size_t{1} << 30U;
  INCIPIT_TRY(auto generator, engine->generator(generator_options));
  BenchKv bench(flags, around, *generator);
  if (flags.wants("first-token")) INCIPIT_TRY_VOID(bench.first_tokens());
  if (flags.wants("thrash")) INCIPIT_TRY_VOID(bench.thrash());
  if (flags.wants("crowd")) INCIPIT_TRY_VOID(bench.crowd());
  if (flags.wants("turns")) INCIPIT_TRY_VOID(bench.turns());
  if (flags.wants("memory")) bench.memory();
  std::size_t different = bench.different();
  generator.reset();
  if (flags.wants("files")) {
    INCIPIT_TRY(const std::size_t of_files, bench_files(flags, around, *engine));
    different += of_files;
  }
  if (flags.wants("writing")) INCIPIT_TRY_VOID(bench_writing(flags, around, *engine));
  return different;
}

}  // namespace

int bench_kv(std::span<const std::string> arguments, const Surroundings& around) {
  CLI::App app(kDescription, "incipit bench kv");
  app.footer(kFooter);
  BenchKvFlags flags;
  flags.engine.ctx_size = 10'240;
  app.add_option("--prefix", flags.prefixes, "Lengths of the prefixes, in tokens.")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--rounds", flags.rounds, "How often each first token is timed.")
      ->type_name("N")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--only", flags.only, "Only these parts.")
      ->type_name("PART")
      ->check(CLI::IsMember(kParts));
  app.add_flag("-q,--quiet", flags.quiet, "No notices.");
  add_engine_flags(app, flags.engine);
  if (const auto over = parse_flags(app, arguments, around)) return *over;
  const auto different = measure(flags, around);
  if (!different) return fail(different.error(), around);
  return *different == 0 ? kExitDone : kExitMismatch;
}

}  // namespace incipit::app
