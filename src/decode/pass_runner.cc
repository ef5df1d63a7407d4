// SPDX-License-Identifier: Apache-2.0
#include "decode/pass_runner.h"

#include <algorithm>

namespace incipit::decode {

Result<void> PassRunner::run(std::span<const PassItem> roots, PassVisitor& visitor) {
  singly_ = false;
  return run_groups(roots, visitor);
}

Result<void> PassRunner::run_singly(const PassItem& root, PassVisitor& visitor) {
  singly_ = true;
  return run_groups({&root, 1}, visitor);
}

Result<void> PassRunner::run_groups(std::span<const PassItem> items, PassVisitor& visitor) {
  while (!items.empty()) {
    const std::size_t size = group_size(items);
    INCIPIT_TRY_VOID(run_group(items.first(size), visitor));
    items = items.subspan(size);
  }
  return {};
}

// How many of the first items to try together; at least one. An estimate that is too high costs
// a refused attempt, one that is too low a pass more.
std::size_t PassRunner::group_size(std::span<const PassItem> items) const {
  if (singly_) return 1;
  // What stands below needs cells while this group is held: it gets half of them.
  const std::size_t cells = runtime_.cells_free() / (items.front().has_more ? 2 : 1);
  // Sequences run out by depth, cells by length: a quarter leaves some for a dozen levels.
  const std::size_t sequences = runtime_.sequences_free() / (items.front().has_more ? 4 : 1);
  std::size_t cells_wanted = 0;
  std::size_t tokens = 0;
  std::size_t rows = 0;
  std::size_t size = 0;
  for (const PassItem& item : items) {
    cells_wanted += item.tokens.size() + runtime_.limits().fork_cells;
    tokens += item.tokens.size();
    rows += item.logits_rows.size();
    const bool fits = cells_wanted <= cells && rows <= limits_.logits_rows_max &&
                      size < sequences && (limits_.tokens_max == 0 || tokens <= limits_.tokens_max);
    if (!fits) break;
    ++size;
  }
  return std::max<std::size_t>(size, 1);
}

Result<model::Sequence> PassRunner::open(const PassItem& item) {
  if (item.shared == 0) return model::Sequence::create(runtime_);
  return model::Sequence::fork(runtime_, item.parent, item.shared);
}

Result<model::Logits> PassRunner::evaluate(std::span<const PassItem> items,
                                           std::vector<model::Sequence>& sequences) {
  std::vector<model::Step> steps;
  for (const PassItem& item : items) {
    INCIPIT_TRY(model::Sequence sequence, open(item));
    steps.push_back({sequence.id(), item.tokens, item.logits_rows});
    sequences.push_back(std::move(sequence));
  }
  INCIPIT_TRY(const model::Logits logits, runtime_.evaluate(steps));
  ++counters_.passes;
  counters_.logits_rows += logits.rows();
  for (const PassItem& item : items) counters_.tokens += item.tokens.size();
  return logits;
}

Result<void> PassRunner::run_group(std::span<const PassItem> items, PassVisitor& visitor) {
  std::vector<model::Sequence> sequences;
  const auto logits = evaluate(items, sequences);
  if (!logits && logits.error().code == ErrorCode::kResourceExhausted) {
    sequences.clear();
    if (items.size() == 1) {
      visitor.does_not_fit(items.front());
      return {};
    }
    const std::size_t half = items.size() / 2;
    INCIPIT_TRY_VOID(run_group(items.first(half), visitor));
    return run_group(items.subspan(half), visitor);
  }
  if (!logits) return std::unexpected(logits.error());
  std::size_t first_row = 0;
  for (const PassItem& item : items) {
    visitor.read(item, *logits, first_row);
    first_row += item.logits_rows.size();
  }
  std::vector<PassItem> below;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::vector<PassItem> more = visitor.next(items[i], sequences[i]);
    if (more.empty()) sequences[i] = model::Sequence();
    below.insert(below.end(), more.begin(), more.end());
  }
  return run_groups(below, visitor);
}

}  // namespace incipit::decode
