// SPDX-License-Identifier: Apache-2.0
#include "incipit/bench_output.h"

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <ctime>
#include <string_view>

#include "api/json_writer.h"
#include "base/counted.h"
#include "base/file.h"
#include "incipit/terminal_text.h"

namespace incipit::app {
namespace {

// As printf() would print, in whatever room it takes.
[[gnu::format(printf, 1, 2)]] std::string formatted(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, arguments);
  va_end(arguments);
  std::string text(static_cast<std::size_t>(std::max(length, 0)), '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  return text;
}

std::string one_line(std::string_view text) { return printable(text, LineEnds::kEscaped); }

double prompt_tokens(const BenchResult& result) {
  return static_cast<double>(result.facts.prefix_tokens) + result.suffix_tokens;
}

double static_percent(const BenchResult& result) {
  return 100.0 * static_cast<double>(result.facts.prefix_tokens) / prompt_tokens(result);
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  std::array<char, 16> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d", &parts);
  return text.data();
}

std::string of(std::size_t part, std::size_t whole) {
  return std::to_string(part) + " of " + std::to_string(whole);
}

std::string check_text(const std::string& precision, const EqualityCheck& check) {
  std::string text = precision + ": cached = full: " + of(check.equal_cached, check.texts) +
                     ", batched = full: " + of(check.equal_batched, check.texts) +
                     ", full in one pass = full: " + of(check.equal_full_batched, check.texts) +
                     ", labels: " + of(check.equal_labels, check.texts) +
                     (check.exact ? "" : "; approximate: equality is not promised") + "\n";
  if (check.labelled > 0) {
    text += precision + ": right labels: " + of(check.right, check.labelled) +
            ", with --calibrate batch: " + of(check.right_calibrated, check.labelled) + "\n";
  }
  return text;
}

}  // namespace

std::string bench_text(const BenchResult& result) {
  const ClassifierReport& facts = result.facts;
  std::string text = one_line(facts.model_file) + ", " + one_line(facts.architecture) + "\n" +
                     facts.runtime + ", " + counted(facts.threads, "thread") + ", instructions " +
                     facts.instructions + "\n";
  text += "tickets: " + std::to_string(result.rows) + "\n";
  text += "static prefix: " + counted(facts.prefix_tokens, "token") + "\n";
  text += formatted("full prompt: %.0f tokens (%.0f %% static)\n", prompt_tokens(result),
                    static_percent(result));
  for (const auto& [precision, check] : result.checks) text += check_text(precision, check);
  for (const ModeTime& mode : result.modes) {
    text += "\n" + mode.precision + ", " + std::string(mode_name(mode.mode)) + "\n";
    text += formatted("  total: %.2f s\n  %.1f ms per ticket\n  speed-up: %.2fx\n", mode.total_s,
                      mode.ms_per_ticket, mode.speed_up);
  }
  return text;
}

std::string bench_json(const BenchResult& result) {
  api::JsonWriter json(2);
  json.begin_object();
  json.key("incipit").string(INCIPIT_VERSION);
  json.key("model").string(result.facts.model_file);
  json.key("sha256").string(result.facts.model_sha256);
  json.key("runtime").string(result.facts.runtime);
  json.key("instructions").string(result.facts.instructions);
  json.key("threads").number(result.facts.threads);
  json.key("tickets").number(result.rows);
  json.key("prefix_tokens").number(result.facts.prefix_tokens);
  json.key("prompt_tokens").number(prompt_tokens(result));
  json.key("checks").begin_array();
  for (const auto& [precision, check] : result.checks) {
    json.begin_object().key("precision").string(precision);
    json.key("texts").number(check.texts);
    json.key("cached_equal").number(check.equal_cached);
    json.key("batched_equal").number(check.equal_batched);
    json.key("full_batched_equal").number(check.equal_full_batched);
    json.key("labels_equal").number(check.equal_labels);
    json.key("labelled").number(check.labelled);
    json.key("right").number(check.right);
    json.key("right_calibrated").number(check.right_calibrated).end_object();
  }
  json.end_array().key("modes").begin_array();
  for (const ModeTime& mode : result.modes) {
    json.begin_object().key("precision").string(mode.precision);
    json.key("mode").string(mode_name(mode.mode));
    json.key("total_s").number(mode.total_s);
    json.key("ms_per_ticket").number(mode.ms_per_ticket);
    json.key("speed_up").number(mode.speed_up).end_object();
  }
  return json.end_array().end_object().take() + "\n";
}

Result<void> write_bench_html(const BenchResult& result, const std::string& command,
                              const std::string& path) {
  BenchReport page{.title = "Sorting " + counted(result.rows, "ticket"),
                   .date = today(),
                   .command = command,
                   .tickets = result.rows,
                   .prefix_tokens = result.facts.prefix_tokens,
                   .prompt_tokens = prompt_tokens(result),
                   .modes = result.modes,
                   .shares = result.shares,
                   .batches = result.batches,
                   .proofs = {},
                   .machine = {{"Model", result.facts.model_file},
                               {"Model SHA-256", result.facts.model_sha256},
                               {"Runtime", result.facts.runtime},
                               {"Instructions", result.facts.instructions},
                               {"Threads", std::to_string(result.facts.threads)},
                               {"Incipit", INCIPIT_VERSION}}};
  for (const auto& [precision, check] : result.checks) {
    page.proofs.push_back(
        {precision + ": cached = full", check.equal_cached, check.texts, "bit-equal"});
    page.proofs.push_back(
        {precision + ": batched = full", check.equal_batched, check.texts, "bit-equal"});
    page.proofs.push_back({precision + ": full in one pass = full", check.equal_full_batched,
                           check.texts, "bit-equal"});
  }
  return write_file(path, html_report(page));
}

}  // namespace incipit::app
