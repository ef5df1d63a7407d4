// SPDX-License-Identifier: Apache-2.0
#include "api/paced_scorer.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "base/counted.h"
#include "base/elapsed.h"

namespace incipit::api {
namespace {

constexpr double kCallMs = 1000;
constexpr double kGrowthMax = 4;  // A call of repeats or empty texts says little of the next.

std::size_t next_count(std::size_t count, double ms) {
  const double factor = ms <= 0 ? kGrowthMax : std::min(kCallMs / ms, kGrowthMax);
  return std::max<std::size_t>(1, static_cast<std::size_t>(static_cast<double>(count) * factor));
}

}  // namespace

Result<std::vector<Scored>> PacedScorer::score(std::span<const std::string_view> texts,
                                               const GoOn& go_on) {
  std::vector<Scored> all;
  all.reserve(texts.size());
  while (all.size() < texts.size()) {
    const std::size_t left = texts.size() - all.size();
    // The rest goes along rather than making a small pass of its own.
    const std::size_t count =
        std::min({left < texts_ + texts_ / 2 ? left : texts_, left, classifier_.texts_per_call()});
    const auto start = std::chrono::steady_clock::now();
    INCIPIT_TRY(auto scored, classifier_.score(texts.subspan(all.size(), count), Route::kBatched));
    if (scored.size() != count) {
      return failure(ErrorCode::kInternal, "the classifier returned " +
                                               counted(scored.size(), "result") + " for " +
                                               counted(count, "text"));
    }
    texts_ = std::min(next_count(count, ms_since(start)), classifier_.texts_per_call());
    std::ranges::move(scored, std::back_inserter(all));
    if (!go_on(all.size())) break;
  }
  return all;
}

}  // namespace incipit::api
