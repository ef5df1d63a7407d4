// SPDX-License-Identifier: Apache-2.0
//
// What heads found on a cached prefix in some rows of the last pass.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "incipit/attention_check.h"
#include "incipit/types.h"
#include "model/runtime.h"
#include "policy/attention_check.h"

namespace incipit::engine {

// Rows that are looked at, where a prompt has as many behind its prefix. In a pass so many logits
// rows cost next to nothing: fewer are filled up anyway (docs/adr/0002).
inline constexpr std::size_t kRowsLookedAt = 8;

// Mean own-token weight of one head in logits rows [first_row, first_row + rows), which belong to
// one sequence of `tokens`. Nothing where none of them has a token of the prefix to look for.
inline std::optional<double> look(const model::Runtime& runtime, std::size_t first_row,
                                  std::size_t rows, AttentionHead head, TokenSpan tokens,
                                  std::size_t prefix) {
  double sum = 0;
  std::size_t count = 0;
  for (std::size_t row = first_row; row < first_row + rows; ++row) {
    const auto weights = runtime.attention(row, head);
    if (!weights) continue;
    const auto found = policy::own_token_weight(*weights, tokens, prefix);
    if (!found) continue;
    sum += *found;
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / static_cast<double>(count);
}

}  // namespace incipit::engine
