// SPDX-License-Identifier: Apache-2.0
#include "policy/attention_check.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <system_error>
#include <utility>

#include "base/check.h"

namespace incipit {
namespace {

// Reads a number off the front of `text`.
template <typename Number>
bool take(std::string_view& text, Number& number) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool take(std::string_view& text, char letter) {
  if (!text.starts_with(letter)) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::string to_string(const AttentionCheck& check) {
  std::string text;
  for (const AttentionHead& head : check.heads)
    text +=
        (text.empty() ? "" : ",") + std::to_string(head.layer) + "." + std::to_string(head.head);
  char number[32];
  const auto written = std::to_chars(number, number + sizeof(number), check.threshold);
  return text + ":" + std::string(number, written.ptr);
}

Result<AttentionCheck> parse_attention_check(std::string_view text) {
  AttentionCheck check;
  std::string_view rest = text;
  bool reads = true;
  do {
    AttentionHead& head = check.heads.emplace_back();
    reads = take(rest, head.layer) && take(rest, '.') && take(rest, head.head);
  } while (reads && take(rest, ','));
  if (!reads || !take(rest, ':') || !take(rest, check.threshold) || !rest.empty())
    return failure(ErrorCode::kInvalidArgument,
                   "'" + std::string(text) +
                       "' is no attention check; it reads LAYER.HEAD,...:THRESHOLD, as incipit "
                       "bench attention prints it");
  return check;
}

}  // namespace incipit

namespace incipit::policy {
namespace {

double auc(const Verdicts& verdicts) {
  double won = 0;
  for (const double right : verdicts.right) {
    for (const double wrong : verdicts.wrong) won += right > wrong ? 1 : right == wrong ? 0.5 : 0;
  }
  return won / static_cast<double>(verdicts.right.size() * verdicts.wrong.size());
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

}  // namespace

std::optional<double> own_token_weight(std::span<const float> weights, TokenSpan tokens,
                                       std::size_t prefix) {
  INCIPIT_CHECK(prefix < weights.size() && weights.size() <= tokens.size(),
                "a row stands behind the prefix, and its cells have tokens");
  const Token own = tokens[weights.size() - 1];
  std::size_t seen = 0;  // Cells of the prefix inside the head's window.
  std::size_t alike = 0;
  double all = 0;
  double found = 0;
  for (std::size_t cell = 1; cell < prefix; ++cell) {
    if (weights[cell] == 0) continue;
    const auto weight = static_cast<double>(weights[cell]);
    ++seen;
    all += weight;
    if (tokens[cell] != own) continue;
    ++alike;
    found += weight;
  }
  if (alike == 0) return std::nullopt;
  return found - all * static_cast<double>(alike) / static_cast<double>(seen);
}

double largest_weight(std::span<const float> weights, std::size_t prefix) {
  const auto cells = weights.first(std::min(prefix, weights.size()));
  return cells.size() < 2 ? 0 : static_cast<double>(std::ranges::max(cells.subspan(1)));
}

AttentionQuality quality_of(const Verdicts& verdicts) {
  INCIPIT_CHECK(!verdicts.right.empty() && !verdicts.wrong.empty(), "nothing to compare");
  return {.auc = auc(verdicts),
          .right_least = std::ranges::min(verdicts.right),
          .right_median = median(verdicts.right),
          .wrong_median = median(verdicts.wrong),
          .wrong_most = std::ranges::max(verdicts.wrong)};
}

std::vector<std::size_t> best_heads(const FitSamples& samples, std::size_t count) {
  INCIPIT_CHECK(!samples.right.empty() && !samples.wrong.empty(), "nothing to fit to");
  std::vector<std::pair<double, std::size_t>> ranked;
  for (std::size_t head = 0; head < samples.right.front().size(); ++head) {
    Verdicts verdicts;
    for (const HeadValues& values : samples.right) verdicts.right.push_back(values[head]);
    for (const HeadValues& values : samples.wrong) verdicts.wrong.push_back(values[head]);
    ranked.emplace_back(-auc(verdicts), head);
  }
  std::ranges::sort(ranked);
  ranked.resize(std::min(count, ranked.size()));
  std::vector<std::size_t> best;
  for (const auto& [unused, head] : ranked) best.push_back(head);
  return best;
}

double mean_of(const HeadValues& values, std::span<const std::size_t> heads) {
  double sum = 0;
  for (const std::size_t head : heads) sum += values[head];
  return sum / static_cast<double>(heads.size());
}

double threshold_for(std::vector<double> right, double false_alarms) {
  INCIPIT_CHECK(!right.empty(), "nothing to fit to");
  std::ranges::sort(right);
  const auto below = static_cast<std::size_t>(false_alarms * static_cast<double>(right.size()));
  constexpr double kSteps = 1e4;  // People copy it.
  return std::floor(right[std::min(below, right.size() - 1)] * kSteps) / kSteps;
}

std::string wrong_with(const AttentionCheck& check, std::size_t layers, std::size_t heads) {
  if (check.heads.empty()) return "it names no head";
  for (const AttentionHead& head : check.heads) {
    if (head.layer >= layers || head.head >= heads)
      return "there is no head " + std::to_string(head.layer) + "." + std::to_string(head.head) +
             ": the model has " + std::to_string(layers) + " layers of " + std::to_string(heads) +
             " heads, counted from 0";
  }
  if (std::set(check.heads.begin(), check.heads.end()).size() < check.heads.size())
    return "it names a head twice";
  if (!(check.threshold > 0 && check.threshold < 1))
    return "the threshold must lie between 0 and 1, both left out";
  return "";
}

}  // namespace incipit::policy
