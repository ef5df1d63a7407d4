// SPDX-License-Identifier: Apache-2.0
#include "support/tiny_model.h"

#include <random>

#include "base/file.h"
#include "support/must.h"
#include "support/temp_dir.h"
#include "support/vocabulary_file.h"

namespace incipit::test {
namespace {

constexpr std::uint32_t kF32 = 0;

constexpr const char* kTemplate =
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}</s>\n{% endfor %}"
    "{% if add_generation_prompt %}model:{% endif %}";

class TinyModel {
 public:
  explicit TinyModel(const TinyModelOptions& options) : options_(options), random_(options.seed) {}

  GgufWriter write_mamba() {
    const std::size_t vocabulary = write_vocabulary();
    write_keys();
    const std::uint64_t inner = std::uint64_t{options_.width} * 2;
    file_.number("mamba.ssm.conv_kernel", 4);
    file_.number("mamba.ssm.inner_size", static_cast<std::uint32_t>(inner));
    file_.number("mamba.ssm.state_size", 16);
    file_.number("mamba.ssm.time_step_rank", 4);
    matrix("token_embd.weight", vocabulary, options_.width);
    vector("output_norm.weight", options_.width, 1);
    for (std::uint32_t layer = 0; layer < options_.layers; ++layer) {
      const std::string prefix = "blk." + std::to_string(layer) + ".";
      vector(prefix + "attn_norm.weight", options_.width, 1);
      matrix(prefix + "ssm_in.weight", 2 * inner, options_.width);
      matrix(prefix + "ssm_conv1d.weight", inner, 4);
      vector(prefix + "ssm_conv1d.bias", inner, 0);
      matrix(prefix + "ssm_x.weight", 4 + 2 * 16, inner);
      matrix(prefix + "ssm_dt.weight", inner, 4);
      vector(prefix + "ssm_dt.bias", inner, 0);
      matrix(prefix + "ssm_a", inner, 16);
      vector(prefix + "ssm_d", inner, 1);
      matrix(prefix + "ssm_out.weight", options_.width, inner);
    }
    return std::move(file_);
  }

  GgufWriter write() {
    const std::size_t vocabulary = write_vocabulary();
    write_keys();
    matrix("token_embd.weight", vocabulary, options_.width);
    if (!options_.tied_output) matrix("output.weight", vocabulary, options_.width);
    vector("output_norm.weight", options_.width, 1);
    for (std::uint32_t layer = 0; layer < options_.layers; ++layer) write_layer(layer);
    return std::move(file_);
  }

 private:
  std::size_t write_vocabulary() {
    std::vector<std::string> texts;
    std::vector<float> scores;
    std::vector<std::int32_t> types;
    for (const VocabularyToken& token : sentencepiece_tokens()) {
      texts.push_back(token.text);
      scores.push_back(token.score);
      types.push_back(token.type);
    }
    file_.text("general.architecture", options_.architecture);
    file_.text("general.name", "tiny");
    file_.text("tokenizer.ggml.model", "llama");
    file_.texts("tokenizer.ggml.tokens", texts);
    file_.numbers<float>("tokenizer.ggml.scores", scores);
    file_.numbers<std::int32_t>("tokenizer.ggml.token_type", types);
    file_.number("tokenizer.ggml.bos_token_id", 1);
    file_.number("tokenizer.ggml.eos_token_id", 2);
    file_.number("tokenizer.ggml.unknown_token_id", 0);
    file_.flag("tokenizer.ggml.add_bos_token", true);
    file_.flag("tokenizer.ggml.add_space_prefix", false);
    file_.text("tokenizer.chat_template", kTemplate);
    return texts.size();
  }

