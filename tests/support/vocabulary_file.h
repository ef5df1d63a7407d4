// SPDX-License-Identifier: Apache-2.0
//
// Small GGUF files that hold a vocabulary and nothing else, for rules that no installed model has.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "base/file.h"
#include "support/gguf_writer.h"
#include "support/prompt_model.h"
#include "support/temp_dir.h"

namespace incipit::test {

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
  const std::string path = scratch("sentencepiece-" + name + ".gguf");
  must(write_file(path, file.bytes()));
  return path;
}

}  // namespace incipit::test
