// SPDX-License-Identifier: Apache-2.0
#include "api/verifier.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <span>
#include <string_view>

#include "api/seen_texts.h"
#include "base/elapsed.h"

namespace incipit::api {
namespace {

constexpr std::size_t kExamplesMax = 20;

bool same_bits(std::span<const double> a, std::span<const double> b) {
  return std::ranges::equal(a, b, [](double x, double y) {
    return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
  });
}

double max_difference(std::span<const double> a, std::span<const double> b) {
  double most = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i] != b[i]) most = std::max(most, std::abs(a[i] - b[i]));
  }
  return most;
}

}  // namespace

Result<void> Verifier::add(const std::string& id, const std::string& text, const Scored& scored) {
  if (wanted_ == 0) return {};
  Candidate candidate{.rank = text_key(id).high, .id = id, .text = text, .scored = scored};
  if (wanted_ == FileJob::kVerifyAll) {
    candidates_.push_back(std::move(candidate));
    return candidates_.size() < classifier_.texts_per_call() ? Result<void>{} : compare_all();
  }
  if (candidates_.size() == wanted_) {
    if (candidate.rank >= candidates_.front().rank) return {};
    std::ranges::pop_heap(candidates_, {}, &Candidate::rank);
    candidates_.pop_back();
  }
  candidates_.push_back(std::move(candidate));
  std::ranges::push_heap(candidates_, {}, &Candidate::rank);
  return {};
}

Result<VerifyReport> Verifier::finish() {
  INCIPIT_TRY_VOID(compare_all());
  return std::move(report_);
}

Result<void> Verifier::compare_all() {
  for (const Candidate& candidate : candidates_) {
    INCIPIT_TRY_VOID(check_());
    const std::string_view text = candidate.text;
    const auto start = std::chrono::steady_clock::now();
    INCIPIT_TRY(const auto full, classifier_.score(std::span(&text, 1), Route::kFull));
    report_.ms_full += ms_since(start);
    if (full.size() != 1) {
      return failure(ErrorCode::kInternal, "the classifier gave no scores for one text");
    }
    compare(candidate, full.front());
  }
  candidates_.clear();
  return {};
}

void Verifier::compare(const Candidate& candidate, const Scored& full) {
  const Scored& scored = candidate.scored;
  ++report_.rows;
  const double difference = max_difference(scored.scores, full.scores);
  report_.max_difference = std::max(report_.max_difference, difference);
  const bool same_shape = scored.error == full.error && scored.scores.size() == full.scores.size();
  const bool same_scores = classifier_.report().exact
                               ? same_bits(scored.scores, full.scores) &&
                                     same_bits(scored.raw, full.raw) &&
                                     same_bits({&scored.mass, 1}, {&full.mass, 1})
                               : difference <= tolerance_;
  const bool same_label =
      same_shape && classifier_.decide(scored, {}).best == classifier_.decide(full, {}).best;
  if (same_shape && same_scores && same_label) return;
  ++report_.mismatches;
  report_.label_mismatches += same_label ? 0 : 1;
  if (report_.examples.size() == kExamplesMax) return;
  report_.examples.push_back({.id = candidate.id,
                              .scores = scored.scores,
                              .full_scores = full.scores,
                              .label_differs = !same_label});
}

}  // namespace incipit::api
