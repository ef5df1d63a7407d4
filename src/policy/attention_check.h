// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of the attention check: one number of a hit, and the fit of what it must reach.
//
// The number: of a row's weight on the prefix, how much lies on cells of the row's own token,
// beyond the part that so many cells would get of weight that fell anywhere. It is near 0 where
// the cells are not those of the tokens. The sink, cell 0, is left out: it gets its weight whatever
// the prompt says. The plain largest weight hardly tells right from wrong; docs/adr/0011 has both.
// Pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "incipit/attention_check.h"
#include "incipit/types.h"

namespace incipit::policy {

// `weights` are those of cells 0 to the row's own, and `tokens` theirs; the first `prefix` of them
// are the hit's. Nothing where the prefix holds no cell of the row's token that the head sees.
[[nodiscard]] std::optional<double> own_token_weight(std::span<const float> weights,
                                                     TokenSpan tokens, std::size_t prefix);

// The largest weight of a cell of the prefix, the sink left out.
[[nodiscard]] double largest_weight(std::span<const float> weights, std::size_t prefix);

// What heads found in one prompt, as the mean over its rows; the heads in the same order in all.
using HeadValues = std::vector<double>;

// Prefixes that were right, and wrong ones.
struct Verdicts {
  std::vector<double> right;
  std::vector<double> wrong;
};

// Requires values on both sides.
[[nodiscard]] AttentionQuality quality_of(const Verdicts& verdicts);

struct FitSamples {
  std::vector<HeadValues> right;
  std::vector<HeadValues> wrong;
};

// The heads that tell best by themselves, as indices into HeadValues; best first.
[[nodiscard]] std::vector<std::size_t> best_heads(const FitSamples& samples, std::size_t count);

// The mean of the named heads.
[[nodiscard]] double mean_of(const HeadValues& values, std::span<const std::size_t> heads);

// The largest threshold, of four decimals, below which at most `false_alarms` of the right prefixes
// fall.
[[nodiscard]] double threshold_for(std::vector<double> right, double false_alarms);

// What is wrong with a check for a model of so many layers and heads; empty where nothing is.
[[nodiscard]] std::string wrong_with(const AttentionCheck& check, std::size_t layers,
                                     std::size_t heads);

}  // namespace incipit::policy
