// SPDX-License-Identifier: Apache-2.0
#include "engine/text_scorer.h"

#include <algorithm>
#include <future>
#include <optional>

#include "decode/label_scorer.h"
#include "prompt/ticket_text.h"

namespace incipit::engine {
namespace {

// Jobs that are handed over together: enough for passes to be full, few enough for others to get
// their turn between them.
constexpr std::size_t kAtOnce = 128;

// What became of the jobs of one call. Written on the model's thread, read when all are over.
struct Outcome {
  std::vector<decode::LabelScores> scores;  // By job.
  std::optional<Error> error;               // Of the model, not of a text.
  std::uint64_t tokens = 0;
  std::uint64_t first_pass = ~std::uint64_t{0};
  std::uint64_t last_pass = 0;
  std::size_t left = 0;
  std::promise<void> done;
};

class PartReader final : public RowReader {
 public:
  PartReader(std::unique_ptr<decode::PromptScorer> scorer, std::shared_ptr<Outcome> outcome,
             std::size_t index)
      : scorer_(std::move(scorer)), outcome_(std::move(outcome)), index_(index) {}

  Result<std::optional<Token>> read(const model::Logits& logits, std::size_t first_row,
                                    std::size_t /*rows*/) override {
    if (scorer_) scorer_->read(decode::kPrompt, logits, first_row);
    return std::nullopt;
  }
  std::vector<decode::Branch> branches_below(std::size_t id) override {
    return scorer_ ? scorer_->below(id) : std::vector<decode::Branch>();
  }
  void read_branch(std::size_t id, const model::Logits& logits, std::size_t first_row) override {
    scorer_->read(id, logits, first_row);
  }
  void finish(Result<JobReport> report) override {
    decode::LabelScores& scores = outcome_->scores[index_];
    if (report) {
      if (scorer_) scores = scorer_->take();
      outcome_->tokens += report->computed;
      outcome_->first_pass = std::min(outcome_->first_pass, report->first_pass);
      outcome_->last_pass = std::max(outcome_->last_pass, report->last_pass);
    } else if (report.error().code == ErrorCode::kResourceExhausted) {
      scores.error = prompt::kTooLong;
    } else {
      outcome_->error = std::move(report).error();
    }
    if (--outcome_->left == 0) outcome_->done.set_value();
  }

 private:
  std::unique_ptr<decode::PromptScorer> scorer_;  // Null: only the cells are wanted.
  std::shared_ptr<Outcome> outcome_;
  std::size_t index_;
};

// Errors: of the queue or the model.
Result<std::shared_ptr<Outcome>> run(Scheduler& scheduler, std::vector<Job> jobs,
                                     std::vector<std::unique_ptr<decode::PromptScorer>> scorers) {
  auto outcome = std::make_shared<Outcome>();
  outcome->scores.resize(jobs.size());
  outcome->left = jobs.size();
  if (jobs.empty()) return outcome;
  for (std::size_t i = 0; i < jobs.size(); ++i)
    jobs[i].reader = std::make_unique<PartReader>(std::move(scorers[i]), outcome, i);
  auto done = outcome->done.get_future();
  INCIPIT_TRY_VOID(scheduler.submit(std::move(jobs)));
  done.wait();
  if (outcome->error) return std::unexpected(*outcome->error);
  return outcome;
}

}  // namespace

Result<void> TextScorer::set_prefix(TokenSpan prefix) {
  prefix_.assign(prefix.begin(), prefix.end());
  if (prefix_.empty()) return {};
  std::vector<Job> jobs(1);
  jobs[0] = {.tenant = tenant_, .tokens = prefix_, .logits_rows = 0};
  std::vector<std::unique_ptr<decode::PromptScorer>> nothing(1);
  INCIPIT_TRY(const auto outcome, run(scheduler_, std::move(jobs), std::move(nothing)));
  if (outcome->scores[0].error.empty()) return {};
  return failure(ErrorCode::kResourceExhausted, "the KV cells do not hold the task's prefix of " +
                                                    std::to_string(prefix_.size()) +
                                                    " tokens; raise --ctx-size");
}

Result<Job> TextScorer::job_of(const PromptPart& part,
                               std::unique_ptr<decode::PromptScorer>& scorer) const {
  if (part.suffix.empty())
    return failure(ErrorCode::kInvalidArgument, "a prompt has no tokens of its own");
  if (tree_ != nullptr) {
    scorer = std::make_unique<decode::LabelScorer>(*tree_);
  } else {
    INCIPIT_TRY(scorer, decode::QuestionScorer::create(part.questions, *answers_));
  }
  Job job{.tenant = tenant_,
          .tokens = {},
          .logits_rows = scorer->prompt_rows(),
          .opening = part.shares_prefix ? prefix_.size() : 0,
          .tokens_below = scorer->tokens_deepest()};
  if (part.shares_prefix) job.tokens = prefix_;
  job.tokens.insert(job.tokens.end(), part.suffix.begin(), part.suffix.end());
  return job;
}

Result<std::vector<decode::LabelScores>> TextScorer::score(std::span<const PromptPart> parts) {
  std::vector<decode::LabelScores> results(parts.size());
  for (std::size_t first = 0; first < parts.size(); first += kAtOnce) {
    const std::size_t end = std::min(first + kAtOnce, parts.size());
    std::vector<std::size_t> indices;
    std::vector<Job> jobs;
    std::vector<std::unique_ptr<decode::PromptScorer>> scorers;
    for (std::size_t i = first; i < end; ++i) {
      std::unique_ptr<decode::PromptScorer> scorer;
      INCIPIT_TRY(Job job, job_of(parts[i], scorer));
      if (job.tokens.size() + job.tokens_below > context_tokens_) {
        results[i].error = prompt::kTooLong;
        continue;
      }
      indices.push_back(i);
      jobs.push_back(std::move(job));
      scorers.push_back(std::move(scorer));
    }
    if (jobs.empty()) continue;
    INCIPIT_TRY(const auto outcome, run(scheduler_, std::move(jobs), std::move(scorers)));
    for (std::size_t k = 0; k < indices.size(); ++k)
      results[indices[k]] = std::move(outcome->scores[k]);
    counters_.passes += outcome->last_pass - std::min(outcome->last_pass, outcome->first_pass - 1);
    counters_.tokens += outcome->tokens;
  }
  return results;
}

}  // namespace incipit::engine
