// SPDX-License-Identifier: Apache-2.0
#include "engine/text_reader.h"

#include <utility>

#include "base/counted.h"
#include "decode/log_softmax.h"

namespace incipit::engine {

Result<Window> window_of(const SlidingWindow& asked, const model::Limits& limits) {
  // Room for the slides to be worth their cost.
  constexpr std::size_t kRecentMin = 16;
  if (!limits.can_move) {
    return failure(ErrorCode::kUnavailable,
                   "sliding_window: this runtime cannot move KV cells to other positions");
  }
  const std::size_t most = limits.context_tokens;
  if (asked.sink_tokens > most || asked.recent_tokens > most - asked.sink_tokens ||
      most - asked.sink_tokens < kRecentMin) {
    return failure(ErrorCode::kInvalidArgument,
                   "sliding_window: " + std::to_string(asked.sink_tokens) + " and " +
                       counted(asked.recent_tokens, "token") + " exceed the context of " +
                       std::to_string(most));
  }
  const std::size_t recent =
      asked.recent_tokens == 0 ? most - asked.sink_tokens : asked.recent_tokens;
  if (recent < kRecentMin) {
    return failure(ErrorCode::kInvalidArgument,
                   "sliding_window: recent_tokens must be at least " + std::to_string(kRecentMin));
  }
  return Window{.cells = asked.sink_tokens + recent, .sink = asked.sink_tokens};
}

std::string lossy_reason(const JobReport& report) {
  if (report.moved > 0)
    return "passages have " + counted(report.moved, "token") +
           " that were computed in another place";
  if (report.forgotten == 0) return "";
  return "a sliding window forgot " + counted(report.forgotten, "token") + " behind the first ones";
}

TextReader::TextReader(TokenVector tail, std::function<bool(std::size_t)> on_tokens,
                       std::promise<Result<TextScore>> done)
    : tail_(std::move(tail)), on_tokens_(std::move(on_tokens)), done_(std::move(done)) {}

Result<std::optional<Token>> TextReader::read(const model::Logits& logits, std::size_t first_row,
                                              std::size_t rows) {
  for (std::size_t i = 0; i < rows; ++i) {
    const auto row = logits.row(first_row + i);
    const Token token = tail_[score_.log_probabilities.size()];
    score_.log_probabilities.push_back(static_cast<double>(row[static_cast<std::size_t>(token)]) -
                                       decode::log_sum_exp(row));
  }
  const std::size_t count = score_.log_probabilities.size();
  if (on_tokens_ && !on_tokens_(count))
    return failure(ErrorCode::kCancelled, "the caller ended the scoring");
  if (count == tail_.size()) return std::nullopt;
  return tail_[count - 1];
}

void TextReader::finish(Result<JobReport> report) {
  if (!report) return done_.set_value(std::unexpected(report.error()));
  score_.kv = report->lookup;
  score_.tokens_computed = report->computed;
  score_.lossy_reason = lossy_reason(*report);
  score_.lossy = !score_.lossy_reason.empty();
  done_.set_value(std::move(score_));
}

}  // namespace incipit::engine
