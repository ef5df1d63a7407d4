// SPDX-License-Identifier: Apache-2.0
//
// incipit bench window: a long text under a sliding window, against a window of the same size that
// is computed anew from its tokens each time that the other one slides.
#include "incipit/bench_window.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <utility>

#include "base/counted.h"
#include "base/elapsed.h"
#include "incipit/bench_run.h"
#include "incipit/bench_text.h"
#include "incipit/engine_flags.h"
#include "incipit/exit_code.h"
#include "incipit/generator.h"

namespace incipit::app {
namespace {

constexpr const char* kDescription =
    "Scores a long text token by token under a sliding window, and again under a window of the "
    "same tokens that is computed anew each time the other one slides. Prints both perplexities, "
    "over the tokens behind the first full window, and the time of a token at the start and at "
    "the end.";

constexpr const char* kFooter =
    "Example:\n  incipit bench window --window 512 README.md docs\n\n"
    "Exit codes: 0 done, 2 usage or input, 3 model, memory or disk, 130 interrupted.";

struct BenchWindowFlags {
  EngineFlags engine;
  std::vector<std::string> paths = kTextsShipped;
  std::size_t tokens = 8000;
  std::size_t window = 512;
  std::size_t sink = SlidingWindow{}.sink_tokens;
  bool quiet = false;
};

using Clock = std::chrono::steady_clock;

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double middle(std::span<const double> values) { return median({values.begin(), values.end()}); }

class BenchWindow {
 public:
  BenchWindow(const BenchWindowFlags& flags, const Surroundings& around, Generator& generator,
              TokenVector tokens)
      : flags_(flags), around_(around), generator_(generator), tokens_(std::move(tokens)) {}

  Result<void> run() {
    std::fprintf(around_.out, "%zu tokens under a window of %zu, the first %zu of them kept\n",
                 tokens_.size(), flags_.window, flags_.sink);
    INCIPIT_TRY_VOID(slide());
    INCIPIT_TRY_VOID(recompute());
    report();
    return {};
  }

 private:
  [[nodiscard]] std::size_t step() const {
    return SlidingWindow::forgotten_at_once(flags_.window - flags_.sink);
  }

  void progress(const std::string& what, std::size_t count) const {
    say(around_, what + ": " + std::to_string(count) + " of " + counted(tokens_.size(), "token"),
        flags_.quiet);
  }

  Result<void> slide() {
    TextScoreRequest request;
    request.tokens = tokens_;
    request.reads_cache = request.writes_cache = false;
    request.sliding_window =
        SlidingWindow{.sink_tokens = flags_.sink, .recent_tokens = flags_.window - flags_.sink};
    auto last = Clock::now();
    request.on_tokens = [&](std::size_t count) {
      ms_.push_back(ms_since(last));
      last = Clock::now();
      if (count % 1000 == 0) progress("sliding", count);
      return check_interrupt(around_).has_value();
    };
    auto score = generator_.score_text(request);
    INCIPIT_TRY_VOID(check_interrupt(around_));
    if (!score) return std::unexpected(score.error());
    lossy_reason_ = score->lossy_reason;
    // Of the token at index i: [i - 1].
    slid_ = std::move(score->log_probabilities);
    return {};
  }

  // The window slides when it is full, before the token at index window + k x step is given to
  // the model; from there on, as many tokens are scored on what both windows then hold.
  Result<void> recompute() {
    for (std::size_t at = flags_.window; at + 1 < tokens_.size(); at += step()) {
      INCIPIT_TRY_VOID(check_interrupt(around_));
      const std::size_t end = std::min(at + step(), tokens_.size() - 1);
      TextScoreRequest request;
      request.reads_cache = request.writes_cache = false;
      request.tokens.assign(tokens_.begin(), tokens_.begin() + signed_of(flags_.sink));
      // What the slides so far have dropped stands between the sink and this.
      const std::size_t dropped = at + step() - flags_.window;
      request.tokens.insert(request.tokens.end(),
                            tokens_.begin() + signed_of(flags_.sink + dropped),
                            tokens_.begin() + signed_of(end + 1));
      request.scored_tokens = end - at;
      const auto start = Clock::now();
      INCIPIT_TRY(const TextScore score, generator_.score_text(request));
      recompute_ms_.push_back(ms_since(start));
      recomputed_.insert(recomputed_.end(), score.log_probabilities.begin(),
                         score.log_probabilities.end());
      if (recompute_ms_.size() % 32 == 0) progress("computing windows anew", end);
    }
    return {};
  }

