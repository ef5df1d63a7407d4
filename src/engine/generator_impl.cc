// SPDX-License-Identifier: Apache-2.0
#include "engine/generator_impl.h"

#include <chrono>
#include <future>
#include <numeric>
#include <optional>
#include <utility>

#include "base/counted.h"
#include "base/elapsed.h"
#include "decode/stop_strings.h"
#include "engine/attention_fit.h"
#include "engine/text_reader.h"
#include "model/token_sampler.h"

namespace incipit::engine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kMsPerSecond = 1000;

Result<model::Role> role_of(const std::string& name) {
  if (name == "system") return model::Role::kSystem;
  if (name == "user") return model::Role::kUser;
  if (name == "assistant") return model::Role::kAssistant;
  return failure(ErrorCode::kInvalidArgument,
                 "turns: the role '" + name + "' is not system, user or assistant");
}

// Samples an answer token by token. Lives on the model's thread; its caller waits.
class AnswerReader final : public RowReader {
 public:
  AnswerReader(const GenerateRequest& request, const model::Tokenizer& tokenizer,
               std::unique_ptr<model::TokenSampler> sampler, std::promise<Result<Generated>> done)
      : request_(request),
        tokenizer_(tokenizer),
        sampler_(std::move(sampler)),
        stops_(request.sampling.stop),
        done_(std::move(done)) {}

  Result<std::optional<Token>> read(const model::Logits& logits, std::size_t first_row,
                                    std::size_t rows) override {
    INCIPIT_TRY(const model::SampledToken sampled,
                sampler_->sample(logits.row(first_row + rows - 1)));
    if (answer_.tokens.empty()) answer_.ms_to_first_token = ms_since(start_);
    answer_.tokens.push_back(sampled.token);
    if (request_.sampling.logprobs > 0) answer_.logprobs.push_back(sampled.logprobs);
    if (tokenizer_.ends_generation(sampled.token)) {
      answer_.finish = FinishReason::kStop;
      return std::nullopt;
    }
    const bool wants_more = emit(stops_.push(tokenizer_.piece(sampled.token)));
    if (stops_.is_stopped() || !wants_more) {
      answer_.finish = stops_.is_stopped() ? FinishReason::kStop : FinishReason::kCaller;
      return std::nullopt;
    }
    answer_.finish = FinishReason::kLength;
    if (answer_.tokens.size() >= request_.tokens_max) return std::nullopt;
    return sampled.token;
  }

  void finish(Result<JobReport> report) override {
    if (!report) return done_.set_value(std::unexpected(report.error()));
    emit(stops_.flush());
    answer_.kv = report->lookup;
    answer_.tokens_computed = report->computed;
    answer_.lossy_reason = lossy_reason(*report);
    answer_.lossy = !answer_.lossy_reason.empty();
    answer_.ms = ms_since(start_);
    done_.set_value(std::move(answer_));
  }

 private:
  bool emit(const std::string& text) {
    answer_.text += text;
    return text.empty() || !request_.on_text || request_.on_text(text);
  }

