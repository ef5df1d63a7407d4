// SPDX-License-Identifier: Apache-2.0
#include "api/json_cursor.h"

#include <charconv>
#include <cmath>
#include <system_error>

namespace incipit::api {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

void append_utf8(std::string& out, unsigned code) {
  const auto byte = [&out](unsigned value) { out += static_cast<char>(value); };
  if (code < 0x80) {
    byte(code);
  } else if (code < 0x800) {
    byte(0xC0U | (code >> 6U));
    byte(0x80U | (code & 0x3FU));
  } else if (code < 0x10000) {
    byte(0xE0U | (code >> 12U));
    byte(0x80U | ((code >> 6U) & 0x3FU));
    byte(0x80U | (code & 0x3FU));
  } else {
    byte(0xF0U | (code >> 18U));
    byte(0x80U | ((code >> 12U) & 0x3FU));
    byte(0x80U | ((code >> 6U) & 0x3FU));
    byte(0x80U | (code & 0x3FU));
  }
}

}  // namespace

std::string JsonCursor::place(std::size_t offset) const {
  std::size_t line = first_line_;
  std::size_t line_start = 0;
  for (std::size_t i = 0; i < offset && i < text_.size(); ++i) {
    if (text_[i] == '\n') {
      ++line;
      line_start = i + 1;
    }
  }
  const std::string column = std::to_string(offset - line_start + 1);
  if (name_.empty()) return "line " + std::to_string(line) + ", column " + column;
  return name_ + ":" + std::to_string(line) + ":" + column;
}

std::unexpected<Error> JsonCursor::fail(std::string_view what) const {
  return fail_at(value_start_, what);
}

std::unexpected<Error> JsonCursor::fail_at(std::size_t offset, std::string_view what) const {
  return failure(ErrorCode::kInvalidArgument, place(offset) + ": " + std::string(what));
}

void JsonCursor::skip_space() {
  while (at(' ') || at('\t') || at('\n') || at('\r')) ++position_;
}

Result<JsonKind> JsonCursor::peek() {
  skip_space();
  value_start_ = position_;
  if (position_ == text_.size()) return fail("the JSON text ends where a value is expected");
  switch (const char c = text_[position_]; c) {
    case '{':
      return JsonKind::kObject;
    case '[':
      return JsonKind::kArray;
    case '"':
      return JsonKind::kString;
    case 't':
    case 'f':
      return JsonKind::kBoolean;
    case 'n':
      return JsonKind::kNull;
    default:
      if (c == '-' || is_digit(c)) return JsonKind::kNumber;
      return fail("expected a JSON value");
  }
}

Result<void> JsonCursor::enter(char opening, std::string_view what) {
  INCIPIT_TRY_VOID(peek());
  if (!at(opening)) return fail("expected " + std::string(what));
  if (has_children_.size() == kDepthMax) {
    return fail("nested deeper than " + std::to_string(kDepthMax) + " levels");
  }
  ++position_;
  has_children_.push_back(false);
  return {};
}

Result<void> JsonCursor::enter_object() { return enter('{', "an object"); }
Result<void> JsonCursor::enter_array() { return enter('[', "an array"); }

Result<bool> JsonCursor::next_child(char closing, std::string_view what) {
  skip_space();
  if (at(closing)) {
    ++position_;
    has_children_.pop_back();
    return false;
  }
  if (has_children_.back()) {
    if (!at(','))
      return fail_at(position_, "expected a comma or the end of the " + std::string(what));
    ++position_;
  }
  has_children_.back() = true;
  return true;
}

Result<bool> JsonCursor::next_member(std::string& key) {
  INCIPIT_TRY(const bool more, next_child('}', "object"));
  if (!more) return false;
  skip_space();
  if (!at('"')) return fail_at(position_, "expected a key in double quotes");
  INCIPIT_TRY(key, string());
  const std::size_t key_start = value_start_;
  skip_space();
  if (!at(':')) return fail_at(position_, "expected a colon after the key");
  ++position_;
  value_start_ = key_start;
  return true;
}

Result<bool> JsonCursor::next_item() { return next_child(']', "array"); }

Result<std::string> JsonCursor::string() {
  INCIPIT_TRY(const JsonKind kind, peek());
  if (kind != JsonKind::kString) return fail("expected a string");
  std::string out;
  INCIPIT_TRY_VOID(scan_string(&out));
  return out;
}

Result<void> JsonCursor::scan_string(std::string* out) {
  ++position_;
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c == '"') {
      ++position_;
      return {};
    }
    if (static_cast<unsigned char>(c) < 0x20) {
      return fail_at(position_, "a control character inside a string must be escaped");
    }
    if (c == '\\') {
      INCIPIT_TRY_VOID(scan_escape(out));
      continue;
    }
    if (out != nullptr) *out += c;
    ++position_;
  }
  return fail("this string has no closing quote");
}