  static std::ptrdiff_t signed_of(std::size_t value) { return static_cast<std::ptrdiff_t>(value); }

  void report() const {
    // The token at index window is still given by the full window, before its first slide.
    const std::span<const double> slid = std::span(slid_).subspan(flags_.window);
    const double with_slides = std::exp(-mean(slid));
    const double anew = std::exp(-mean(recomputed_));
    std::fprintf(around_.out,
                 "perplexity of the %zu tokens behind the first window: %.3f slid, %.3f computed "
                 "anew: %+.2f %%\n",
                 slid.size(), with_slides, anew, 100 * (with_slides / anew - 1));
    const std::size_t part = std::min<std::size_t>(500, (ms_.size() - flags_.window) / 2);
    const std::span<const double> times = std::span(ms_).subspan(flags_.window);
    std::fprintf(around_.out,
                 "a token, mean with its slides (median): %.2f (%.2f) ms over the first %zu behind "
                 "the window, %.2f (%.2f) ms over the last %zu\n",
                 mean(times.first(part)), middle(times.first(part)), part, mean(times.last(part)),
                 middle(times.last(part)), part);
    std::fprintf(around_.out, "a window computed anew: %.0f ms\n", mean(recompute_ms_));
    std::fprintf(around_.out, "lossy: %s\n", lossy_reason_.c_str());
  }

  const BenchWindowFlags& flags_;
  const Surroundings& around_;
  Generator& generator_;
  TokenVector tokens_;
  std::vector<double> slid_;
  std::vector<double> recomputed_;
  std::vector<double> ms_;
  std::vector<double> recompute_ms_;
  std::string lossy_reason_;
};

Result<void> measure(const BenchWindowFlags& flags, const Surroundings& around) {
  INCIPIT_TRY(EngineOptions options, engine_options(flags.engine));
  if (flags.sink + 16 > flags.window || flags.window + 64 > options.ctx_size) {
    return failure(ErrorCode::kInvalidArgument,
                   "--window must be 16 tokens more than --sink and 64 less than --ctx-size");
  }
  INCIPIT_TRY(const std::string text, text_of(flags.paths));
  options.on_event = notices(around, flags.quiet);
  INCIPIT_TRY(const auto engine, around.open_engine(options));
  INCIPIT_TRY(const auto generator, engine->generator({}));
  PromptRequest prompt;
  prompt.turns = {{"user", text}};
  INCIPIT_TRY(TokenVector tokens, generator->tokens(prompt));
  if (tokens.size() > flags.tokens) tokens.resize(flags.tokens);
  if (tokens.size() < 2 * flags.window) {
    return failure(ErrorCode::kInvalidArgument,
                   "the text has " + counted(tokens.size(), "token") + ", fewer than two windows");
  }
  return BenchWindow(flags, around, *generator, std::move(tokens)).run();
}

}  // namespace

int bench_window(std::span<const std::string> arguments, const Surroundings& around) {
  CLI::App app(kDescription, "incipit bench window");
  app.footer(kFooter);
  BenchWindowFlags flags;
  add_text_flag(app, flags.paths);
  app.add_option("--tokens", flags.tokens, "How much of the text is read.")
      ->type_name("N")
      ->check(CLI::Range(64, 10'000'000))
      ->capture_default_str();
  app.add_option("--window", flags.window, "Tokens of the window, the sink included.")
      ->type_name("N")
      ->check(CLI::Range(20, 1'000'000))
      ->capture_default_str();
  app.add_option("--sink", flags.sink, "First tokens that are kept.")
      ->type_name("N")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  app.add_flag("-q,--quiet", flags.quiet, "No notices.");
  add_engine_flags(app, flags.engine);
  if (const auto over = parse_flags(app, arguments, around)) return *over;
  if (const auto done = measure(flags, around); !done) return fail(done.error(), around);
  return kExitDone;
}

}  // namespace incipit::app
