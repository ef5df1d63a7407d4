// SPDX-License-Identifier: Apache-2.0
#include "kv/fragment_cache.h"

#include <cstdint>
#include <iterator>
#include <utility>

#include "base/hash.h"

namespace incipit::kv {
namespace {

std::string id_of(const FragmentKey& key) {
  return Sha256()
      .field("incipit-fragment/1")
      .field(key.tenant)
      .field(std::uint64_t{key.head})
      .update(std::as_bytes(key.tokens))
      .hex();
}

}  // namespace

bool FragmentCache::contains(const FragmentKey& key) const { return by_id_.contains(id_of(key)); }

const std::vector<std::byte>* FragmentCache::find(const FragmentKey& key) {
  const auto found = by_id_.find(id_of(key));
  if (found == by_id_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return &found->second->cells;
}

void FragmentCache::insert(const FragmentKey& key, std::vector<std::byte> cells) {
  if (cells.size() > bytes_max_ || contains(key)) return;
  while (bytes_ + cells.size() > bytes_max_) remove(std::prev(entries_.end()));
  bytes_ += cells.size();
  entries_.push_front(
      {.id = id_of(key), .tenant = std::string(key.tenant), .cells = std::move(cells)});
  by_id_[entries_.front().id] = entries_.begin();
}

void FragmentCache::erase(const FragmentKey& key) {
  const auto found = by_id_.find(id_of(key));
  if (found != by_id_.end()) remove(found->second);
}

void FragmentCache::drop(std::string_view tenant) {
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    if (entry->tenant == tenant) remove(entry);
    entry = next;
  }
}

void FragmentCache::remove(Entries::iterator entry) {
  bytes_ -= entry->cells.size();
  by_id_.erase(entry->id);
  entries_.erase(entry);
}

}  // namespace incipit::kv
