// SPDX-License-Identifier: Apache-2.0
//
// Which texts were scored already, and where their scores stand.
//
// A map from the 128-bit hash of a text to a place in the score journal, made for files of many
// millions of rows: 24 bytes an entry, open addressing, at least half full. 64 shards grow one
// at a time, so growing never holds two copies of everything: under 64 bytes a text at any time
// (SeenTexts.StaysUnder64BytesAText). The hash is the start of SHA-256, so nobody can choose
// texts that meet. Confined to one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace incipit::api {

struct TextKey {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  bool operator==(const TextKey&) const = default;
};

[[nodiscard]] TextKey text_key(std::string_view text);

class SeenTexts {
 public:
  [[nodiscard]] std::optional<std::uint64_t> find(TextKey key) const;
  // Requires: find(key) is empty; `place` is not SIZE_MAX.
  void insert(TextKey key, std::uint64_t place);

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t bytes() const;

 private:
  static constexpr std::uint64_t kFree = UINT64_MAX;
  struct Slot {
    TextKey key;
    std::uint64_t place = kFree;
  };
  struct Shard {
    std::vector<Slot> slots;
    std::size_t used = 0;

    // The slot of `key`, or the free slot where it belongs.
    [[nodiscard]] std::size_t index_of(TextKey key) const;
    void grow();
  };

  std::array<Shard, 64> shards_;
  std::size_t size_ = 0;
};

}  // namespace incipit::api
