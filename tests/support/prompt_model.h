// SPDX-License-Identifier: Apache-2.0
//
// A tokenizer with its chat template, and short ways to build prompts and join their tokens.
// Failures throw, which ends the test with the message.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "base/file.h"
#include "model/chat_template.h"
#include "model/tokenizer.h"
#include "prompt/task_prompt.h"
#include "support/installed_models.h"
#include "support/must.h"

namespace incipit::test {

// A file of tests/golden/.
inline std::string read_golden(const std::string& name) {
  const auto tests = std::filesystem::path(__FILE__).parent_path().parent_path();
  return must(read_file((tests / "golden" / name).string(), 1 << 20));
}

struct PromptModel {
  std::shared_ptr<const model::Tokenizer> tokenizer;
  std::shared_ptr<const model::ChatTemplate> chat_template;

  static PromptModel open(const std::string& path) {
    std::shared_ptr<const model::Tokenizer> tokenizer = must(model::Tokenizer::open(path));
    auto chat_template = must(model::ChatTemplate::of(*tokenizer));
    return {std::move(tokenizer), std::move(chat_template)};
  }

  // The model's vocabulary with another template.
  [[nodiscard]] PromptModel with_template(const std::string& jinja) const {
    const auto surface = [&](auto token) { return token ? tokenizer->piece(*token) : ""; };
    return {tokenizer, must(model::ChatTemplate::open({.jinja = jinja,
                                                       .bos = surface(tokenizer->bos()),
                                                       .eos = surface(tokenizer->eos()),
                                                       .name = "test template"}))};
  }

  [[nodiscard]] Result<prompt::TaskPrompt> build(const Task& task, std::size_t tokens_max) const {
    return prompt::TaskPrompt::build(task, *tokenizer, *chat_template,
                                     {.tokens_max = tokens_max, .surface = {}});
  }
  [[nodiscard]] prompt::TaskPrompt prompt(const Task& task, std::size_t tokens_max = 4096) const {
    return must(build(task, tokens_max));
  }
  // The message that the task is refused with; empty if it is not.
  [[nodiscard]] std::string refusal(const Task& task, std::size_t tokens_max = 4096) const {
    const auto result = build(task, tokens_max);
    return result ? "" : result.error().message;
  }

  [[nodiscard]] std::string spelled(TokenSpan tokens) const {
    std::string text;
    for (const Token token : tokens) text += tokenizer->piece(token);
    return text;
  }
};

inline const PromptModel& qwen() {
  static const PromptModel model = PromptModel::open(qwen_path());
  return model;
}

inline const PromptModel& smollm() {
  static const PromptModel model = PromptModel::open(smollm_path());
  return model;
}

// What a runtime would evaluate in all for one part.
inline TokenVector joined(const prompt::TaskPrompt& prompt, const prompt::EncodedPart& part,
                          std::size_t question = 0) {
  TokenVector tokens;
  if (!part.slow_path) tokens.assign(prompt.prefix().begin(), prompt.prefix().end());
  tokens.insert(tokens.end(), part.suffix.begin(), part.suffix.end());
  if (!part.questions.empty()) {
    const TokenVector& rest = part.questions.at(question);
    tokens.insert(tokens.end(), rest.begin(), rest.end());
  }
  return tokens;
}

}  // namespace incipit::test
