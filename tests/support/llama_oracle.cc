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

using Context = std::unique_ptr<llama_context, ContextFree>;

llama_context_params params_for(std::size_t tokens) {
  llama_context_params params = llama_context_default_params();
  params.n_ctx = static_cast<std::uint32_t>(tokens);
  params.n_batch = params.n_ctx;
  params.n_ubatch = params.n_ctx;
  params.n_threads = 2;
  params.n_threads_batch = 2;
  params.type_k = GGML_TYPE_F32;
  params.type_v = GGML_TYPE_F32;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  return params;
}

// Evaluates all tokens in one piece.
Context evaluated(llama_model& model, const llama_context_params& params, TokenSpan tokens,
                  std::span<const std::uint32_t> rows) {
  Context context(llama_init_from_model(&model, params));
  if (context == nullptr) throw std::runtime_error("libllama gives no context");
  const auto count = static_cast<std::uint32_t>(tokens.size());
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
  return context;
}

// Takes the last row of one tensor of the graph as it is computed: [cells, rows, heads].
struct Watch {
  std::string name;
  std::size_t tokens = 0;
  std::vector<float> last_row{};

  static bool see(ggml_tensor* tensor, bool asks, void* self) {
    auto& watch = *static_cast<Watch*>(self);
    const bool is_it = watch.name == tensor->name;
    if (asks || !is_it) return is_it;
    for (std::int64_t head = 0; head < tensor->ne[2]; ++head) {
      const char* row = static_cast<const char*>(tensor->data) +
                        static_cast<std::size_t>(head) * tensor->nb[2] +
                        (watch.tokens - 1) * tensor->nb[1];
      const auto* weights = reinterpret_cast<const float*>(row);
      watch.last_row.insert(watch.last_row.end(), weights, weights + watch.tokens);
    }
    return true;
  }
};

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
  const Context context = evaluated(*model_, params_for(tokens.size()), tokens, rows);
  const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model_.get()));
  std::vector<float> logits;
  for (const std::uint32_t row : rows) {
    const float* values = llama_get_logits_ith(context.get(), static_cast<std::int32_t>(row));
    logits.insert(logits.end(), values, values + vocabulary);
  }
  return logits;
}

std::vector<float> LlamaOracle::attention(TokenSpan tokens, std::size_t layer) const {
  Watch watch{.name = "kq_soft_max-" + std::to_string(layer), .tokens = tokens.size()};
  llama_context_params params = params_for(tokens.size());
  params.cb_eval = Watch::see;
  params.cb_eval_user_data = &watch;
  evaluated(*model_, params, tokens, {});
  if (watch.last_row.empty()) throw std::runtime_error("libllama has no tensor " + watch.name);
  return watch.last_row;
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
