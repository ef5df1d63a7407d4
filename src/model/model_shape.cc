// SPDX-License-Identifier: Apache-2.0
#include "model/model_shape.h"

#include <ggml.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <set>
#include <string_view>

namespace incipit::model {
namespace {

constexpr std::uint64_t kLayersMax = 1024;
constexpr std::uint64_t kExtentMax = 1U << 24U;

// What the name of an architecture says; the rest is in the file.
struct Family {
  std::string_view name;
  bool interleaved_rope = false;
  bool head_norms = false;
  bool is_gemma = false;  // Norms behind each part, GELU, scaled embeddings, local layers.
};
constexpr Family kFamilies[] = {
    {.name = "llama", .interleaved_rope = true},
    {.name = "qwen2"},
    {.name = "qwen3", .head_norms = true},
    {.name = "gemma3", .head_norms = true, .is_gemma = true},
};

// Reads one architecture's keys and remembers the first that is missing or out of range.
class Keys {
 public:
  explicit Keys(const GgufFile& gguf)
      : gguf_(gguf), prefix_(gguf.text("general.architecture").value_or("") + ".") {}

  std::size_t extent(std::string_view key, std::uint64_t most) {
    const auto found = gguf_.unsigned_value(prefix_ + std::string(key));
    if (!found || *found == 0 || *found > most) complain(key);
    return static_cast<std::size_t>(found.value_or(0));
  }
  std::size_t extent_or(std::string_view key, std::size_t fallback) {
    return gguf_.value(prefix_ + std::string(key)) == nullptr ? fallback : extent(key, kExtentMax);
  }
  double number(std::string_view key) {
    const auto found = gguf_.number(prefix_ + std::string(key));
    if (!found || !std::isfinite(*found) || *found <= 0) complain(key);
    return found.value_or(1);
  }
  double number_or(std::string_view key, double fallback) {
    return gguf_.value(prefix_ + std::string(key)) == nullptr ? fallback : number(key);
  }
  [[nodiscard]] std::string text(std::string_view key) const {
    return gguf_.text(prefix_ + std::string(key)).value_or("");
  }
  [[nodiscard]] bool has(std::string_view key) const {
    return gguf_.value(prefix_ + std::string(key)) != nullptr;
  }
  void complain(std::string_view key) {
    if (wrong_.empty()) wrong_ = prefix_ + std::string(key);
  }
  [[nodiscard]] const std::string& wrong() const { return wrong_; }

