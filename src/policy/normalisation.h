// SPDX-License-Identifier: Apache-2.0
//
// From the log probabilities of surfaces to the scores of labels.
//
// A label has one surface or several (synonyms). Its raw log probability is the log of the sum
// of theirs: the model says one or the other, never both. A normalisation turns that into the
// score that labels compete with:
//
//     none   the log probability itself
//     mean   per scored token, the end token included
//     char   per character of the surface
//     pmi    less the label's log probability after a text without content
//
// mean and char are no log probabilities any more, so they cannot be summed over synonyms: the
// label takes its best surface. Pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "incipit/result.h"
#include "incipit/task.h"

namespace incipit::policy {

// What normalisation needs to know of one scored surface.
struct SurfaceFacts {
  std::size_t label = 0;
  std::size_t tokens = 0;      // Scored tokens, the end token included.
  std::size_t characters = 0;  // Unicode code points of the surface.
};

// log(sum(exp(values))), -infinity of nothing. Exact where one value dwarfs the rest.
[[nodiscard]] double log_sum_exp(std::span<const double> values);

// The raw log probability of each label, from those of its surfaces.
[[nodiscard]] std::vector<double> label_log_probabilities(std::span<const SurfaceFacts> surfaces,
                                                          std::span<const double> log_probabilities,
                                                          std::size_t labels);

// The scores of the labels under `kind`. `content_free` holds the raw log probability of each
// label after a text without content; only pmi reads it.
// Errors: kInvalidArgument for pmi without content_free.
Result<std::vector<double>> normalised_scores(Normalise kind,
                                              std::span<const SurfaceFacts> surfaces,
                                              std::span<const double> log_probabilities,
                                              std::size_t labels,
                                              std::span<const double> content_free);

[[nodiscard]] std::size_t count_characters(std::string_view utf8);

}  // namespace incipit::policy
