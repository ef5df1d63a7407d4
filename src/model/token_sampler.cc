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

namespace incipit::model {
namespace {

constexpr std::size_t kLogprobsMax = 20;
constexpr std::size_t kStopsMax = 16;
constexpr std::size_t kGrammarBytesMax = std::size_t{64} << 10U;
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

}  // namespace

// Owns the samplers and the room for candidates.
struct TokenSampler::Chain {
  llama_sampler* samplers = llama_sampler_chain_init(llama_sampler_chain_default_params());
  std::vector<llama_token_data> candidates;

  Chain() = default;
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;
  ~Chain() { llama_sampler_free(samplers); }

  void add(llama_sampler* sampler) const { llama_sampler_chain_add(samplers, sampler); }
};

TokenSampler::TokenSampler(std::unique_ptr<Chain> chain, SamplingOptions options)
    : chain_(std::move(chain)),
      options_(std::move(options)),
      is_plain_(options_.temperature == 0 && options_.grammar.empty() &&
                options_.logit_bias.empty() && !has_penalties(options_)) {}

TokenSampler::~TokenSampler() = default;

Result<std::unique_ptr<TokenSampler>> TokenSampler::create(const Tokenizer& tokenizer,
                                                           const SamplingOptions& options) {
  INCIPIT_TRY_VOID(check(options, tokenizer.vocabulary()));
  auto chain = std::make_unique<Chain>();
  if (!options.logit_bias.empty()) {
    std::vector<llama_logit_bias> biases;
    for (const auto& [token, bias] : options.logit_bias) {
      const double value = bias <= kNeverBias ? -std::numeric_limits<double>::infinity() : bias;
      biases.push_back({token, static_cast<float>(value)});
    }
    chain->add(llama_sampler_init_logit_bias(static_cast<std::int32_t>(tokenizer.vocabulary()),
                                             static_cast<std::int32_t>(biases.size()),
                                             biases.data()));
  }
  if (has_penalties(options)) {
    chain->add(llama_sampler_init_penalties(static_cast<std::int32_t>(tokenizer.vocabulary()),
                                            static_cast<std::int32_t>(options.penalty_tokens),
                                            static_cast<float>(options.repeat_penalty),
                                            static_cast<float>(options.frequency_penalty),
                                            static_cast<float>(options.presence_penalty)));
  }
  if (!options.grammar.empty()) {
    llama_sampler* grammar = nullptr;
    try {
      grammar = llama_sampler_init_grammar(tokenizer.vocab(), options.grammar.c_str(), "root");
    } catch (const std::exception& error) {
      return failure(ErrorCode::kInvalidArgument,
                     std::string("sampling: grammar: ") + error.what());
    }
    if (grammar == nullptr)
      return failure(ErrorCode::kInvalidArgument,
                     "sampling: grammar is no GBNF with a rule named root");
    chain->add(grammar);
  }
  if (options.temperature > 0) {
    if (options.top_k > 0)
      chain->add(llama_sampler_init_top_k(static_cast<std::int32_t>(options.top_k)));
    if (options.top_p < 1)
      chain->add(llama_sampler_init_top_p(static_cast<float>(options.top_p), 1));
    if (options.min_p > 0)
      chain->add(llama_sampler_init_min_p(static_cast<float>(options.min_p), 1));
    chain->add(llama_sampler_init_temp(static_cast<float>(options.temperature)));
    chain->add(llama_sampler_init_dist(options.seed));
  }
  return std::unique_ptr<TokenSampler>(new TokenSampler(std::move(chain), options));
}

Result<Token> TokenSampler::choose(std::span<const float> logits) {
  if (is_plain_) return static_cast<Token>(std::ranges::max_element(logits) - logits.begin());
  auto& candidates = chain_->candidates;
  candidates.resize(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i)
    candidates[i] = {static_cast<llama_token>(i), logits[i], 0};
  llama_token_data_array array{candidates.data(), candidates.size(), -1, false};
  try {
    llama_sampler_apply(chain_->samplers, &array);
    std::int64_t chosen = array.selected;
    if (options_.temperature == 0) {
      const auto best = std::ranges::max_element(array.data, array.data + array.size, {},
                                                 [](const llama_token_data& candidate) {
                                                   return std::pair(candidate.logit, -candidate.id);
                                                 });
      chosen = best - array.data;
    }
    if (chosen < 0 || std::isinf(array.data[chosen].logit))
      return failure(ErrorCode::kInternal, "sampling: grammar and bias leave no token");
    const Token token = array.data[chosen].id;
    llama_sampler_accept(chain_->samplers, token);
    return token;
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
  const std::size_t count = std::min(options_.logprobs, order.size());
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
  if (options_.logprobs == 0) return sampled;
  double sum = 0;
  const double most = *std::ranges::max_element(logits);
  for (const float logit : logits) sum += std::exp(logit - most);
  sampled.logprobs = logprobs(logits, token, most + std::log(sum));
  return sampled;
}

}  // namespace incipit::model
