// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <openssl/evp.h>

#include <array>
#include <vector>

#include "base/check.h"
#include "base/file.h"

namespace incipit {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() {
    INCIPIT_CHECK(context && EVP_DigestInit_ex(context, EVP_sha256(), nullptr), "SHA-256");
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;
Sha256::~Sha256() = default;

Sha256& Sha256::update(std::span<const std::byte> bytes) {
  INCIPIT_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()), "SHA-256");
  return *this;
}

Sha256& Sha256::field(std::string_view text) {
  field(std::uint64_t{text.size()});
  return update(std::as_bytes(std::span(text)));
}

Sha256& Sha256::field(std::uint64_t number) { return update(std::as_bytes(std::span(&number, 1))); }

std::string Sha256::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  INCIPIT_CHECK(EVP_DigestFinal_ex(state_->context, digest.data(), &length), "SHA-256");
  std::string text;
  for (unsigned int i = 0; i < length; ++i) {
    text += "0123456789abcdef"[digest[i] >> 4U];
    text += "0123456789abcdef"[digest[i] & 15U];
  }
  return text;
}

std::string sha256_hex(std::span<const std::byte> bytes) { return Sha256().update(bytes).hex(); }

Result<std::string> sha256_of_file(const std::string& path) {
  INCIPIT_TRY(const File file, File::open_read(path));
  Sha256 hash;
  std::vector<std::byte> buffer(std::size_t{1} << 20U);
  while (true) {
    INCIPIT_TRY(const std::size_t count, file.read(buffer));
    if (count == 0) return hash.hex();
    hash.update(std::span(buffer).first(count));
  }
}

}  // namespace incipit
