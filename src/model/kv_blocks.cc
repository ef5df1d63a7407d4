// SPDX-License-Identifier: Apache-2.0
#include "model/kv_blocks.h"

#include "base/check.h"

namespace incipit::model {

KvBlocks::KvBlocks(std::size_t count) : owners_(count, 0) {
  free_.reserve(count);
  for (std::size_t i = count; i > 0; --i) free_.push_back(static_cast<BlockIndex>(i - 1));
}

std::optional<BlockIndex> KvBlocks::take() {
  if (free_.empty()) return std::nullopt;
  const BlockIndex block = free_.back();
  free_.pop_back();
  owners_[static_cast<std::size_t>(block)] = 1;
  return block;
}

void KvBlocks::share(BlockIndex block) {
  auto& owners = owners_[static_cast<std::size_t>(block)];
  INCIPIT_CHECK(owners > 0, "a free block cannot be shared");
  ++owners;
}

void KvBlocks::release(BlockIndex block) {
  auto& owners = owners_[static_cast<std::size_t>(block)];
  INCIPIT_CHECK(owners > 0, "a free block cannot be released");
  if (--owners == 0) free_.push_back(block);
}

bool KvBlocks::is_shared(BlockIndex block) const {
  return owners_[static_cast<std::size_t>(block)] > 1;
}

}  // namespace incipit::model
