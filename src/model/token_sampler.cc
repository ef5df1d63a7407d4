// SPDX-License-Identifier: Apache-2.0
#include "model/token_sampler.h"

#include <llama.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "model/grammar.h"
#include "model/json_schema.h"

namespace incipit::model {
namespace {

constexpr std::size_t kLogprobsMax = 20;
constexpr std::size_t kStopsMax = 16;
constexpr std::size_t kGrammarBytesMax = std::size_t{64} << 10U;
constexpr std::size_t kGrammarFirst = 1024;  // Candidates that a grammar sees before all others.
constexpr double kNeverBias = -100;

std::unexpected<Error> wrong(const std::string& option, const std::string& range) {
  return failure(ErrorCode::kInvalidArgument, "sampling: " + option + " must lie " + range);
}

Result<void> check(const SamplingOptions& options, std::size_t vocabulary) {
  // Written so that NaN fails.
  const auto within = [](double value, double least, double most) {
    return value >= least && value <= most;
  };
  if (!within(options.temperature, 0, 2)) return wrong("temperature", "between 0 and 2");
  if (!within(options.top_p, 0, 1) || options.top_p == 0)
    return wrong("top_p", "above 0 and at most 1");
  if (!within(options.min_p, 0, 1)) return wrong("min_p", "between 0 and 1");
  if (!within(options.repeat_penalty, 0.1, 10))
    return wrong("repeat_penalty", "between 0.1 and 10");
  if (!within(options.frequency_penalty, -2, 2))
    return wrong("frequency_penalty", "between -2 and 2");
  if (!within(options.presence_penalty, -2, 2))
    return wrong("presence_penalty", "between -2 and 2");
  if (options.top_k > vocabulary) return wrong("top_k", "within the vocabulary");
  if (options.penalty_tokens > 100'000) return wrong("penalty_tokens", "between 0 and 100000");
  if (options.logprobs > kLogprobsMax) return wrong("logprobs", "between 0 and 20");
  if (options.seed == LLAMA_DEFAULT_SEED) return wrong("seed", "between 0 and 4294967294");
  if (options.stop.size() > kStopsMax || std::ranges::count(options.stop, "") > 0)
    return wrong("stop", "between 0 and 16 strings, none of them empty");
  if (options.grammar.size() > kGrammarBytesMax) return wrong("grammar", "below 64 KiB");
  if (options.json_schema.size() > kGrammarBytesMax) return wrong("json_schema", "below 64 KiB");
  if (!options.grammar.empty() && !options.json_schema.empty())
    return failure(ErrorCode::kInvalidArgument,
                   "sampling: grammar and json_schema exclude each other; give one");
  for (const auto& [token, bias] : options.logit_bias) {
    if (token < 0 || static_cast<std::size_t>(token) >= vocabulary || !within(bias, -1e9, 100))
      return wrong("logit_bias", "on tokens of the vocabulary and below 100");
  }
  return {};
}

bool has_penalties(const SamplingOptions& options) {
  return options.repeat_penalty != 1 || options.frequency_penalty != 0 ||
         options.presence_penalty != 0;
}

// The better candidate: the more probable one, of equal ones the lower token.
bool is_better(const llama_token_data& a, const llama_token_data& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

std::unexpected<Error> sampling_failure(const Error& error) {
  return failure(error.code, "sampling: " + error.message);
}

Result<std::unique_ptr<Grammar>> grammar_of(const Tokenizer& tokenizer,
                                            const SamplingOptions& options) {
  if (options.json_schema.empty()) {
    if (options.grammar.empty()) return nullptr;
    auto grammar = Grammar::create(tokenizer, options.grammar);
    if (!grammar) return sampling_failure(grammar.error());
    return grammar;
  }
  const auto text = json_schema_grammar(options.json_schema);
  if (!text) return sampling_failure(text.error());
  auto grammar = Grammar::create(tokenizer, *text);
  if (!grammar) {
    // The place is one in a text that the caller has never seen.
    return failure(ErrorCode::kInvalidArgument, "sampling: json_schema: its grammar is refused (" +
                                                    grammar.error().message +
                                                    "); make the schema smaller");
  }
  return grammar;
}

}  // namespace

// Owns the samplers and the room for candidates.
struct TokenSampler::Chain {
  llama_sampler* changes = llama_sampler_chain_init(llama_sampler_chain_default_params());
  llama_sampler* draw = llama_sampler_chain_init(llama_sampler_chain_default_params());
  std::unique_ptr<Grammar> grammar;  // Null: none.
  bool is_greedy = false;
  std::vector<llama_token_data> candidates;
  std::vector<llama_token_data> drawn;  // A copy for `draw`, where candidates may be needed again.

  Chain() = default;
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;
  ~Chain() {
    llama_sampler_free(changes);
    llama_sampler_free(draw);
  }

  void add_changes(const SamplingOptions& options, std::size_t vocabulary) const;
  void add_draw(const SamplingOptions& options) const;
  // Every token, with bias and penalties.
  void fill(std::span<const float> logits);
  std::optional<Token> pick(std::span<llama_token_data> part);
  std::optional<Token> best_allowed(std::span<llama_token_data> part) const;
  std::optional<Token> draw_allowed(std::span<llama_token_data> part);
  Result<Token> choose_allowed();
};

void TokenSampler::Chain::add_changes(const SamplingOptions& options,
                                      std::size_t vocabulary) const {
  if (!options.logit_bias.empty()) {
    std::vector<llama_logit_bias> biases;
    for (const auto& [token, bias] : options.logit_bias) {
      const double value = bias <= kNeverBias ? -std::numeric_limits<double>::infinity() : bias;
      biases.push_back({token, static_cast<float>(value)});
    }
    llama_sampler_chain_add(changes, llama_sampler_init_logit_bias(
                                         static_cast<std::int32_t>(vocabulary),
                                         static_cast<std::int32_t>(biases.size()), biases.data()));
  }
  if (has_penalties(options)) {
    llama_sampler_chain_add(
        changes, llama_sampler_init_penalties(static_cast<std::int32_t>(vocabulary),
                                              static_cast<std::int32_t>(options.penalty_tokens),
                                              static_cast<float>(options.repeat_penalty),
                                              static_cast<float>(options.frequency_penalty),
                                              static_cast<float>(options.presence_penalty)));
  }
}

void TokenSampler::Chain::add_draw(const SamplingOptions& options) const {
  if (options.temperature == 0) return;
  const auto add = [&](llama_sampler* sampler) { llama_sampler_chain_add(draw, sampler); };
  if (options.top_k > 0) add(llama_sampler_init_top_k(static_cast<std::int32_t>(options.top_k)));
  if (options.top_p < 1) add(llama_sampler_init_top_p(static_cast<float>(options.top_p), 1));
  if (options.min_p > 0) add(llama_sampler_init_min_p(static_cast<float>(options.min_p), 1));
  add(llama_sampler_init_temp(static_cast<float>(options.temperature)));
  add(llama_sampler_init_dist(options.seed));
}

void TokenSampler::Chain::fill(std::span<const float> logits) {
  candidates.resize(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i)
    candidates[i] = {static_cast<llama_token>(i), logits[i], 0};
  llama_token_data_array array{candidates.data(), candidates.size(), -1, false};
  llama_sampler_apply(changes, &array);
}

TokenSampler::TokenSampler(std::unique_ptr<Chain> chain, const SamplingOptions& options)
    : chain_(std::move(chain)),
      logprobs_(options.logprobs),
      changes_logits_(!options.logit_bias.empty() || has_penalties(options)) {}

TokenSampler::~TokenSampler() = default;

Result<std::unique_ptr<TokenSampler>> TokenSampler::create(const Tokenizer& tokenizer,
                                                           const SamplingOptions& options) {
  INCIPIT_TRY_VOID(check(options, tokenizer.vocabulary()));
  auto chain = std::make_unique<Chain>();
  chain->add_changes(options, tokenizer.vocabulary());
  chain->add_draw(options);
  chain->is_greedy = options.temperature == 0;
  INCIPIT_TRY(chain->grammar, grammar_of(tokenizer, options));
  return std::unique_ptr<TokenSampler>(new TokenSampler(std::move(chain), options));
}

// Empty if no candidate is left. Changes the candidates where a token is drawn.
std::optional<Token> TokenSampler::Chain::pick(std::span<llama_token_data> part) {
  if (part.empty()) return std::nullopt;
  std::size_t chosen = 0;
  std::span<llama_token_data> left = part;
  if (is_greedy) {
    chosen = static_cast<std::size_t>(std::ranges::min_element(part, is_better) - part.begin());
  } else {
    llama_token_data_array array{part.data(), part.size(), -1, false};
    llama_sampler_apply(draw, &array);
    if (array.selected < 0) return std::nullopt;
    left = {array.data, array.size};
    chosen = static_cast<std::size_t>(array.selected);
  }
  if (!std::isfinite(left[chosen].logit)) return std::nullopt;
  return left[chosen].id;
}

std::optional<Token> TokenSampler::Chain::best_allowed(std::span<llama_token_data> part) const {
  std::ranges::sort(part, is_better);
  const auto best = std::ranges::find_if(
      part, [&](const llama_token_data& one) { return grammar->allows(one.id); });
  return best == part.end() ? std::nullopt : std::optional<Token>(best->id);
}

std::optional<Token> TokenSampler::Chain::draw_allowed(std::span<llama_token_data> part) {
  const auto refused = std::ranges::partition(
      part, [&](const llama_token_data& one) { return grammar->allows(one.id); });
  const auto allowed = part.first(part.size() - refused.size());
  // The order decides which token a draw hits; what partition makes of it is the library's affair.
  std::ranges::sort(allowed, is_better);
  return pick(allowed);
}

Result<Token> TokenSampler::Chain::choose_allowed() {
  std::erase_if(candidates, [](const llama_token_data& one) { return std::isinf(one.logit); });
  const std::size_t head = std::min(candidates.size(), kGrammarFirst);
  std::ranges::nth_element(candidates, candidates.begin() + static_cast<std::ptrdiff_t>(head),
                           is_better);
  const std::span<llama_token_data> all(candidates);
  for (const auto& part : {all.first(head), all.subspan(head)}) {
    const auto token = is_greedy ? best_allowed(part) : draw_allowed(part);
    if (grammar->is_exhausted())
      return failure(ErrorCode::kInvalidArgument,
                     "sampling: grammar or json_schema reads the answer in too many ways; let its "
                     "alternatives begin differently");
    if (token) return *token;
  }
  if (const auto token = grammar->end()) return *token;
  return failure(ErrorCode::kInternal, "sampling: grammar and bias leave no token");
}

Result<Token> TokenSampler::choose(std::span<const float> logits) {
  Grammar* grammar = chain_->grammar.get();
  try {
    std::optional<Token> first;
    const bool is_plain = chain_->is_greedy && !changes_logits_;
    if (is_plain) {
      first = static_cast<Token>(std::ranges::max_element(logits) - logits.begin());
      if (grammar == nullptr) return *first;
    } else {
      chain_->fill(logits);
      if (grammar != nullptr && !chain_->is_greedy) chain_->drawn = chain_->candidates;
      first = chain_->pick(grammar != nullptr && !chain_->is_greedy ? chain_->drawn
                                                                    : chain_->candidates);
    }
    if (!first && grammar == nullptr)
      return failure(ErrorCode::kInternal, "sampling: the bias leaves no token");
    if (grammar != nullptr && (!first || !grammar->allows(*first))) {
      if (is_plain) chain_->fill(logits);
      INCIPIT_TRY(first, chain_->choose_allowed());
    }
    if (grammar != nullptr) grammar->accept(*first);
    llama_sampler_accept(chain_->changes, *first);
    return *first;
  } catch (const std::exception& error) {
    return failure(ErrorCode::kInternal, std::string("sampling: ") + error.what());
  }
}

TokenLogprobs TokenSampler::logprobs(std::span<const float> logits, Token chosen,
                                     double log_sum) const {
  const auto of = [&](Token token) {
    return TokenLogprob{token, logits[static_cast<std::size_t>(token)] - log_sum};
  };
  std::vector<Token> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const std::size_t count = std::min(logprobs_, order.size());
  std::ranges::partial_sort(
      order, order.begin() + static_cast<std::ptrdiff_t>(count), {},
      [&](Token token) { return std::pair(-logits[static_cast<std::size_t>(token)], token); });
  TokenLogprobs result{.chosen = of(chosen), .top = {}};
  for (std::size_t i = 0; i < count; ++i) result.top.push_back(of(order[i]));
  return result;
}

Result<SampledToken> TokenSampler::sample(std::span<const float> logits) {
  if (!std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); }))
    return failure(ErrorCode::kInternal, "the model gave a logit that is not a number");
  INCIPIT_TRY(const Token token, choose(logits));
  SampledToken sampled{.token = token, .logprobs = {}};
  if (logprobs_ == 0) return sampled;
  double sum = 0;
  const double most = *std::ranges::max_element(logits);
  for (const float logit : logits) sum += std::exp(logit - most);
  sampled.logprobs = logprobs(logits, token, most + std::log(sum));
  return sampled;
}

}  // namespace incipit::model
