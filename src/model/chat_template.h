// SPDX-License-Identifier: Apache-2.0
//
// A model's own Jinja chat template: a list of turns becomes the text that it was trained on.
//
// The result remembers which bytes are the template's and which came from a message: only the
// template may write control tokens (prompt/prompt_text.h), so "<|im_end|>" in an example or an
// instruction stays text. The marks are the Jinja engine's; a template that pastes message and
// template together before it trims them loses the mark of that piece.
//
// What would make two renderings differ is fixed: thinking is off, and a template that asks for
// the date gets RenderOptions::date at noon, so that a prefix stays the same tomorrow.
//
// Templates come from the model file or the operator, never from a client.
// Thread-safe once open; the process renders one at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "incipit/result.h"

namespace incipit::model {

class Tokenizer;

// Given to templates that print a date unless the task names another. Any constant would do; it
// lies after the training of the models we ship and before their release can make it odd.
inline constexpr std::string_view kTemplateDate = "2025-01-01";

enum class Role { kSystem, kUser, kAssistant };

struct ChatMessage {
  Role role = Role::kUser;
  std::string content;
};

struct RenderOptions {
  bool generation_prompt = true;    // End with the header of the assistant's answer.
  std::string date{kTemplateDate};  // "YYYY-MM-DD"
};

// Half-open range of bytes.
struct TextRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

struct RenderedChat {
  std::string text;
  std::vector<TextRange> content;  // Bytes that came from messages; ascending, not touching.
};

struct ChatTemplateSource {
  std::string jinja;
  std::string bos;  // Surface of the BOS token, for templates that print it.
  std::string eos;
  std::string name;  // For messages: the file that it came from.
};

class ChatTemplate {
 public:
  // Parses the template and finds out by two trial renderings how it takes its messages.
  // Errors: kInvalidArgument with the engine's reason and the place in the template.
  static Result<std::unique_ptr<ChatTemplate>> open(ChatTemplateSource source);
  // The template that the model file carries. Errors: as above, also if it carries none.
  static Result<std::unique_ptr<ChatTemplate>> of(const Tokenizer& tokenizer);
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;
  ~ChatTemplate();

  // Requires: no system message unless has_system_role().
  // Errors:   kInvalidArgument if the template refuses the messages or the date is no date.
  [[nodiscard]] Result<RenderedChat> render(std::span<const ChatMessage> messages,
                                            const RenderOptions& options) const;

  // Whether a system message shows up in the result. If not, instructions go into the first
  // user turn.
  [[nodiscard]] bool has_system_role() const { return has_system_role_; }
  [[nodiscard]] const ChatTemplateSource& source() const { return source_; }

 private:
  struct Program;
  ChatTemplate(ChatTemplateSource source, std::unique_ptr<Program> program);
  [[nodiscard]] Result<void> learn_content_form();
  [[nodiscard]] bool shows(std::span<const ChatMessage> messages) const;

  ChatTemplateSource source_;
  std::unique_ptr<Program> program_;
  bool typed_content_ = false;  // Content is a list of {"type": "text", "text": ...}.
  bool has_system_role_ = false;
};

}  // namespace incipit::model
