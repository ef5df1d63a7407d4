// SPDX-License-Identifier: Apache-2.0
//
// A GGUF file, read with suspicion.
//
// The whole header is walked here, every length checked against the bytes that are really there,
// before anything else (libllama's tokeniser among it) may open the file: `gguf.h` accepts
// dimensions of 2^62 and lengths that ask for gigabytes. The tensors stay in the mapping; only
// the metadata is copied.
//
// Format: the GGUF specification, versions 2 and 3, little endian.
// Immutable.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "incipit/result.h"

namespace incipit::model {

struct GgufTensor {
  std::string name;
  std::uint32_t type = 0;     // A ggml_type.
  std::uint64_t columns = 1;  // Innermost dimension: inputs of a linear layer.
  std::uint64_t rows = 1;     // All other dimensions together.
  std::span<const std::byte> data;
};

// An array's element type and count; strings and numbers of arrays stay in the file.
struct GgufArray {
  std::uint32_t type = 0;
  std::uint64_t count = 0;
};

using GgufValue = std::variant<std::uint64_t, std::int64_t, double, bool, std::string, GgufArray>;

class GgufFile {
 public:
  // Errors: kUnavailable for a file that cannot be read; kCorruption for one that is no GGUF and
  // for every length, type or offset that does not fit. The message names the file, what is
  // wrong and where.
  static Result<std::unique_ptr<GgufFile>> open(const std::string& path);
  ~GgufFile();
  GgufFile(const GgufFile&) = delete;
  GgufFile& operator=(const GgufFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_.size(); }
  [[nodiscard]] const std::map<std::string, GgufTensor, std::less<>>& tensors() const {
    return tensors_;
  }
  [[nodiscard]] const GgufTensor* tensor(std::string_view name) const;
  [[nodiscard]] const GgufValue* value(std::string_view key) const;
  [[nodiscard]] std::optional<std::uint64_t> unsigned_value(std::string_view key) const;
  [[nodiscard]] std::optional<double> number(std::string_view key) const;
  [[nodiscard]] std::optional<std::string> text(std::string_view key) const;

 private:
  class Reader;
  struct Placed;
  GgufFile() = default;
  Result<void> parse();
  [[nodiscard]] std::uint64_t alignment() const;
  Result<void> place_tensors(std::vector<Placed> found, std::uint64_t data_begin);

  std::string path_;
  std::span<const std::byte> bytes_;  // The mapping, owned.
  std::map<std::string, GgufValue, std::less<>> values_;
  std::map<std::string, GgufTensor, std::less<>> tensors_;
};

}  // namespace incipit::model