Result<void> JsonCursor::scan_escape(std::string* out) {
  const std::size_t start = position_++;
  const char c = position_ < text_.size() ? text_[position_++] : '\0';
  constexpr std::string_view kLetters = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  if (const std::size_t index = kLetters.find(c); c != '\0' && index != std::string_view::npos) {
    if (out != nullptr) *out += kMeanings[index];
    return {};
  }
  if (c != 'u') return fail_at(start, "unknown escape in a string");
  INCIPIT_TRY(unsigned code, scan_hex());
  const bool is_high = code >= 0xD800 && code < 0xDC00;
  bool is_lone = code >= 0xD800 && code < 0xE000;
  if (is_high && text_.substr(position_).starts_with("\\u")) {
    const std::size_t before_low = position_;
    position_ += 2;
    INCIPIT_TRY(const unsigned low, scan_hex());
    if (low >= 0xDC00 && low < 0xE000) {
      code = 0x10000U + ((code - 0xD800U) << 10U) + (low - 0xDC00U);
      is_lone = false;
    } else {
      position_ = before_low;
    }
  }
  if (out == nullptr) return {};
  if (is_lone) {
    *out += '\xFF';
  } else {
    append_utf8(*out, code);
  }
  return {};
}

Result<unsigned> JsonCursor::scan_hex() {
  unsigned code = 0;
  const char* begin = text_.data() + position_;
  if (text_.size() - position_ < 4) return fail_at(position_, "\\u needs four hexadecimal digits");
  const auto [end, error] = std::from_chars(begin, begin + 4, code, 16);
  if (error != std::errc() || end != begin + 4) {
    return fail_at(position_, "\\u needs four hexadecimal digits");
  }
  position_ += 4;
  return code;
}

Result<std::string_view> JsonCursor::scan_number() {
  const std::size_t start = position_;
  const auto digits = [this] {
    const std::size_t first = position_;
    while (position_ < text_.size() && is_digit(text_[position_])) ++position_;
    return position_ > first;
  };
  if (at('-')) ++position_;
  if (at('0')) {
    ++position_;
  } else if (!digits()) {
    return fail("expected a digit");
  }
  if (at('.')) {
    ++position_;
    if (!digits()) return fail("expected a digit after the decimal point");
  }
  if (at('e') || at('E')) {
    ++position_;
    if (at('+') || at('-')) ++position_;
    if (!digits()) return fail("expected a digit in the exponent");
  }
  return text_.substr(start, position_ - start);
}

Result<double> JsonCursor::number() {
  INCIPIT_TRY(const JsonKind kind, peek());
  if (kind != JsonKind::kNumber) return fail("expected a number");
  INCIPIT_TRY(const std::string_view source, scan_number());
  double value = 0;
  const auto [end, error] = std::from_chars(source.data(), source.data() + source.size(), value);
  if (error != std::errc() || end != source.data() + source.size() || !std::isfinite(value)) {
    return fail("this number is too large or too small");
  }
  return value;
}

Result<void> JsonCursor::scan_word(std::string_view word) {
  if (!text_.substr(position_).starts_with(word)) return fail("expected a JSON value");
  position_ += word.size();
  return {};
}

Result<bool> JsonCursor::boolean() {
  INCIPIT_TRY(const JsonKind kind, peek());
  if (kind != JsonKind::kBoolean) return fail("expected true or false");
  const bool value = at('t');
  INCIPIT_TRY_VOID(scan_word(value ? "true" : "false"));
  return value;
}

Result<std::string_view> JsonCursor::skip() {
  INCIPIT_TRY(const JsonKind kind, peek());
  const std::size_t start = position_;
  switch (kind) {
    case JsonKind::kObject: {
      INCIPIT_TRY_VOID(enter_object());
      std::string key;
      while (true) {
        INCIPIT_TRY(const bool more, next_member(key));
        if (!more) break;
        INCIPIT_TRY_VOID(skip());
      }
      break;
    }
    case JsonKind::kArray: {
      INCIPIT_TRY_VOID(enter_array());
      while (true) {
        INCIPIT_TRY(const bool more, next_item());
        if (!more) break;
        INCIPIT_TRY_VOID(skip());
      }
      break;
    }
    case JsonKind::kString:
      INCIPIT_TRY_VOID(scan_string(nullptr));
      break;
    case JsonKind::kNumber:
      INCIPIT_TRY_VOID(scan_number());
      break;
    case JsonKind::kBoolean:
      INCIPIT_TRY_VOID(scan_word(at('t') ? "true" : "false"));
      break;
    case JsonKind::kNull:
      INCIPIT_TRY_VOID(scan_word("null"));
      break;
  }
  return text_.substr(start, position_ - start);
}

Result<void> JsonCursor::finish() {
  skip_space();
  if (position_ != text_.size()) return fail_at(position_, "nothing may follow the JSON value");
  return {};
}

}  // namespace incipit::api
