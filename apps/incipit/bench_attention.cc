// SPDX-License-Identifier: Apache-2.0
//
// incipit bench attention: fits the attention check of a model, and says what it is worth.
#include "incipit/bench_attention.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "incipit/bench_fragments.h"
#include "incipit/bench_run.h"
#include "incipit/bench_text.h"
#include "incipit/engine_flags.h"
#include "incipit/exit_code.h"
#include "incipit/generator.h"

namespace incipit::app {
namespace {

constexpr const char* kDescription =
    "Fits the attention check: which heads look for their own tokens in a cached prefix, and how "
    "little they may find before a hit is suspect. Every second prompt is fitted to; the others "
    "tell right prefixes from wrong ones, and are then asked with the check on.";

constexpr const char* kFooter =
    "Example:\n  incipit bench attention --prompts 80 docs\n\n"
    "The last line is the value of KvOptions::attention_check, for parse_attention_check().\n\n"
    "Exit codes: 0 done, 2 usage or input, 3 model, memory or disk, 4 a hit was wrong, 130 "
    "interrupted.";

// Of no passage in particular, as customers ask.
constexpr std::array kQuestions{"Where is my parcel?",
                                "I was charged twice for my May subscription.",
                                "The app closes as soon as I open a photo.",
                                "How do I change the address of my account?",
                                "Please cancel my order of last week.",
                                "Why does the page stay white after I log in?",
                                "Can I pay by invoice?"};

struct BenchAttentionFlags {
  EngineFlags engine;
  std::vector<std::string> paths = kTextsShipped;
  std::size_t prompts = 80;
  std::size_t bytes = 600;
  std::size_t heads = AttentionFitOptions{}.heads;
  double false_alarms = AttentionFitOptions{}.false_alarms;
  bool quiet = false;
};

PromptRequest asked(const std::string& passage, std::size_t question) {
  PromptRequest request;
  request.turns = {{"system", passage}, {"user", kQuestions[question % kQuestions.size()]}};
  return request;
}

std::size_t common(TokenSpan a, TokenSpan b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

// Where the user's question begins, whichever it is.
Result<std::size_t> cut_of(Generator& generator, const std::string& passage) {
  INCIPIT_TRY(const TokenVector a, generator.tokens(asked(passage, 0)));
  INCIPIT_TRY(const TokenVector b, generator.tokens(asked(passage, 1)));
  return common(a, b);
}

Result<Frame> frame_of(Generator& generator) {
  INCIPIT_TRY(const TokenVector one, generator.tokens(asked("1", 0)));
  INCIPIT_TRY(const TokenVector other, generator.tokens(asked("x", 0)));
  INCIPIT_TRY(const std::size_t cut, cut_of(generator, "1"));
  const std::size_t before = common(one, other);
  return Frame{.before = before, .behind = cut - std::min(cut, before + 1)};
}

Result<std::vector<AttentionTrial>> trials_of(Generator& generator,
                                              const std::vector<std::string>& passages,
                                              std::size_t count) {
  INCIPIT_TRY(const Frame frame, frame_of(generator));
  std::vector<AttentionTrial> trials;
  for (std::size_t i = 0; i < passages.size() && trials.size() < count; ++i) {
    INCIPIT_TRY(TokenVector prompt, generator.tokens(asked(passages[i], i)));
    INCIPIT_TRY(const std::size_t cut, cut_of(generator, passages[i]));
    // As many of the passages that follow as it takes.
    TokenVector other;
    for (std::size_t k = 1; k < passages.size() && other.size() < cut; ++k) {
      INCIPIT_TRY(const TokenVector more,
                  generator.plain_tokens(passages[(i + k) % passages.size()]));
      other.insert(other.end(), more.begin(), more.end());
    }
    if (auto trial = trial_of(std::move(prompt), cut, frame, other))
      trials.push_back(std::move(*trial));
  }
  return trials;
}

// Hits on the prompts' own prefixes.
struct Hits {
  double ms = 0;  // To the first token, median.
  GeneratorCounters counters;
};

Result<Hits> time_hits(Engine& engine, std::span<const AttentionTrial> trials,
                       const std::optional<AttentionCheck>& check, const Surroundings& around) {
  GeneratorOptions options;
  options.kv.attention_check = check;
  INCIPIT_TRY(const auto generator, engine.generator(options));
  std::vector<double> ms;
  for (const AttentionTrial& trial : trials) {
    INCIPIT_TRY_VOID(check_interrupt(around));
    GenerateRequest request;
    request.tokens_max = 1;
    request.tokens.assign(trial.prompt.begin(),
                          trial.prompt.begin() + static_cast<std::ptrdiff_t>(trial.cut + 1));
    INCIPIT_TRY_VOID(generator->generate(request));
    request.tokens = trial.prompt;
    request.writes_cache = false;
    INCIPIT_TRY(const Generated answer, generator->generate(request));
    ms.push_back(answer.ms_to_first_token);
  }
  return Hits{.ms = median(std::move(ms)), .counters = generator->counters()};
}

void print_quality(const char* name, const AttentionQuality& quality, std::FILE* out) {
  std::fprintf(out, "%-34s %6.3f %9.3f %8.3f %9.3f %8.3f\n", name, quality.auc, quality.right_least,
               quality.right_median, quality.wrong_median, quality.wrong_most);
}

void print_fit(const AttentionFit& fit, std::span<const AttentionTrial> trials, std::FILE* out) {
  const auto [least, most] = std::ranges::minmax(trials, {}, &AttentionTrial::cut);
  std::fprintf(out,
               "%zu prefixes of %zu to %zu tokens; measured on %zu right and %zu wrong ones that "
               "nothing was fitted to\n%-34s %6s %9s %8s %9s %8s\n",
               trials.size(), least.cut, most.cut, fit.right, fit.wrong, "", "AUC", "right min",
               "median", "wrong med", "max");
  print_quality("largest weight but the sink's", fit.most, out);
  print_quality("weight on own tokens, named heads", fit.found, out);
  std::fputs("heads:", out);
  for (const AttentionHead head : fit.check.heads)
    std::fprintf(out, " layer %zu head %zu%s", head.layer, head.head,
                 head == fit.check.heads.back() ? "\n" : ",");
  std::fprintf(out, "threshold %.4f: suspects %zu of %zu right and %zu of %zu wrong prefixes\n",
               fit.check.threshold, fit.suspected_right, fit.right, fit.suspected_wrong, fit.wrong);
}

// Returns how many hits were wrong.
Result<std::size_t> measure(const BenchAttentionFlags& flags, const Surroundings& around) {
  INCIPIT_TRY(EngineOptions options, engine_options(flags.engine));
  INCIPIT_TRY(const std::string text, text_of(flags.paths));
  options.on_event = notices(around, flags.quiet);
  options.shows_attention = true;
  INCIPIT_TRY(const auto engine, around.open_engine(options));
  INCIPIT_TRY(auto generator, engine->generator({}));
  INCIPIT_TRY(const auto trials,
              trials_of(*generator, passages_of(text, flags.bytes), flags.prompts));
  AttentionFitOptions fit_options{.heads = flags.heads, .false_alarms = flags.false_alarms};
  fit_options.on_trial = [&](std::size_t done) {
    if (done % 20 == 0)
      say(around, std::to_string(done) + " of " + std::to_string(trials.size()) + " prefixes tried",
          flags.quiet);
    return check_interrupt(around).has_value();
  };
  INCIPIT_TRY(const AttentionFit fit, generator->fit_attention_check(trials, fit_options));
  print_fit(fit, trials, around.out);
  generator.reset();
  INCIPIT_TRY(const Hits plain, time_hits(*engine, trials, std::nullopt, around));
  INCIPIT_TRY(const Hits checked, time_hits(*engine, trials, fit.check, around));
  std::fprintf(around.out,
               "a hit's first token: %.1f ms without the check, %.1f ms with it; of %llu hits "
               "looked at %llu were suspect, %llu of them wrong\nattention check: %s\n",
               plain.ms, checked.ms, static_cast<unsigned long long>(checked.counters.looked_at),
               static_cast<unsigned long long>(checked.counters.suspects),
               static_cast<unsigned long long>(checked.counters.suspects_wrong),
               to_string(fit.check).c_str());
  return checked.counters.suspects_wrong;
}

}  // namespace

std::optional<AttentionTrial> trial_of(TokenVector prompt, std::size_t cut, const Frame& frame,
                                       TokenSpan other) {
  if (cut >= prompt.size() || cut < frame.before + frame.behind + 2) return std::nullopt;
  const std::size_t size = cut - frame.before - frame.behind;
  if (other.size() < size) return std::nullopt;
  AttentionTrial trial{.prompt = std::move(prompt), .cut = cut, .wrong = {}};
  for (const std::size_t kept : {std::size_t{0}, size / 2}) {
    TokenVector wrong(trial.prompt.begin(),
                      trial.prompt.begin() + static_cast<std::ptrdiff_t>(cut));
    const TokenSpan part = other.subspan(kept, size - kept);
    std::ranges::copy(part, wrong.begin() + static_cast<std::ptrdiff_t>(frame.before + kept));
    if (std::ranges::equal(wrong, TokenSpan(trial.prompt).first(cut))) return std::nullopt;
    trial.wrong.push_back(std::move(wrong));
  }
  return trial;
}

int bench_attention(std::span<const std::string> arguments, const Surroundings& around) {
  CLI::App app(kDescription, "incipit bench attention");
  app.footer(kFooter);
  BenchAttentionFlags flags;
  add_text_flag(app, flags.paths);
  app.add_option("--prompts", flags.prompts, "How many, as far as the text goes.")
      ->type_name("N")
      ->check(CLI::Range(4, 10'000))
      ->capture_default_str();
  app.add_option("--bytes", flags.bytes, "Least size of a prompt's text.")
      ->type_name("N")
      ->check(CLI::Range(100, 100'000))
      ->capture_default_str();
  app.add_option("--heads", flags.heads, "How many heads to name.")
      ->type_name("N")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  app.add_option("--false-alarms", flags.false_alarms,
                 "Share of right prefixes that may be suspected.")
      ->type_name("P")
      ->check(CLI::Range(0.0, 0.5))
      ->capture_default_str();
  app.add_flag("-q,--quiet", flags.quiet, "No notices.");
  add_engine_flags(app, flags.engine);
  if (const auto over = parse_flags(app, arguments, around)) return *over;
  const auto wrong = measure(flags, around);
  if (!wrong) return fail(wrong.error(), around);
  return *wrong == 0 ? kExitDone : kExitMismatch;
}

}  // namespace incipit::app