  const GenerateRequest& request_;  // Kept by the caller, who waits.
  const model::Tokenizer& tokenizer_;
  std::unique_ptr<model::TokenSampler> sampler_;
  decode::StopStrings stops_;
  std::promise<Result<Generated>> done_;
  Generated answer_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace

GeneratorImpl::GeneratorImpl(std::shared_ptr<ServedModel> served)
    : served_(std::move(served)),
      loaded_(served_->loaded()),
      scheduler_(served_->scheduler()),
      cells_(loaded_.runtime->limits().cells),
      cell_bytes_(loaded_.runtime->limits().cell_bytes),
      exact_(loaded_.runtime->limits().exact),
      special_(loaded_.tokenizer->special_tokens(), loaded_.tokenizer->chat_template()),
      prompt_text_(*loaded_.tokenizer, special_) {}

Job GeneratorImpl::job_of(const PromptRequest& request, TokenVector tokens) const {
  return {.tenant = request.tenant,
          .tokens = std::move(tokens),
          .logits_rows = 1,
          .reads_cache = request.reads_cache,
          .writes_cache = request.writes_cache,
          .window = {},
          .passages = request.passages,
          .commit = {.priority = request.priority,
                     .protect_ms = request.protect_s * kMsPerSecond,
                     .ttl_ms = request.ttl_s * kMsPerSecond},
          .reader = nullptr};
}

Result<TokenVector> GeneratorImpl::tokens(const PromptRequest& request) {
  if (request.tenant.starts_with('\0'))
    return failure(ErrorCode::kInvalidArgument, "tenant: a name must not begin with NUL");
  if (!request.tokens.empty()) return request.tokens;
  if (!request.passages.ranges.empty())
    return failure(ErrorCode::kInvalidArgument, "passages: they are ranges of tokens; give tokens");
  if (request.turns.empty())
    return failure(ErrorCode::kInvalidArgument, "a request needs turns or tokens");
  std::vector<model::ChatMessage> messages;
  for (const Turn& turn : request.turns) {
    INCIPIT_TRY(const model::Role role, role_of(turn.role));
    messages.push_back({.role = role, .content = turn.content});
  }
  INCIPIT_TRY(const model::RenderedChat chat, loaded_.chat_template->render(messages, {}));
  return prompt_text_.encode(chat, {}, SpecialTextPolicy::kNeutralise);
}

std::string GeneratorImpl::text(TokenSpan tokens) const {
  std::string text;
  for (const Token token : tokens) text += loaded_.tokenizer->piece(token);
  return text;
}

Result<Generated> GeneratorImpl::generate(const GenerateRequest& request) {
  if (request.tokens_max == 0)
    return failure(ErrorCode::kInvalidArgument, "tokens_max must be at least 1");
  INCIPIT_TRY(TokenVector prompt, tokens(request));
  INCIPIT_TRY(auto sampler, model::TokenSampler::create(*loaded_.tokenizer, request.sampling));
  std::promise<Result<Generated>> done;
  std::future<Result<Generated>> answer = done.get_future();
  Job job = job_of(request, std::move(prompt));
  if (request.sliding_window) {
    INCIPIT_TRY(job.window, window_of(*request.sliding_window, loaded_.runtime->limits()));
  }
  job.reader = std::make_unique<AnswerReader>(request, *loaded_.tokenizer, std::move(sampler),
                                              std::move(done));
  INCIPIT_TRY_VOID(scheduler_.submit(std::move(job)));
  return answer.get();
}

Result<ContinuationScores> GeneratorImpl::score(const ScoreRequest& request) {
  if (request.continuations.empty())
    return failure(ErrorCode::kInvalidArgument, "continuations: at least one is needed");
  INCIPIT_TRY(const TokenVector prompt, tokens(request));
  std::vector<std::future<Result<TextScore>>> tails;
  for (const std::string& continuation : request.continuations) {
    INCIPIT_TRY(TokenVector tail, loaded_.tokenizer->encode_plain(continuation));
    if (tail.empty())
      return failure(ErrorCode::kInvalidArgument, "continuations: an empty one has no score");
    TokenVector whole = prompt;
    whole.insert(whole.end(), tail.begin(), tail.end() - 1);
    Job job = job_of(request, std::move(whole));
    job.logits_rows = tail.size();
    std::promise<Result<TextScore>> done;
    tails.push_back(done.get_future());
    job.reader = std::make_unique<TextReader>(std::move(tail), nullptr, std::move(done));
    INCIPIT_TRY_VOID(scheduler_.submit(std::move(job)));
  }
  ContinuationScores scores;
  for (auto& tail : tails) {
    INCIPIT_TRY(const TextScore score, tail.get());
    if (scores.log_probabilities.empty()) scores.kv = score.kv;
    if (!scores.lossy) scores.lossy_reason = score.lossy_reason;
    scores.lossy = !scores.lossy_reason.empty();
    scores.log_probabilities.push_back(
        std::accumulate(score.log_probabilities.begin(), score.log_probabilities.end(), 0.0));
    scores.tokens_computed += score.tokens_computed;
  }
  return scores;
}

Result<TextScore> GeneratorImpl::score_text(const TextScoreRequest& request) {
  // More rows of logits in one pass are memory without speed.
  constexpr std::size_t kRowsAtOnce = 256;
  INCIPIT_TRY(TokenVector text, tokens(request));
  const std::size_t scored = request.scored_tokens == 0 ? text.size() - 1 : request.scored_tokens;
  if (scored == 0 || scored >= text.size())
    return failure(ErrorCode::kInvalidArgument, "scored_tokens: the text has " +
                                                    counted(text.size(), "token") +
                                                    ", of which the first has no score");
  const bool at_once = !request.sliding_window && scored <= kRowsAtOnce;
  TokenVector tail(text.end() - static_cast<std::ptrdiff_t>(scored), text.end());
  text.resize(at_once ? text.size() - 1 : text.size() - scored);
  Job job = job_of(request, std::move(text));
  if (at_once) job.logits_rows = scored;
  if (request.sliding_window) {
    INCIPIT_TRY(job.window, window_of(*request.sliding_window, loaded_.runtime->limits()));
  }
  std::promise<Result<TextScore>> done;
  std::future<Result<TextScore>> score = done.get_future();
  job.reader = std::make_unique<TextReader>(std::move(tail), request.on_tokens, std::move(done));
  INCIPIT_TRY_VOID(scheduler_.submit(std::move(job)));
  return score.get();
}

Result<KvLookup> GeneratorImpl::explain(const PromptRequest& request) {
  INCIPIT_TRY(const TokenVector prompt, tokens(request));
  KvLookup lookup;
  scheduler_.inspect([&](kv::PrefixCache& cache, const BatcherCounters&) {
    lookup =
        cache.explain({.tenant = request.tenant, .tokens = prompt, .limit = prompt.size() - 1});
  });
  return lookup;
}

std::vector<KvEntry> GeneratorImpl::entries() {
  std::vector<KvEntry> entries;
  scheduler_.inspect(
      [&](kv::PrefixCache& cache, const BatcherCounters&) { entries = cache.entries(); });
  return entries;
}

std::size_t GeneratorImpl::drop(std::string_view tenant, TokenSpan tokens) {
  std::size_t forgotten = 0;
  scheduler_.inspect([&](kv::PrefixCache& cache, const BatcherCounters&) {
    forgotten = cache.drop(tenant, tokens);
    if (tokens.empty()) served_->fragments().drop(tenant);
  });
  return forgotten;
}

Result<KvSaved> GeneratorImpl::save(const PromptRequest& request, const std::string& path) {
  if (!request.reads_cache || !request.writes_cache)
    return failure(ErrorCode::kInvalidArgument, "save needs reads_cache and writes_cache");
  GenerateRequest whole;
  static_cast<PromptRequest&>(whole) = request;
  INCIPIT_TRY(whole.tokens, tokens(request));
  whole.tokens_max = 1;  // The prompt's cells are there once its next token is known.
  INCIPIT_TRY(const Generated answer, generate(whole));
  Result<void> saved;
  scheduler_.inspect([&](kv::PrefixCache& cache, const BatcherCounters&) {
    saved = cache.save_to(path, request.tenant, whole.tokens);
  });
  if (!saved) return std::unexpected(saved.error());
  return KvSaved{.tokens = whole.tokens.size(),
                 .computed = whole.tokens.size() - answer.kv.matched};
}

Result<std::size_t> GeneratorImpl::restore(const std::string& path) {
  Result<std::size_t> restored;
  scheduler_.inspect(
      [&](kv::PrefixCache& cache, const BatcherCounters&) { restored = cache.restore_from(path); });
  return restored;
}

Result<AttentionFit> GeneratorImpl::fit_attention_check(std::span<const AttentionTrial> trials,
                                                        const AttentionFitOptions& options) {
  Result<AttentionFit> fit;
  scheduler_.inspect([&](kv::PrefixCache& cache, const BatcherCounters&) {
    fit = fit_attention(*loaded_.runtime, cache, trials, options);
  });
  return fit;
}

void GeneratorImpl::spill() {
  scheduler_.inspect(
      [this](kv::PrefixCache& cache, const BatcherCounters&) { cache.make_room(cells_); });
}

GeneratorCounters GeneratorImpl::counters() {
  GeneratorCounters counters;
  scheduler_.inspect([&](kv::PrefixCache& cache, const BatcherCounters& batcher) {
    counters = {.kv = cache.counters(),
                .passes = batcher.passes,
                .rows = batcher.rows,
                .decode_rows = batcher.decode_rows,
                .drafted = batcher.drafted,
                .accepted = batcher.accepted,
                .preempted = batcher.preempted,
                .slides = batcher.slides,
                .moved = batcher.moved,
                .looked_at = batcher.looked_at,
                .suspects = batcher.suspects,
                .suspects_wrong = batcher.suspects_wrong};
  });
  return counters;
}

}  // namespace incipit::engine
