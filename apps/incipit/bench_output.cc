// SPDX-License-Identifier: Apache-2.0
#include "incipit/bench_output.h"

#include <array>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <ctime>
#include <fstream>

namespace incipit::app {
namespace {

// Appends as printf() would print.
[[gnu::format(printf, 2, 3)]] void add(std::string& text, const char* format, ...) {
  std::array<char, 512> line{};
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line.data(), line.size(), format, arguments);
  va_end(arguments);
  text += line.data();
}

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

void add_check(std::string& text, const std::string& precision, const EqualityCheck& check) {
  add(text,
      "%s: cached = full: %zu of %zu, batched = full: %zu of %zu, full in one pass = full: %zu of "
      "%zu, labels: %zu of %zu\n",
      precision.c_str(), check.equal_cached, check.texts, check.equal_batched, check.texts,
      check.equal_full_batched, check.texts, check.equal_labels, check.texts);
  if (check.labelled == 0) return;
  add(text, "%s: right labels: %zu of %zu, with --calibrate batch %zu of %zu\n", precision.c_str(),
      check.right, check.labelled, check.right_calibrated, check.labelled);
}

}  // namespace

std::string bench_text(const BenchResult& result) {
  std::string text;
  add(text, "%s, %s\n%s, %zu threads, instructions %s\n", result.facts.model_file.c_str(),
      result.facts.architecture.c_str(), result.facts.runtime.c_str(), result.facts.threads,
      result.facts.instructions.c_str());
  add(text, "tickets: %zu\n", result.rows);
  add(text, "static prefix: %zu tokens\n", result.facts.prefix_tokens);
  add(text, "full prompt: %.0f tokens (%.0f %% static)\n", prompt_tokens(result),
      static_percent(result));
  for (const auto& [precision, check] : result.checks) add_check(text, precision, check);
  for (const ModeTime& mode : result.modes) {
    add(text, "\n%s, %s\n  total: %.2f s\n  %.1f ms per ticket\n  speed-up: %.2fx\n",
        mode.precision.c_str(), std::string(mode_name(mode.mode)).c_str(), mode.total_s,
        mode.ms_per_ticket, mode.speed_up);
  }
  return text;
}

std::string bench_json(const BenchResult& result) {
  // Names in this object are our own words and numbers; the model's file name is the only text
  // from outside, and JSON is told apart from it by escaping.
  std::string name;
  for (const char c : result.facts.model_file) {
    if (c == '"' || c == '\\') name += '\\';
    name += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  std::string text;
  add(text, "{\"model\":\"%s\",\"sha256\":\"%s\",\"threads\":%zu,", name.c_str(),
      result.facts.model_sha256.c_str(), result.facts.threads);
  add(text, "\"instructions\":\"%s\",\"tickets\":%zu,\"prefix_tokens\":%zu,\"prompt_tokens\":%.1f,",
      result.facts.instructions.c_str(), result.rows, result.facts.prefix_tokens,
      prompt_tokens(result));
  text += "\"checks\":[";
  for (std::size_t i = 0; i < result.checks.size(); ++i) {
    const auto& [precision, check] = result.checks[i];
    add(text,
        "%s{\"precision\":\"%s\",\"texts\":%zu,\"cached_equal\":%zu,\"batched_equal\":%zu,\"full_"
        "batched_equal\":%zu,",
        i == 0 ? "" : ",", precision.c_str(), check.texts, check.equal_cached, check.equal_batched,
        check.equal_full_batched);
    add(text, "\"labels_equal\":%zu,\"labelled\":%zu,\"right\":%zu,\"right_calibrated\":%zu}",
        check.equal_labels, check.labelled, check.right, check.right_calibrated);
  }
  text += "],\"modes\":[";
  for (std::size_t i = 0; i < result.modes.size(); ++i) {
    const ModeTime& mode = result.modes[i];
    add(text,
        "%s{\"precision\":\"%s\",\"mode\":\"%s\",\"total_s\":%.4f,\"ms_per_ticket\":%.3f,\"speed_"
        "up\":%.3f}",
        i == 0 ? "" : ",", mode.precision.c_str(), std::string(mode_name(mode.mode)).c_str(),
        mode.total_s, mode.ms_per_ticket, mode.speed_up);
  }
  return text + "]}\n";
}

Result<void> write_bench_html(const BenchResult& result, const std::string& command,
                              const std::string& path) {
  BenchReport page{.title = "Sorting " + std::to_string(result.rows) + " tickets",
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
  std::ofstream file(path, std::ios::binary);
  file << html_report(page);
  file.close();
  if (!file)
    return failure(ErrorCode::kResourceExhausted,
                   "cannot write " + path + "; is the folder there and the disk not full?");
  return {};
}

}  // namespace incipit::app