 private:
  const GgufFile& gguf_;
  std::string prefix_;
  std::string wrong_;
};

std::unexpected<Error> unsupported(const GgufFile& gguf, const std::string& what) {
  return failure(ErrorCode::kUnavailable, gguf.path() + ": " + what);
}

Result<void> refuse_keys(const GgufFile& gguf, const Keys& keys,
                         std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (keys.has(name))
      return unsupported(gguf, std::string("models with \"") + name + "\" are not supported");
  }
  return {};
}

Result<void> check_tensor(const GgufFile& gguf, const std::string& name, std::uint64_t rows,
                          std::uint64_t columns, std::set<std::string>& known) {
  const GgufTensor* tensor = gguf.tensor(name);
  if (tensor == nullptr) return unsupported(gguf, "the tensor \"" + name + "\" is missing");
  if (tensor->rows != rows || tensor->columns != columns) {
    return unsupported(gguf, "the tensor \"" + name + "\" has " + std::to_string(tensor->rows) +
                                 " x " + std::to_string(tensor->columns) + " values, expected " +
                                 std::to_string(rows) + " x " + std::to_string(columns));
  }
  const bool matrix = rows > 1;
  const bool readable =
      tensor->type == GGML_TYPE_F32 ||
      (matrix && ggml_get_type_traits(static_cast<ggml_type>(tensor->type))->to_float != nullptr);
  if (!readable) {
    return unsupported(gguf, "the tensor \"" + name + "\" is of type " +
                                 ggml_type_name(static_cast<ggml_type>(tensor->type)) +
                                 ", which cannot be read here");
  }
  known.insert(name);
  return {};
}

// The angles of rotary position embedding (RoFormer, arXiv 2104.09864).
std::vector<float> rope_angles(std::size_t head_size, double base, double linear) {
  std::vector<float> angles(head_size / 2);
  for (std::size_t i = 0; i < angles.size(); ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(head_size);
    angles[i] = static_cast<float>(1.0 / std::pow(base, exponent) / linear);
  }
  return angles;
}

// With linear scaling or the file's own factors.
Result<void> read_rope(const GgufFile& gguf, Keys& keys, ModelShape& shape,
                       std::set<std::string>& known) {
  const std::string scaling = keys.text("rope.scaling.type");
  if (!scaling.empty() && scaling != "none" && scaling != "linear") {
    return unsupported(gguf, "rope scaling \"" + scaling + "\" is not supported");
  }
  if (keys.extent_or("rope.dimension_count", shape.head_size) != shape.head_size) {
    return unsupported(gguf, "a rope over a part of each head is not supported");
  }
  const double base = keys.number_or("rope.freq_base", 10000.0);
  const double linear = scaling == "linear" ? keys.number("rope.scaling.factor") : 1.0;
  shape.rope_frequencies = rope_angles(shape.head_size, base, linear);
  // A family with local layers has no factors: the tensor is then one that has no place.
  if (gguf.tensor("rope_freqs.weight") != nullptr && !shape.post_norms) {
    INCIPIT_TRY_VOID(check_tensor(gguf, "rope_freqs.weight", 1, shape.head_size / 2, known));
    const auto data = gguf.tensor("rope_freqs.weight")->data;
    for (std::size_t i = 0; i < shape.rope_frequencies.size(); ++i) {
      float factor = 1;
      std::memcpy(&factor, data.data() + i * sizeof(float), sizeof(float));
      if (!std::isfinite(factor) || factor <= 0)
        return unsupported(gguf, "the tensor \"rope_freqs.weight\" holds " +
                                     std::to_string(factor) + ", which is no factor of an angle");
      shape.rope_frequencies[i] /= factor;
    }
  }
  return {};
}

// Gemma 3 (arXiv 2503.19786): five layers that see a window, then one that sees everything. Files
// name the window; the period and the local layers' rope base only where they are others.
void read_gemma(Keys& keys, ModelShape& shape) {
  shape.post_norms = true;
  shape.gelu = true;
  shape.embedding_scale = std::sqrt(static_cast<double>(shape.width));
  // The largest of the family (62 layers) divides by the share of the width in place of the head's
  // size. No key says so; libllama goes by the number of layers, too.
  const std::size_t scaled_by = shape.layers == 62 ? shape.width / shape.heads : shape.head_size;
  shape.attention_scale = 1.0 / std::sqrt(static_cast<double>(scaled_by));
  if (!keys.has("attention.sliding_window")) return;
  const std::size_t window = keys.extent("attention.sliding_window", kExtentMax);
  const std::size_t period = keys.extent_or("attention.sliding_window_pattern", 6);
  const double base = keys.number_or("rope.freq_base_swa", 10000.0);
  if (period == 0) return;  // Complained about: the caller says so.
  for (std::size_t layer = 0; layer < shape.layers; ++layer)
    shape.windows.push_back(layer % period == period - 1 ? 0 : window);
  shape.local_rope_frequencies = rope_angles(shape.head_size, base, 1.0);
}

// Norms of the families that have more than the two of every layer.
Result<void> check_more_norms(const GgufFile& gguf, const ModelShape& shape,
                              const std::string& prefix, std::set<std::string>& known) {
  if (shape.head_norms) {
    for (const char* part : {"attn_q_norm.weight", "attn_k_norm.weight"})
      INCIPIT_TRY_VOID(check_tensor(gguf, prefix + part, 1, shape.head_size, known));
  }
  if (shape.post_norms) {
    for (const char* part : {"post_attention_norm.weight", "post_ffw_norm.weight"})
      INCIPIT_TRY_VOID(check_tensor(gguf, prefix + part, 1, shape.width, known));
  }
  return {};
}

Result<void> check_layers(const GgufFile& gguf, const ModelShape& shape,
                          std::set<std::string>& known) {
  const std::size_t q_width = shape.heads * shape.head_size;
  const std::size_t kv_width = shape.kv_heads * shape.head_size;
  for (std::size_t layer = 0; layer < shape.layers; ++layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    const struct {
      const char* part;
      std::size_t rows;
      std::size_t columns;
    } parts[] = {
        {"attn_q", q_width, shape.width},
        {"attn_k", kv_width, shape.width},
        {"attn_v", kv_width, shape.width},
        {"attn_output", shape.width, q_width},
        {"ffn_up", shape.inner_width, shape.width},
        {"ffn_gate", shape.inner_width, shape.width},
        {"ffn_down", shape.width, shape.inner_width},
    };
    for (const auto& part : parts) {
      const std::string name = prefix + part.part;
      INCIPIT_TRY_VOID(check_tensor(gguf, name + ".weight", part.rows, part.columns, known));
      if (gguf.tensor(name + ".bias") != nullptr) {
        INCIPIT_TRY_VOID(check_tensor(gguf, name + ".bias", 1, part.rows, known));
      }
    }
    INCIPIT_TRY_VOID(check_tensor(gguf, prefix + "attn_norm.weight", 1, shape.width, known));
    INCIPIT_TRY_VOID(check_tensor(gguf, prefix + "ffn_norm.weight", 1, shape.width, known));
    INCIPIT_TRY_VOID(check_more_norms(gguf, shape, prefix, known));
  }
  return {};
}

// What every family has: sizes that fit together.
Result<void> read_sizes(const GgufFile& gguf, Keys& keys, ModelShape& shape) {
  shape.layers = keys.extent("block_count", kLayersMax);
  shape.width = keys.extent("embedding_length", kExtentMax);
  shape.heads = keys.extent("attention.head_count", kExtentMax);
  shape.kv_heads = keys.extent_or("attention.head_count_kv", shape.heads);
  shape.inner_width = keys.extent("feed_forward_length", kExtentMax);
  shape.context_tokens = keys.extent("context_length", std::uint64_t{1} << 31U);
  shape.norm_epsilon = keys.number("attention.layer_norm_rms_epsilon");
  if (shape.heads != 0)
    shape.head_size = keys.extent_or("attention.key_length", shape.width / shape.heads);
  if (!keys.wrong().empty())
    return unsupported(gguf, "the key \"" + keys.wrong() + "\" is missing or out of range");
  if (keys.extent_or("attention.value_length", shape.head_size) != shape.head_size)
    return unsupported(gguf, "key and value heads of different size are not supported");
  if (shape.heads % shape.kv_heads != 0 || shape.head_size % 2 != 0 || shape.head_size == 0)
    return unsupported(gguf, "head counts and sizes do not fit together");
  return {};
}

Result<void> read_vocabulary(const GgufFile& gguf, ModelShape& shape,
                             std::set<std::string>& known) {
  const GgufTensor* embedding = gguf.tensor("token_embd.weight");
  if (embedding == nullptr) return unsupported(gguf, "the tensor \"token_embd.weight\" is missing");
  shape.vocabulary = embedding->rows;
  const auto* tokens = gguf.value("tokenizer.ggml.tokens");
  const auto* token_array = tokens == nullptr ? nullptr : std::get_if<GgufArray>(tokens);
  if (token_array == nullptr || token_array->count < 2 || token_array->count > shape.vocabulary) {
    return unsupported(gguf, "the vocabulary does not fit the token embedding");
  }
  INCIPIT_TRY_VOID(check_tensor(gguf, "token_embd.weight", shape.vocabulary, shape.width, known));
  shape.tied_output = gguf.tensor("output.weight") == nullptr;
  if (!shape.tied_output) {
    INCIPIT_TRY_VOID(check_tensor(gguf, "output.weight", shape.vocabulary, shape.width, known));
  }
  return {};
}

Result<const Family*> family_of(const GgufFile& gguf, const std::string& architecture) {
  std::string names;
  for (const Family& family : kFamilies) {
    if (family.name == architecture) return &family;
    names += (names.empty() ? "" : ", ") + std::string(family.name);
  }
  return unsupported(
      gguf, "the architecture \"" + architecture + "\" is not supported; supported are " + names);
}

}  // namespace

