// SPDX-License-Identifier: Apache-2.0
//
// The numbers that define a decoder model's graph, read from a GGUF header and checked against
// each other and against the tensors, so that the graph builder can trust them.
// Plain data.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "incipit/result.h"
#include "model/gguf_file.h"

namespace incipit::model {

struct ModelShape {
  std::string architecture;  // "llama", "qwen2", "qwen3" or "gemma3".
  std::size_t layers = 0;
  std::size_t width = 0;  // Size of the residual stream.
  std::size_t heads = 0;
  std::size_t kv_heads = 0;
  std::size_t head_size = 0;
  std::size_t inner_width = 0;  // Width of the feed-forward layer.
  std::size_t vocabulary = 0;
  std::size_t context_tokens = 0;  // What the model was trained for.
  double norm_epsilon = 0;
  bool tied_output = false;             // The output matrix is the token embedding.
  bool interleaved_rope = false;        // q and k rows are stored in pairs (the llama family).
  std::vector<float> rope_frequencies;  // head_size / 2 angles per position, scaling included.

  // What families differ in. The defaults are those of llama and qwen2.
  bool head_norms = false;           // Each head of q and k passes an RMS norm before the rope.
  bool post_norms = false;           // Attention and feed-forward pass one before they are added.
  bool gelu = false;                 // The feed-forward gate is GELU (tanh) in place of SiLU.
  double embedding_scale = 1;        // Applied to what token_embd gives.
  double attention_scale = 0;        // 0: 1 / sqrt(head_size).
  std::vector<std::size_t> windows;  // Tokens that a layer sees, its own included; 0: all of them.
  std::vector<float> local_rope_frequencies;  // Of the layers with a window.

  [[nodiscard]] std::size_t window(std::size_t layer) const {
    return layer < windows.size() ? windows[layer] : 0;
  }
};

// Errors: kUnavailable names the architecture, key or tensor that is not supported or does
// not fit. Every tensor of the file must be one that the graph uses: an unknown one would be
// left out silently otherwise.
Result<ModelShape> read_model_shape(const GgufFile& gguf);

// Whether the file says of itself that it is of a kind that the graph builder does not know:
// another architecture, or one of the keys that make it another model. Where read_model_shape()
// refuses such a file, another runtime may be right; a file with wrong numbers is wrong for all.
[[nodiscard]] bool is_of_another_kind(const GgufFile& gguf);

// Names of a layer's linear parts, as in "blk.<layer>.<part>.weight".
inline constexpr const char* kLinearParts[] = {"attn_q", "attn_k",   "attn_v",  "attn_output",
                                               "ffn_up", "ffn_gate", "ffn_down"};

}  // namespace incipit::model
