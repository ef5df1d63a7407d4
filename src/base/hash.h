// SPDX-License-Identifier: Apache-2.0
//
// SHA-256 for everything that names bytes: model files, saved cells, fingerprints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "incipit/result.h"

namespace incipit {

// Hashes a stream of bytes. field() prefixes each field with its length, so that no two lists of
// fields can meet in one hash. Confined to one thread.
class Sha256 {
 public:
  Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  ~Sha256();

  Sha256& update(std::span<const std::byte> bytes);
  Sha256& field(std::string_view text);
  Sha256& field(std::uint64_t number);

  // 64 lower-case hexadecimal digits. Ends the hash.
  [[nodiscard]] std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

[[nodiscard]] std::string sha256_hex(std::span<const std::byte> bytes);

// Errors: kInvalidArgument if the file cannot be read; the message names it.
Result<std::string> sha256_of_file(const std::string& path);

}  // namespace incipit
