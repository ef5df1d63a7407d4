// SPDX-License-Identifier: Apache-2.0
#include "model/chat_template.h"

#include <jinja/lexer.h>
#include <jinja/parser.h>
#include <jinja/runtime.h>

#include <array>
#include <charconv>
#include <ctime>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>

#include "model/tokenizer.h"

namespace incipit::model {
namespace {

constexpr std::size_t kSourceBytesMax = std::size_t{1} << 18U;  // Real ones stay below 20 KB.

std::string_view name_of(Role role) {
  switch (role) {
    case Role::kSystem:
      return "system";
    case Role::kUser:
      return "user";
    case Role::kAssistant:
      return "assistant";
  }
  return "user";
}

std::optional<int> number_at(std::string_view text, std::size_t begin, std::size_t digits) {
  int number = 0;
  const char* first = text.data() + begin;
  const auto [end, code] = std::from_chars(first, first + digits, number);
  if (code != std::errc{} || end != first + digits || *first == '-') return std::nullopt;
  return number;
}

// Noon of a "YYYY-MM-DD" date in local time, since that is what templates are shown.
std::optional<std::time_t> noon_of(std::string_view date) {
  if (date.size() != 10 || date[4] != '-' || date[7] != '-') return std::nullopt;
  const auto year = number_at(date, 0, 4);
  const auto month = number_at(date, 5, 2);
  const auto day = number_at(date, 8, 2);
  if (!year || !month || !day) return std::nullopt;
  std::tm fields{};
  fields.tm_year = *year - 1900;
  fields.tm_mon = *month - 1;
  fields.tm_mday = *day;
  fields.tm_hour = 12;
  fields.tm_isdst = -1;
  const std::time_t time = std::mktime(&fields);
  // mktime() turns 31 June into 1 July: a date that it changed was none.
  const bool kept =
      fields.tm_year == *year - 1900 && fields.tm_mon == *month - 1 && fields.tm_mday == *day;
  return kept ? std::optional(time) : std::nullopt;
}

jinja::value text_value(std::string_view text) {
  return jinja::mk_val<jinja::value_string>(std::string(text));
}

jinja::value content_value(std::string_view text, bool typed) {
  auto content = jinja::mk_val<jinja::value_string>(std::string(text));
  content->mark_input();
  if (!typed) return content;
  auto part = jinja::mk_val<jinja::value_object>();
  part->insert("type", text_value("text"));
  part->insert("text", content);
  auto list = jinja::mk_val<jinja::value_array>();
  list->push_back(part);
  return list;
}

jinja::value messages_value(std::span<const ChatMessage> messages, bool typed) {
  auto list = jinja::mk_val<jinja::value_array>();
  for (const ChatMessage& message : messages) {
    // The role is not marked as content: templates build control tokens out of it.
    auto entry = jinja::mk_val<jinja::value_object>();
    entry->insert("role", text_value(name_of(message.role)));
    entry->insert("content", content_value(message.content, typed));
    list->push_back(entry);
  }
  return list;
}

RenderedChat collect(const jinja::value& results) {
  RenderedChat chat;
  const auto parts = jinja::runtime::gather_string_parts(results);
  for (const auto& part : parts->as_string().parts) {
    const std::size_t begin = chat.text.size();
    chat.text += part.val;
    if (part.is_input && !part.val.empty()) chat.content.push_back({begin, chat.text.size()});
  }
  return chat;
}

}  // namespace

struct ChatTemplate::Program {
  jinja::program parsed;
};

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::open(ChatTemplateSource source) {
  if (source.jinja.size() > kSourceBytesMax) {
    return failure(
        ErrorCode::kInvalidArgument,
        source.name + ": the chat template is larger than 256 KiB, which no model needs");
  }
  auto program = std::make_unique<Program>();
  try {
    jinja::lexer lexer;
    program->parsed = jinja::parse_from_tokens(lexer.tokenize(source.jinja));
  } catch (const std::exception& error) {
    return failure(ErrorCode::kInvalidArgument,
                   source.name + ": the chat template cannot be parsed: " + error.what());
  }
  std::unique_ptr<ChatTemplate> chat(new ChatTemplate(std::move(source), std::move(program)));
  INCIPIT_TRY_VOID(chat->learn_content_form());
  return chat;
}

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::of(const Tokenizer& tokenizer) {
  if (tokenizer.chat_template().empty()) {
    return failure(ErrorCode::kInvalidArgument,
                   tokenizer.path() +
                       ": the file carries no chat template (tokenizer.chat_template); use an "
                       "instruction-tuned model");
  }
  const auto surface = [&](std::optional<Token> token) {
    return token ? tokenizer.piece(*token) : std::string();
  };
  return open({.jinja = tokenizer.chat_template(),
               .bos = surface(tokenizer.bos()),
               .eos = surface(tokenizer.eos()),
               .name = tokenizer.path()});
}

ChatTemplate::ChatTemplate(ChatTemplateSource source, std::unique_ptr<Program> program)
    : source_(std::move(source)), program_(std::move(program)) {}

ChatTemplate::~ChatTemplate() = default;

Result<void> ChatTemplate::learn_content_form() {
  const std::array dialogue{ChatMessage{Role::kSystem, "QSYSTEMQ"},
                            ChatMessage{Role::kUser, "QUSERQ"}};
  const auto user_only = std::span(dialogue).last(1);
  typed_content_ = !shows(user_only);
  if (typed_content_ && !shows(user_only)) {
    typed_content_ = false;
    const auto tried = render(user_only, {});
    if (!tried) return std::unexpected(tried.error());
    return failure(ErrorCode::kInvalidArgument,
                   source_.name + ": the chat template does not show the content of a user turn");
  }
  has_system_role_ = shows(dialogue);
  return {};
}

bool ChatTemplate::shows(std::span<const ChatMessage> messages) const {
  const auto chat = render(messages, {});
  if (!chat) return false;
  for (const ChatMessage& message : messages) {
    if (chat->text.find(message.content) == std::string::npos) return false;
  }
  return true;
}

Result<RenderedChat> ChatTemplate::render(std::span<const ChatMessage> messages,
                                          const RenderOptions& options) const {
  const auto noon = noon_of(options.date);
  if (!noon) {
    return failure(ErrorCode::kInvalidArgument,
                   "template_date: \"" + options.date + "\" is no date; write it as YYYY-MM-DD");
  }
  static std::mutex local_time;  // The Jinja engine asks the C library for it.
  const std::scoped_lock lock(local_time);
  try {
    jinja::context context(source_.jinja);
    context.current_time = *noon;
    context.set_val("messages", messages_value(messages, typed_content_));
    context.set_val("bos_token", text_value(source_.bos));
    context.set_val("eos_token", text_value(source_.eos));
    context.set_val("enable_thinking", jinja::mk_val<jinja::value_bool>(false));
    if (options.generation_prompt) {
      context.set_val("add_generation_prompt", jinja::mk_val<jinja::value_bool>(true));
    }
    jinja::runtime runtime(context);
    return collect(runtime.execute(program_->parsed));
  } catch (const std::exception& error) {
    return failure(ErrorCode::kInvalidArgument,
                   source_.name + ": the chat template refuses the messages: " + error.what());
  }
}

}  // namespace incipit::model