  void write_keys() {
    const std::string prefix = options_.architecture + ".";
    file_.number(prefix + "block_count", options_.layers);
    file_.number(prefix + "context_length", options_.context);
    file_.number(prefix + "embedding_length", options_.width);
    file_.number(prefix + "feed_forward_length", options_.inner_width);
    file_.number(prefix + "attention.head_count", options_.heads);
    file_.number(prefix + "attention.head_count_kv", options_.kv_heads);
    file_.real(prefix + "attention.layer_norm_rms_epsilon", 1e-5F);
    file_.real(prefix + "rope.freq_base", options_.architecture == "gemma3" ? 1e6F : 10000.0F);
    if (options_.head_size != 0) {
      file_.number(prefix + "attention.key_length", options_.head_size);
      file_.number(prefix + "attention.value_length", options_.head_size);
    }
    if (options_.window) file_.number(prefix + "attention.sliding_window", *options_.window);
    if (options_.window_period)
      file_.number(prefix + "attention.sliding_window_pattern", *options_.window_period);
  }

  void write_layer(std::uint32_t layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    const std::uint64_t head =
        options_.head_size != 0 ? options_.head_size : options_.width / options_.heads;
    const std::uint64_t q = options_.heads * head;
    const std::uint64_t kv = options_.kv_heads * head;
    vector(prefix + "attn_norm.weight", options_.width, 1);
    vector(prefix + "ffn_norm.weight", options_.width, 1);
    matrix(prefix + "attn_q.weight", q, options_.width);
    matrix(prefix + "attn_k.weight", kv, options_.width);
    matrix(prefix + "attn_v.weight", kv, options_.width);
    matrix(prefix + "attn_output.weight", options_.width, q);
    matrix(prefix + "ffn_up.weight", options_.inner_width, options_.width);
    matrix(prefix + "ffn_gate.weight", options_.inner_width, options_.width);
    matrix(prefix + "ffn_down.weight", options_.width, options_.inner_width);
    if (options_.architecture == "qwen2") {
      vector(prefix + "attn_q.bias", q, 0);
      vector(prefix + "attn_k.bias", kv, 0);
      vector(prefix + "attn_v.bias", kv, 0);
    }
    if (options_.architecture == "qwen3" || options_.architecture == "gemma3") {
      vector(prefix + "attn_q_norm.weight", head, 1);
      vector(prefix + "attn_k_norm.weight", head, 1);
    }
    if (options_.architecture == "gemma3") {
      vector(prefix + "post_attention_norm.weight", options_.width, 1);
      vector(prefix + "post_ffw_norm.weight", options_.width, 1);
    }
  }

  void matrix(const std::string& name, std::uint64_t rows, std::uint64_t columns) {
    tensor(name, {columns, rows}, 0);
  }
  void vector(const std::string& name, std::uint64_t size, float centre) {
    tensor(name, {size}, centre);
  }

  void tensor(const std::string& name, const std::vector<std::uint64_t>& dimensions, float centre) {
    std::size_t count = 1;
    for (const std::uint64_t extent : dimensions) count *= extent;
    std::normal_distribution<float> around(centre, 0.2F);
    std::vector<float> values(count);
    for (float& value : values) value = around(random_);
    if (options_.edit) options_.edit(name, values);
    if (name == options_.left_out && options_.instead.empty()) return;
    ByteWriter data;
    for (const float value : values) data.put(value);
    file_.tensor(name == options_.left_out ? options_.instead : name, kF32, dimensions,
                 data.bytes());
  }

  const TinyModelOptions& options_;
  std::mt19937_64 random_;
  GgufWriter file_;
};

}  // namespace

GgufWriter tiny_model(const TinyModelOptions& options) { return TinyModel(options).write(); }

std::string tiny_mamba_file(const std::string& name) {
  const std::string path = scratch("tiny-" + name + ".gguf");
  TinyModelOptions options;
  options.architecture = "mamba";
  must(write_file(path, TinyModel(options).write_mamba().bytes()));
  return path;
}

std::string tiny_model_file(const std::string& name, const TinyModelOptions& options) {
  const std::string path = scratch("tiny-" + name + ".gguf");
  must(write_file(path, tiny_model(options).bytes()));
  return path;
}

}  // namespace incipit::test
