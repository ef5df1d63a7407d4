// SPDX-License-Identifier: Apache-2.0
//
// A decoder model's graph from its shape and weights, with paged attention.
//
// Built the way OpenVINO's own pass expects a stateful model (keys and values behind ReadValue and
// Assign, scaled dot-product attention with an explicit mask), then turned by that pass into one
// with block tables as inputs. Around each paged attention rows are gathered, so that it can see a
// row twice (docs/adr/0014). Last, the rows whose logits are wanted are gathered before the last
// layer's feed-forward part: no other row needs it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "incipit/result.h"
#include "model/model_shape.h"
#include "model/prepared_weights.h"

namespace ov {
class Model;
}

namespace incipit::model {

// Counts the changes of the graph after which the law has to be proved again.
inline constexpr std::uint64_t kGraphRevision = 2;

// Name of the input that lists the rows whose logits are wanted.
inline constexpr const char* kLogitsRows = "logits_rows";
// The rows that attention takes, and which of its results belong to the rows of the pass.
inline constexpr const char* kAttentionRows = "attention_rows";
inline constexpr const char* kOwnRows = "own_rows";

// The output of a layer's queries in the wanted rows, f32 [rows, heads x head_size], turned to
// their positions.
[[nodiscard]] std::string queries_name(std::size_t layer);

struct GraphOptions {
  bool shows_queries = false;  // What attention looks for: the outputs queries_name().
  bool even_channels = false;  // Cells have channels of one width: model/channel_scales.h.
};

// The constants of the graph point into `weights`, which must live until the graph is compiled and
// as long as it runs. Errors: kInternal with OpenVINO's reason.
Result<std::shared_ptr<ov::Model>> build_graph(const ModelShape& shape,
                                               const PreparedWeights& weights,
                                               const GraphOptions& options = {});

}  // namespace incipit::model
