// SPDX-License-Identifier: Apache-2.0
//
// incipit bench fragments: three passages and a question, the passages in an order that they were
// not computed in. What is lost against computing all of it, and what is saved.
#include "incipit/bench_fragments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>

#include "incipit/bench_run.h"
#include "incipit/bench_text.h"
#include "incipit/engine_flags.h"
#include "incipit/exit_code.h"
#include "incipit/generator.h"

namespace incipit::app {
namespace {

constexpr const char* kDescription =
    "Asks questions about three passages that were computed in another order: with all tokens "
    "computed, with moved cells, and with moved cells but for the first tokens of each passage. "
    "Prints how often greedy answers and label choices agree with the computed ones.";

constexpr const char* kFooter =
    "Example:\n  incipit bench fragments --questions 20 README.md docs\n\n"
    "Exit codes: 0 done, 2 usage or input, 3 model, memory or disk, 130 interrupted.";

constexpr std::size_t kPassages = 3;
constexpr const char* kNames[kPassages] = {"Alpha", "Beta", "Gamma"};
// None begins with the first: its cells would be exact.
constexpr std::array<std::array<std::size_t, kPassages>, 4> kOrders{
    {{1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}};

struct BenchFragmentsFlags {
  EngineFlags engine;
  std::vector<std::string> paths = kTextsShipped;
  std::size_t questions = 20;
  std::size_t bytes = 600;
  std::size_t answer = 16;
  std::vector<std::size_t> heads{0, 16};
  bool quiet = false;
};

struct Answer {
  TokenVector tokens;
  std::vector<double> labels;  // Log probability of each name.
  double ms = 0;
};

// What a way of computing the passages came to, against computing all.
struct Tally {
  std::vector<double> ms;
  std::vector<std::vector<double>> labels;  // Of each question.
  std::size_t same_answer = 0;
  std::size_t same_first = 0;
  double same_opening = 0;  // Sum of the parts of answers before the first other token.
};

// The best name of each question, less what a name gets on average: a small model has a favourite,
// and choices that are all the same would agree whatever happened to the passages.
std::vector<std::size_t> choices(std::vector<std::vector<double>> labels) {
  for (std::size_t name = 0; name < kPassages; ++name) {
    double sum = 0;
    for (const auto& one : labels) sum += one[name];
    for (auto& one : labels) one[name] -= sum / static_cast<double>(labels.size());
  }
  std::vector<std::size_t> chosen;
  for (const auto& one : labels)
    chosen.push_back(static_cast<std::size_t>(std::ranges::max_element(one) - one.begin()));
  return chosen;
}

// Mean difference of the log probabilities.
double distance(const std::vector<std::vector<double>>& a,
                const std::vector<std::vector<double>>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t name = 0; name < kPassages; ++name) sum += std::abs(a[i][name] - b[i][name]);
  }
  return sum / static_cast<double>(a.size() * kPassages);
}

class BenchFragments {
 public:
  BenchFragments(const BenchFragmentsFlags& flags, const Surroundings& around, Generator& generator)
      : flags_(flags), around_(around), generator_(generator), tallies_(1 + flags.heads.size()) {}

  Result<void> run(const std::vector<std::string>& passages) {
    INCIPIT_TRY_VOID(learn_frame());
    const std::size_t count = std::min(flags_.questions, passages.size() / kPassages);
    for (std::size_t i = 0; i < count; ++i) {
      INCIPIT_TRY_VOID(check_interrupt(around_));
      INCIPIT_TRY_VOID(question(std::span(passages).subspan(i * kPassages, kPassages), i));
      say(around_, "question " + std::to_string(i + 1) + " of " + std::to_string(count),
          flags_.quiet);
    }
    report(count);
    return {};
  }

 private:
  // What the template puts before and behind a user's text.
  Result<void> learn_frame() {
    PromptRequest one;
    one.turns = {{"user", "1"}};
    PromptRequest other;
    other.turns = {{"user", "x"}};
    INCIPIT_TRY(const TokenVector a, generator_.tokens(one));
    INCIPIT_TRY(const TokenVector b, generator_.tokens(other));
    const auto front = std::ranges::mismatch(a, b).in1;
    opening_.assign(a.begin(), front);
    const auto back = std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend()).first;
    closing_.assign(back.base(), a.end());
    INCIPIT_TRY(const TokenVector intro,
                generator_.plain_tokens("Here are three passages. A question follows.\n\n"));
    opening_.insert(opening_.end(), intro.begin(), intro.end());
    return {};
  }

