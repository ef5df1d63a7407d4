// SPDX-License-Identifier: Apache-2.0
//
// Writes JSON into a string: always valid JSON and valid UTF-8, whatever bytes come in.
//
//     JsonWriter json;
//     json.begin_object().key("id").raw("7").key("label").string("billing").end_object();
//
// Commas are the writer's business. With an indent the text is laid out for people; without, it
// is one line. Confined to one thread.
#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace incipit::api {

class JsonWriter {
 public:
  explicit JsonWriter(std::size_t indent = 0) : indent_(indent) {}

  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);

  // Bytes that are not UTF-8 become U+FFFD.
  JsonWriter& string(std::string_view text);
  // Six significant digits; null if it is not finite.
  JsonWriter& number(double value);
  // Every digit that a double needs to come back bit by bit.
  JsonWriter& exact_number(double value);
  template <std::integral Number>
  JsonWriter& number(Number value) {
    return raw(std::to_string(value));
  }
  JsonWriter& boolean(bool value) { return raw(value ? "true" : "false"); }
  JsonWriter& null() { return raw("null"); }
  // A value that is JSON already.
  JsonWriter& raw(std::string_view json);

  [[nodiscard]] const std::string& text() const { return out_; }
  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void before_value();
  void new_line();

  std::size_t indent_;
  std::string out_;
  std::vector<bool> has_children_;
  bool after_key_ = false;
};

// `text` as a JSON string, quotes included.
[[nodiscard]] std::string json_string(std::string_view text);

// Six significant digits, the form of every score and probability that is written.
[[nodiscard]] std::string six_digits(double value);

}  // namespace incipit::api
