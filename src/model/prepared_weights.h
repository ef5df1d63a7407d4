// SPDX-License-Identifier: Apache-2.0
//
// A model's weights in the form that the CPU multiplies: int8 with one f16 scale per 32 inputs.
//
// Any GGUF quantisation is dequantised and rounded again once; the result is kept in the cache
// directory under the model's SHA-256 and mapped from there. The layout follows from the shape
// alone, so the file needs no table: an entry's place is the same in every file of this version.
//
//     magic, version | XXH3 of the body | body bytes || body: matrices and vectors, 64-byte aligned
//
// A file that is damaged, cut short or of another version is made again. Immutable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "incipit/result.h"
#include "model/gguf_file.h"
#include "model/model_shape.h"

namespace incipit::model {

// rows x columns, `scales` one per 32 columns (f16 bits): weight = value * scale.
struct Int8Matrix {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::span<const std::byte> values;
  std::span<const std::byte> scales;
};

class PreparedWeights {
 public:
  // The recipe's name: part of every fingerprint, changed with every change of the numbers.
  static constexpr const char* kRecipe = "int8-sym-g32-f16/1";

  // Maps `path`, or makes it from `gguf` first. Errors: kCorruption for weights that are
  // not finite; kResourceExhausted for a full disk.
  static Result<std::unique_ptr<PreparedWeights>> open(
      const GgufFile& gguf, const ModelShape& shape, const std::string& path, std::size_t threads,
      const std::function<void(const std::string&)>& on_event);
  ~PreparedWeights();
  PreparedWeights(const PreparedWeights&) = delete;
  PreparedWeights& operator=(const PreparedWeights&) = delete;

  [[nodiscard]] Int8Matrix matrix(std::string_view name) const;
  // An empty span where the model has no such vector.
  [[nodiscard]] std::span<const float> vector(std::string_view name) const;

  // Gives the mapping's pages back to the system; they are read again if needed.
  void release_pages() const;

 private:
  struct Entry {
    std::size_t rows = 0;
    std::size_t columns = 0;
    std::size_t values_at = 0;
    std::size_t scales_at = 0;  // 0 for a vector.
  };
  PreparedWeights() = default;
  void lay_out(const GgufFile& gguf);
  Result<void> make(const GgufFile& gguf, const ModelShape& shape, const std::string& path,
                    std::size_t threads) const;
  Result<bool> map(const std::string& path);

  std::map<std::string, Entry, std::less<>> entries_;
  std::size_t body_bytes_ = 0;
  std::span<const std::byte> file_;  // The mapping, owned.
};

}  // namespace incipit::model