  Result<GenerateRequest> prompt(std::span<const TokenVector> passages,
                                 const std::array<std::size_t, kPassages>& order,
                                 const std::string& question) const {
    GenerateRequest request;
    request.tokens = opening_;
    for (const std::size_t index : order) {
      const std::size_t begin = request.tokens.size();
      request.tokens.insert(request.tokens.end(), passages[index].begin(), passages[index].end());
      request.passages.ranges.push_back({.begin = begin, .end = request.tokens.size()});
    }
    INCIPIT_TRY(const TokenVector asked, generator_.plain_tokens(question));
    request.tokens.insert(request.tokens.end(), asked.begin(), asked.end());
    request.tokens.insert(request.tokens.end(), closing_.begin(), closing_.end());
    return request;
  }

  Result<void> question(std::span<const std::string> texts, std::size_t index) {
    std::vector<TokenVector> passages;
    for (std::size_t i = 0; i < kPassages; ++i) {
      INCIPIT_TRY(TokenVector tokens, generator_.plain_tokens(std::string("Passage ") + kNames[i] +
                                                              ": " + texts[i] + "\n\n"));
      passages.push_back(std::move(tokens));
    }
    const std::size_t right = index % kPassages;
    const std::string quote = quote_of(texts[right]);
    const auto& order = kOrders[index % kOrders.size()];
    INCIPIT_TRY(const GenerateRequest which,
                prompt(passages, order,
                       "Which passage contains the words \"" + quote +
                           "\"? Answer with its name: Alpha, Beta or Gamma."));
    INCIPIT_TRY(
        const GenerateRequest go_on,
        prompt(passages, order, "Quote what follows the words \"" + quote + "\" in the passages."));
    INCIPIT_TRY(const Answer computed, ask(which, go_on, {}));
    tally(tallies_[0], computed, computed);
    for (std::size_t turn = 0; turn < flags_.heads.size(); ++turn) {
      const std::size_t i = (turn + index) % flags_.heads.size();  // None always comes first.
      const std::size_t head = flags_.heads[i];
      INCIPIT_TRY(GenerateRequest seed, prompt(passages, {0, 1, 2}, "Ready?"));
      seed.passages.recompute_tokens = head;
      seed.tokens_max = 1;
      INCIPIT_TRY_VOID(generator_.generate(seed));
      INCIPIT_TRY(const Answer moved, ask(which, go_on, head));
      tally(tallies_[1 + i], moved, computed);
    }
    return {};
  }

  // Without `head` all is computed but what an exact opening saves.
  Result<Answer> ask(GenerateRequest which, GenerateRequest go_on,
                     std::optional<std::size_t> head) {
    if (!head) which.passages = go_on.passages = {};
    which.passages.recompute_tokens = go_on.passages.recompute_tokens = head.value_or(0);
    which.writes_cache = go_on.writes_cache = false;
    go_on.tokens_max = flags_.answer;
    INCIPIT_TRY(const Generated text, generator_.generate(go_on));
    ScoreRequest score;
    static_cast<PromptRequest&>(score) = which;
    score.continuations.assign(std::begin(kNames), std::end(kNames));
    INCIPIT_TRY(const ContinuationScores scores, generator_.score(score));
    if (text.lossy != head.has_value() || scores.lossy != head.has_value())
      return failure(ErrorCode::kInternal, "passages were not moved where they had to be");
    return Answer{
        .tokens = text.tokens, .labels = scores.log_probabilities, .ms = text.ms_to_first_token};
  }

  static void tally(Tally& into, const Answer& answer, const Answer& computed) {
    into.ms.push_back(answer.ms);
    into.labels.push_back(answer.labels);
    into.same_answer += answer.tokens == computed.tokens ? 1 : 0;
    const auto same = std::ranges::mismatch(answer.tokens, computed.tokens).in1;
    into.same_first += same != answer.tokens.begin() ? 1 : 0;
    into.same_opening +=
        static_cast<double>(same - answer.tokens.begin()) /
        static_cast<double>(std::max(answer.tokens.size(), computed.tokens.size()));
  }

