// SPDX-License-Identifier: Apache-2.0
#include "incipit/labelled_texts.h"

#include <utility>

#include "api/row_source.h"
#include "base/counted.h"

namespace incipit {

Result<std::vector<LabelledText>> read_labelled_texts(const std::string& path,
                                                      std::size_t rows_max) {
  INCIPIT_TRY(const api::RowSource source, api::RowSource::open(path, std::nullopt, RowFields{}));
  INCIPIT_TRY(const auto reader, source.rows());
  std::vector<LabelledText> texts;
  api::Row row;
  while (true) {
    INCIPIT_TRY(const bool more, reader->next(row));
    if (!more) break;
    if (!row.error.empty()) return failure(ErrorCode::kInvalidArgument, path + ": " + row.message);
    if (texts.size() == rows_max) {
      return failure(ErrorCode::kInvalidArgument, path + ": more than " + counted(rows_max, "row"));
    }
    texts.push_back({.text = std::move(row.text), .label = row.gold.value_or("")});
  }
  if (texts.empty()) return failure(ErrorCode::kInvalidArgument, path + ": no rows");
  return texts;
}

}  // namespace incipit
