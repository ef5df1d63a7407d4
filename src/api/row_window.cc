// SPDX-License-Identifier: Apache-2.0
#include "api/row_window.h"

#include <string_view>
#include <unordered_map>
#include <utility>

namespace incipit::api {
namespace {

struct KeyHash {
  std::size_t operator()(const TextKey& key) const { return key.high; }
};

}  // namespace

Result<void> RowWindow::fill(RowReader& reader, const SeenTexts* seen, std::size_t texts_max) {
  rows_.clear();
  texts_.clear();
  std::unordered_map<TextKey, std::size_t, KeyHash> here;
  std::size_t bytes = 0;
  while (texts_.size() < texts_max && rows_.size() < texts_max * kRowsPerText &&
         bytes < kBytesMax) {
    WindowRow next;
    INCIPIT_TRY(const bool more, reader.next(next.row));
    if (!more) break;
    bytes += next.row.text.size();
    const std::size_t index = rows_.size();
    JournalRow& record = next.record;
    if (!next.row.error.empty()) {
      record.kind = JournalRow::Kind::kUnreadable;
      record.key = text_key(next.row.error);
    } else {
      record.kind = JournalRow::Kind::kScored;
      record.key = text_key(next.row.text);
    }
    if (record.kind == JournalRow::Kind::kScored && seen != nullptr) {
      const auto earlier = seen->find(record.key);
      const auto [first, is_new] = here.emplace(record.key, index);
      if (earlier || !is_new) record.kind = JournalRow::Kind::kRepeat;
      if (earlier) record.first = *earlier;
      if (!earlier && !is_new) next.repeats = first->second;
    }
    if (record.kind == JournalRow::Kind::kScored) {
      record.id = next.row.id;
      texts_.push_back(index);
    }
    rows_.push_back(std::move(next));
  }
  return {};
}

Result<void> RowWindow::score(PacedScorer& scorer, const PacedScorer::GoOn& go_on) {
  if (texts_.empty()) return {};
  std::vector<std::string_view> texts;
  for (const std::size_t index : texts_) texts.emplace_back(rows_[index].row.text);
  INCIPIT_TRY(auto scored, scorer.score(texts, go_on));
  for (std::size_t i = 0; i < scored.size(); ++i) {
    rows_[texts_[i]].record.scored = std::move(scored[i]);
  }
  if (scored.size() == texts_.size()) return {};
  rows_.resize(texts_[scored.size()]);  // A row repeats one before it, so what stays is whole.
  texts_.resize(scored.size());
  return {};
}

}  // namespace incipit::api
