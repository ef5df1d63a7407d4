// SPDX-License-Identifier: Apache-2.0
//
// Lets a graph show what its layers look for: the queries that attention takes.
//
// Only rows that are asked for are copied out, so the outputs cost a few kilobytes a pass. Nothing
// that is computed depends on them (tests/conformance/attention_test.cc compares the bits).
#pragma once

#include <cstddef>
#include <string>

namespace ov {
class Model;
}

namespace incipit::model {

// Name of the input that lists the rows whose queries are wanted.
inline constexpr const char* kQueryRows = "query_rows";

// The output of a layer's queries, f32 [rows, heads x head_size], turned to their positions.
[[nodiscard]] std::string queries_name(std::size_t layer);

// Adds input and outputs to a model with paged attention, before anything else takes the queries.
// Throws what OpenVINO throws.
void add_query_outputs(ov::Model& model);

}  // namespace incipit::model
