// SPDX-License-Identifier: Apache-2.0
//
// Writes GGUF files, version 3, little endian: good ones, and with header_*() and value() such as
// no honest program would write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace incipit::test {

// Numbers and length-prefixed texts, one behind the other.
class ByteWriter {
 public:
  template <typename T>
  ByteWriter& put(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  ByteWriter& text(std::string_view value) {
    put(std::uint64_t{value.size()});
    return raw(value);
  }
  ByteWriter& raw(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class GgufWriter {
 public:
  static constexpr std::size_t kAlignment = 32;

  void text(std::string_view key, std::string_view value) {
    this->value(key, 8, ByteWriter().text(value).bytes());
  }
  void number(std::string_view key, std::uint32_t value) {
    this->value(key, 4, ByteWriter().put(value).bytes());
  }
  void real(std::string_view key, float value) {
    this->value(key, 6, ByteWriter().put(value).bytes());
  }
  void flag(std::string_view key, bool value) {
    this->value(key, 7, ByteWriter().put(static_cast<std::uint8_t>(value)).bytes());
  }
  void texts(std::string_view key, std::span<const std::string> values) {
    ByteWriter list;
    list.put(std::uint32_t{8}).put(std::uint64_t{values.size()});
    for (const std::string& value : values) list.text(value);
    this->value(key, 9, list.bytes());
  }
  template <typename T>  // float or std::int32_t
  void numbers(std::string_view key, std::span<const T> values) {
    ByteWriter list;
    list.put(std::uint32_t{std::is_same_v<T, float> ? 6U : 5U}).put(std::uint64_t{values.size()});
    for (const T value : values) list.put(value);
    this->value(key, 9, list.bytes());
  }
  // A value of any type, its bytes as given.
  void value(std::string_view key, std::uint32_t type, std::string_view bytes) {
    values_.text(key).put(type).raw(bytes);
    ++value_count_;
  }

  // `dimensions` begin with the innermost, as in the file.
  void tensor(std::string_view name, std::uint32_t type, std::span<const std::uint64_t> dimensions,
              std::string_view data) {
    header_tensor(name, type, dimensions, data_.size());
    data_ += data;
    data_.resize((data_.size() + kAlignment - 1) / kAlignment * kAlignment);
  }
  // A tensor's header alone, its offset as given.
  void header_tensor(std::string_view name, std::uint32_t type,
                     std::span<const std::uint64_t> dimensions, std::uint64_t offset) {
    tensors_.text(name).put(static_cast<std::uint32_t>(dimensions.size()));
    for (const std::uint64_t extent : dimensions) tensors_.put(extent);
    tensors_.put(type).put(offset);
    ++tensor_count_;
  }
  void header_tensor_count(std::uint64_t count) { tensor_count_ = count; }
  void header_value_count(std::uint64_t count) { value_count_ = count; }
  void header_version(std::uint32_t version) { version_ = version; }

  [[nodiscard]] std::string bytes() const {
    ByteWriter file;
    file.raw("GGUF").put(version_).put(tensor_count_).put(value_count_);
    file.raw(values_.bytes()).raw(tensors_.bytes());
    std::string all = file.bytes();
    if (!data_.empty()) all.resize((all.size() + kAlignment - 1) / kAlignment * kAlignment);
    return all + data_;
  }

 private:
  std::uint32_t version_ = 3;
  std::uint64_t value_count_ = 0;
  std::uint64_t tensor_count_ = 0;
  ByteWriter values_;
  ByteWriter tensors_;
  std::string data_;
};

}  // namespace incipit::test
