// SPDX-License-Identifier: Apache-2.0
//
// A whole model of a few hundred kilobytes: two layers, random weights, a SentencePiece vocabulary
// and a chat template. It says nothing sensible, but it runs, and every rule of the runtime and of
// the engine can be tried on it in milliseconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "support/gguf_writer.h"

namespace incipit::test {

struct TinyModelOptions {
  std::string architecture = "llama";  // "qwen2" has biases, "qwen3" and "gemma3" more norms.
  std::uint32_t layers = 2;
  std::uint32_t width = 64;
  std::uint32_t heads = 2;
  std::uint32_t kv_heads = 1;
  std::uint32_t head_size = 0;  // 0: width / heads, and no key that says so.
  std::uint32_t inner_width = 128;
  std::uint32_t context = 2048;
  bool tied_output = true;
  std::optional<std::uint32_t> window;         // Written where there is one.
  std::optional<std::uint32_t> window_period;  // Every so many layers one sees everything.
  std::uint64_t seed = 1;
  // Changes a tensor's values before they are written; called with its name.
  std::function<void(const std::string&, std::vector<float>&)> edit;
  std::string left_out;  // Name of a tensor that is not written.
  std::string instead;   // Another name that it is written under; empty: none.
};

[[nodiscard]] GgufWriter tiny_model(const TinyModelOptions& options = {});

// A recurrent model of two layers, which no runtime can use: there is nothing to cut back to.
std::string tiny_mamba_file(const std::string& name);

// Writes it to a file of the test's temporary directory and returns the path.
std::string tiny_model_file(const std::string& name, const TinyModelOptions& options = {});

}  // namespace incipit::test