Result<ModelShape> read_model_shape(const GgufFile& gguf) {
  ModelShape shape;
  shape.architecture = gguf.text("general.architecture").value_or("");
  INCIPIT_TRY(const Family* family, family_of(gguf, shape.architecture));
  shape.interleaved_rope = family->interleaved_rope;
  shape.head_norms = family->head_norms;
  Keys keys(gguf);
  INCIPIT_TRY_VOID(read_sizes(gguf, keys, shape));
  if (family->is_gemma) {
    read_gemma(keys, shape);
  } else {
    INCIPIT_TRY_VOID(refuse_keys(gguf, keys, {"attention.sliding_window"}));
  }
  INCIPIT_TRY_VOID(refuse_keys(
      gguf, keys, {"expert_count", "attn_logit_softcapping", "final_logit_softcapping"}));

  std::set<std::string> known;
  INCIPIT_TRY_VOID(read_vocabulary(gguf, shape, known));
  INCIPIT_TRY_VOID(check_tensor(gguf, "output_norm.weight", 1, shape.width, known));
  INCIPIT_TRY_VOID(read_rope(gguf, keys, shape, known));
  INCIPIT_TRY_VOID(check_layers(gguf, shape, known));
  if (!keys.wrong().empty())
    return unsupported(gguf, "the key \"" + keys.wrong() + "\" is out of range");
  for (const auto& [name, tensor] : gguf.tensors()) {
    if (!known.contains(name)) {
      return unsupported(gguf, "the tensor \"" + name + "\" has no place in a " +
                                   shape.architecture + " model as it is known here");
    }
  }
  // One int8 scale serves 32 inputs.
  for (const std::size_t columns :
       {shape.width, shape.inner_width, shape.heads * shape.head_size}) {
    if (columns % 32 != 0)
      return unsupported(gguf, "a layer of " + std::to_string(columns) +
                                   " inputs (not a multiple of 32) is not supported");
  }
  return shape;
}

bool is_of_another_kind(const GgufFile& gguf) {
  Keys keys(gguf);
  const std::string architecture = gguf.text("general.architecture").value_or("");
  const std::string scaling = keys.text("rope.scaling.type");
  const auto* family = std::ranges::find(kFamilies, architecture, &Family::name);
  const bool is_known = family != std::end(kFamilies) &&
                        (scaling.empty() || scaling == "none" || scaling == "linear") &&
                        !keys.has("expert_count") &&
                        (family->is_gemma || !keys.has("attention.sliding_window"));
  if (is_known) return false;
  keys.extent("block_count", kLayersMax);
  keys.extent("embedding_length", kExtentMax);
  keys.extent("context_length", std::uint64_t{1} << 31U);
  return !architecture.empty() && keys.wrong().empty();
}

}  // namespace incipit::model
