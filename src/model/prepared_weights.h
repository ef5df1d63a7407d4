// SPDX-License-Identifier: Apache-2.0
//
// A model's weights in the form that the CPU multiplies: int8 with one f16 scale for each group of
// inputs. The group is the largest of 128, 64 and 32 that divides every matrix of the model: the
// larger, the less of a pass goes into scales (docs/adr/0003).
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

// rows x columns, `scales` one per `group` columns (f16 bits): weight = value * scale.
struct Int8Matrix {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t group = 0;
  std::span<const std::byte> values;
  std::span<const std::byte> scales;
};

class PreparedWeights {
 public:
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

  // Inputs that share a scale; one number for all matrices of a model.
  [[nodiscard]] std::size_t group() const { return group_; }
  // The recipe's name: part of every fingerprint, changed with every change of the numbers.
  [[nodiscard]] std::string recipe() const {
    return "int8-sym-g" + std::to_string(group_) + "-f16/2";
  }

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
  std::size_t group_ = 0;
  std::size_t body_bytes_ = 0;
  std::span<const std::byte> file_;  // The mapping, owned.
};

}  // namespace incipit::model
