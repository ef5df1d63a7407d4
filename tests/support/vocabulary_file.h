// SPDX-License-Identifier: Apache-2.0
//
// Small GGUF files that hold a vocabulary and nothing else, for rules that no installed model has.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "support/prompt_model.h"

namespace incipit::test {

// Key-value pairs of a GGUF file, version 3, little endian.
class GgufWriter {
 public:
  void text(std::string_view key, std::string_view value) {
    begin(key, 8);
    put_string(value);
  }
  void number(std::string_view key, std::uint32_t value) {
    begin(key, 4);
    put(value);
  }
  void flag(std::string_view key, bool value) {
    begin(key, 7);
    put(static_cast<std::uint8_t>(value));
  }
  void texts(std::string_view key, std::span<const std::string> values) {
    begin_list(key, 8, values.size());
    for (const std::string& value : values) put_string(value);
  }
  template <typename T>  // float or std::int32_t
  void numbers(std::string_view key, std::span<const T> values) {
    begin_list(key, std::is_same_v<T, float> ? 6 : 5, values.size());
    for (const T value : values) put(value);
  }
  [[nodiscard]] std::string bytes() const {
    GgufWriter header;
    header.bytes_ = "GGUF";
    header.put(std::uint32_t{3});
    header.put(std::uint64_t{0});  // Tensors.
    header.put(count_);
    return header.bytes_ + bytes_;
  }

 private:
  void begin(std::string_view key, std::uint32_t type) {
    put_string(key);
    put(type);
    ++count_;
  }
  void begin_list(std::string_view key, std::uint32_t type, std::size_t size) {
    begin(key, 9);
    put(type);
    put(std::uint64_t{size});
  }
  template <typename T>
  void put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void put_string(std::string_view value) {
    put(std::uint64_t{value.size()});
    bytes_ += value;
  }

  std::string bytes_;
  std::uint64_t count_ = 0;
};

struct VocabularyToken {
  std::string text;
  float score = 0;
  std::int32_t type = 1;  // 1 normal, 2 unknown, 3 control, 4 user defined, 6 byte.
};

// A SentencePiece vocabulary of bytes, letters and a few words: it adds a BOS and a space in
// front, and marks a run of newlines and a tag as USER_DEFINED.
inline std::vector<VocabularyToken> sentencepiece_tokens() {
  std::vector<VocabularyToken> tokens{
      {"<unk>", 0, 2}, {"<s>", 0, 3}, {"</s>", 0, 3}, {"<|endoftext|>", 0, 3}};
  for (int byte = 0; byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof(text), "<0x%02X>", static_cast<unsigned>(byte));
    tokens.push_back({text, 0, 6});
  }
  const std::string space = "\xE2\x96\x81";
  tokens.push_back({"\n\n", 0, 4});
  tokens.push_back({"[TOOL]", 0, 4});
  float score = -1;
  // Longer pieces have better scores, and every merge on the way to a word is there.
  for (const std::string word : {"Refund", "user", "model", "billing", "technical", "account"}) {
    for (std::size_t length = 2; length <= word.size(); ++length) {
      tokens.push_back({word.substr(0, length), score, 1});
      score -= 1;
    }
    tokens.push_back({space + word, score, 1});
    score -= 1;
  }
  for (char letter = 33; letter < 127; ++letter)
    tokens.push_back({std::string(1, letter), -900, 1});
  tokens.push_back({space, -900, 1});
  return tokens;
}

// `name` is the model's; libllama has rules of its own for some.
inline std::string sentencepiece_file(const std::string& name = "test") {
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<std::int32_t> types;
  for (const VocabularyToken& token : sentencepiece_tokens()) {
    texts.push_back(token.text);
    scores.push_back(token.score);
    types.push_back(token.type);
  }
  GgufWriter file;
  file.text("general.architecture", "llama");
  file.text("general.name", name);
  file.text("tokenizer.ggml.model", "llama");
  file.texts("tokenizer.ggml.tokens", texts);
  file.numbers<float>("tokenizer.ggml.scores", scores);
  file.numbers<std::int32_t>("tokenizer.ggml.token_type", types);
  file.number("tokenizer.ggml.bos_token_id", 1);
  file.number("tokenizer.ggml.eos_token_id", 2);
  file.number("tokenizer.ggml.unknown_token_id", 0);
  file.flag("tokenizer.ggml.add_bos_token", true);
  file.flag("tokenizer.ggml.add_space_prefix", true);
  const std::string path = testing::TempDir() + "sentencepiece-" + name + ".gguf";
  must(write_file(path, file.bytes()));
  return path;
}

}  // namespace incipit::test
