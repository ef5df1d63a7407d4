// SPDX-License-Identifier: Apache-2.0
#include "support/llama_oracle.h"

#include <llama.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>

namespace incipit::test {
namespace {

struct ContextFree {
  void operator()(llama_context* context) const { llama_free(context); }
};

std::unique_ptr<llama_context, ContextFree> context_for(llama_model& model, std::uint32_t tokens) {
  llama_context_params params = llama_context_default_params();
  params.n_ctx = tokens;
  params.n_batch = tokens;
  params.n_ubatch = tokens;
  params.n_threads = 2;
  params.n_threads_batch = 2;
  params.type_k = GGML_TYPE_F32;
  params.type_v = GGML_TYPE_F32;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  return std::unique_ptr<llama_context, ContextFree>(llama_init_from_model(&model, params));
}

std::vector<double> log_probabilities(std::span<const float> logits) {
  const double most = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - most);
  std::vector<double> logs;
  logs.reserve(logits.size());
  for (const float logit : logits) logs.push_back(logit - most - std::log(sum));
  return logs;
}

}  // namespace

LlamaOracle::LlamaOracle(const std::string& file) : model_(nullptr, llama_model_free) {
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  model_.reset(llama_model_load_from_file(file.c_str(), llama_model_default_params()));
  if (model_ == nullptr) throw std::runtime_error("libllama cannot load " + file);
}

std::vector<float> LlamaOracle::logits(TokenSpan tokens,
                                       std::span<const std::uint32_t> rows) const {
  const auto count = static_cast<std::uint32_t>(tokens.size());
  const auto context = context_for(*model_, count);
  if (context == nullptr) throw std::runtime_error("libllama gives no context");
  llama_batch batch = llama_batch_init(static_cast<std::int32_t>(count), 0, 1);
  for (std::uint32_t i = 0; i < count; ++i) {
    batch.token[i] = tokens[i];
    batch.pos[i] = static_cast<llama_pos>(i);
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = 0;
    batch.logits[i] = static_cast<std::int8_t>(std::ranges::binary_search(rows, i));
  }
  batch.n_tokens = static_cast<std::int32_t>(count);
  const int refused = llama_decode(context.get(), batch);
  llama_batch_free(batch);
  if (refused != 0) throw std::runtime_error("libllama cannot evaluate a prompt");
  const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model_.get()));
  std::vector<float> logits;
  for (const std::uint32_t row : rows) {
    const float* values = llama_get_logits_ith(context.get(), static_cast<std::int32_t>(row));
    logits.insert(logits.end(), values, values + vocabulary);
  }
  return logits;
}

Disagreement compare_logits(std::span<const float> want, std::span<const float> got) {
  const std::vector<double> expected = log_probabilities(want);
  const std::vector<double> actual = log_probabilities(got);
  Disagreement found;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double difference = expected[i] - actual[i];
    found.nats += std::exp(expected[i]) * difference;
    if (expected[i] >= std::log(0.01)) found.likely = std::max(found.likely, std::abs(difference));
  }
  const auto first = std::ranges::max_element(actual) - actual.begin();
  found.lost = *std::ranges::max_element(expected) - expected[static_cast<std::size_t>(first)];
  return found;
}

}  // namespace incipit::test
