// SPDX-License-Identifier: Apache-2.0
//
// Cells of passages, for use at other positions and behind other tokens. Lossy: a passage's cells
// saw the tokens before it, and those are others elsewhere.
//
// A passage is found by its tokens and its tenant; its cells are a runtime's saved bytes, which
// name their model themselves. The least recently used go first.
// Confined to the model's thread.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "incipit/types.h"

namespace incipit::kv {

struct FragmentKey {
  std::string_view tenant;
  TokenSpan tokens;
  // So many of the first tokens are computed anew in each place: their cells are not kept.
  std::size_t head = 0;
};

class FragmentCache {
 public:
  explicit FragmentCache(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  [[nodiscard]] bool contains(const FragmentKey& key) const;
  // The cells behind the head; null where there are none. Valid until the next insert() or erase().
  const std::vector<std::byte>* find(const FragmentKey& key);
  // Cells that are there already, or larger than the whole cache, are not taken.
  void insert(const FragmentKey& key, std::vector<std::byte> cells);
  void erase(const FragmentKey& key);
  // All of a tenant.
  void drop(std::string_view tenant);

  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] bool is_on() const { return bytes_max_ > 0; }

 private:
  struct Entry {
    std::string id;
    std::string tenant;
    std::vector<std::byte> cells;
  };
  using Entries = std::list<Entry>;

  void remove(Entries::iterator entry);

  std::size_t bytes_max_;
  std::size_t bytes_ = 0;
  Entries entries_;  // The most recently used first.
  std::map<std::string, Entries::iterator> by_id_;
};

}  // namespace incipit::kv