  void report(std::size_t count) const {
    std::fprintf(around_.out,
                 "%zu questions, three passages each in another order; answers of %zu tokens\n"
                 "%-17s %10s %11s %10s %10s %11s %12s %16s\n",
                 count, flags_.answer, "", "same label", "right label", "label nats", "same first",
                 "same answer", "same opening", "first token, ms");
    const std::vector<std::size_t> computed = choices(tallies_[0].labels);
    for (std::size_t i = 0; i < tallies_.size(); ++i) {
      const Tally& one = tallies_[i];
      const std::vector<std::size_t> chosen = choices(one.labels);
      std::size_t same = 0;
      std::size_t right = 0;
      for (std::size_t k = 0; k < count; ++k) {
        same += chosen[k] == computed[k] ? 1 : 0;
        right += chosen[k] == k % kPassages ? 1 : 0;
      }
      const std::string name =
          i == 0 ? "all computed" : "moved, head of " + std::to_string(flags_.heads[i - 1]);
      std::fprintf(around_.out, "%-17s %10zu %11zu %10.2f %10zu %11zu %10.0f %% %10.1f %4.1fx\n",
                   name.c_str(), same, right, distance(one.labels, tallies_[0].labels),
                   one.same_first, one.same_answer,
                   100 * one.same_opening / static_cast<double>(count), median(one.ms),
                   median(tallies_[0].ms) / median(one.ms));
    }
  }

  const BenchFragmentsFlags& flags_;
  const Surroundings& around_;
  Generator& generator_;
  TokenVector opening_;
  TokenVector closing_;
  std::vector<Tally> tallies_;  // All computed, then each head.
};

Result<void> measure(const BenchFragmentsFlags& flags, const Surroundings& around) {
  INCIPIT_TRY(EngineOptions options, engine_options(flags.engine));
  INCIPIT_TRY(const std::string text, text_of(flags.paths));
  std::vector<std::string> passages = passages_of(text, flags.bytes);
  std::erase_if(passages, [](const std::string& passage) { return quote_of(passage).empty(); });
  if (passages.size() < kPassages)
    return failure(ErrorCode::kInvalidArgument, "the text has fewer than three passages");
  options.on_event = notices(around, flags.quiet);
  INCIPIT_TRY(const auto engine, around.open_engine(options));
  INCIPIT_TRY(const auto generator, engine->generator({}));
  return BenchFragments(flags, around, *generator).run(passages);
}

}  // namespace

std::vector<std::string> passages_of(const std::string& text, std::size_t bytes_min) {
  std::vector<std::string> passages;
  std::string passage;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find("\n\n", begin), text.size());
    if (end > begin) passage += (passage.empty() ? "" : "\n") + text.substr(begin, end - begin);
    begin = end + 2;
    if (passage.size() < bytes_min) continue;
    passages.push_back(std::exchange(passage, {}));
  }
  return passages;
}

std::string quote_of(const std::string& passage) {
  constexpr std::size_t kWords = 8;
  std::istringstream in(passage);
  const std::vector<std::string> words(std::istream_iterator<std::string>{in}, {});
  if (words.size() < 2 * kWords) return "";
  std::string quote;
  for (std::size_t i = 0; i < kWords; ++i)
    quote += (i == 0 ? "" : " ") + words[(words.size() - kWords) / 2 + i];
  return quote;
}

int bench_fragments(std::span<const std::string> arguments, const Surroundings& around) {
  CLI::App app(kDescription, "incipit bench fragments");
  app.footer(kFooter);
  BenchFragmentsFlags flags;
  add_text_flag(app, flags.paths);
  app.add_option("--questions", flags.questions, "How many, as far as the text goes.")
      ->type_name("N")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  app.add_option("--bytes", flags.bytes, "Least size of a passage.")
      ->type_name("N")
      ->check(CLI::Range(100, 100'000))
      ->capture_default_str();
  app.add_option("--answer", flags.answer, "Tokens of an answer.")
      ->type_name("N")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--head", flags.heads, "First tokens of each passage that are computed anew.")
      ->type_name("N")
      ->check(CLI::Range(0, 10'000))
      ->capture_default_str();
  app.add_flag("-q,--quiet", flags.quiet, "No notices.");
  add_engine_flags(app, flags.engine);
  if (const auto over = parse_flags(app, arguments, around)) return *over;
  if (const auto done = measure(flags, around); !done) return fail(done.error(), around);
  return kExitDone;
}

}  // namespace incipit::app
