// SPDX-License-Identifier: Apache-2.0
#include "api/seen_texts.h"

#include <charconv>
#include <span>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/hash.h"

namespace incipit::api {
namespace {

// The place in a table of any size that `hash` falls on, evenly (no division, no power of two).
std::size_t spread(std::uint64_t hash, std::size_t size) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::size_t>((Wide{hash} * size) >> 64U);
}

}  // namespace

TextKey text_key(std::string_view text) {
  const std::string hex = sha256_hex(std::as_bytes(std::span(text)));
  TextKey key;
  std::from_chars(hex.data(), hex.data() + 16, key.high, 16);
  std::from_chars(hex.data() + 16, hex.data() + 32, key.low, 16);
  return key;
}

std::size_t SeenTexts::Shard::index_of(TextKey key) const {
  std::size_t index = spread(key.high, slots.size());
  while (slots[index].place != kFree && slots[index].key != key) {
    index = index + 1 == slots.size() ? 0 : index + 1;
  }
  return index;
}

void SeenTexts::Shard::grow() {
  std::vector<Slot> old(slots.size() + slots.size() / 2 + 8);
  std::swap(old, slots);
  for (const Slot& slot : old) {
    if (slot.place != kFree) slots[index_of(slot.key)] = slot;
  }
}

std::optional<std::uint64_t> SeenTexts::find(TextKey key) const {
  const Shard& shard = shards_[key.low % shards_.size()];
  if (shard.slots.empty()) return std::nullopt;
  const Slot& slot = shard.slots[shard.index_of(key)];
  if (slot.place == kFree) return std::nullopt;
  return slot.place;
}

void SeenTexts::insert(TextKey key, std::uint64_t place) {
  Shard& shard = shards_[key.low % shards_.size()];
  // Four fifths full: longer runs would cost more than the memory they save.
  if ((shard.used + 1) * 5 > shard.slots.size() * 4) shard.grow();
  Slot& slot = shard.slots[shard.index_of(key)];
  INCIPIT_CHECK(slot.place == kFree && place != kFree, "a text is inserted once");
  slot = {.key = key, .place = place};
  ++shard.used;
  ++size_;
}

std::size_t SeenTexts::bytes() const {
  std::size_t slots = 0;
  for (const Shard& shard : shards_) slots += shard.slots.capacity();
  return slots * sizeof(Slot);
}

}  // namespace incipit::api
