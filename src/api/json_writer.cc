// SPDX-License-Identifier: Apache-2.0
#include "api/json_writer.h"

#include <array>
#include <charconv>
#include <cmath>

#include "base/utf8.h"

namespace incipit::api {
namespace {

// Appends with `digits` significant digits; std::to_chars knows no locale.
std::string digits_of(double value, int digits) {
  std::array<char, 64> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                    std::chars_format::general, digits);
  return {buffer.data(), result.ptr};
}

void append_escaped(std::string& out, char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  const auto byte = static_cast<unsigned char>(c);
  if (byte >= 0x20 && byte != 0x7F) {
    out += c;
    return;
  }
  constexpr std::string_view kHex = "0123456789abcdef";
  out += "\\u00";
  out += kHex[byte >> 4U];
  out += kHex[byte & 15U];
}

}  // namespace

std::string json_string(std::string_view text) {
  std::size_t replaced = 0;
  const std::string valid = repair_utf8(text, &replaced);
  std::string out = "\"";
  for (const char c : valid) append_escaped(out, c);
  return out += '"';
}

std::string six_digits(double value) { return digits_of(value, 6); }

JsonWriter& JsonWriter::key(std::string_view name) {
  before_value();
  out_ += json_string(name);
  out_ += indent_ > 0 ? ": " : ":";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::string(std::string_view text) { return raw(json_string(text)); }

JsonWriter& JsonWriter::number(double value) {
  return std::isfinite(value) ? raw(six_digits(value)) : null();
}

JsonWriter& JsonWriter::exact_number(double value) {
  return std::isfinite(value) ? raw(digits_of(value, 17)) : null();
}

JsonWriter& JsonWriter::raw(std::string_view json) {
  before_value();
  out_ += json;
  return *this;
}

JsonWriter& JsonWriter::open(char bracket) {
  before_value();
  out_ += bracket;
  has_children_.push_back(false);
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  const bool had_children = has_children_.back();
  has_children_.pop_back();
  if (had_children) new_line();
  out_ += bracket;
  return *this;
}

void JsonWriter::before_value() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (has_children_.empty()) return;
  if (has_children_.back()) out_ += ',';
  has_children_.back() = true;
  new_line();
}

void JsonWriter::new_line() {
  if (indent_ == 0) return;
  out_ += '\n';
  out_.append(indent_ * has_children_.size(), ' ');
}

}  // namespace incipit::api
