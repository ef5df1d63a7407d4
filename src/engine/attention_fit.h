// SPDX-License-Identifier: Apache-2.0
//
// Fits an attention check: runs prompts on their own cells and on others', and sees which heads
// tell the difference.
#pragma once

#include <span>

#include "incipit/attention_check.h"
#include "incipit/result.h"
#include "kv/prefix_cache.h"
#include "model/runtime.h"

namespace incipit::engine {

// Errors: as Generator::fit_attention_check(). Makes room in the cache, and leaves nothing behind.
// On the model's thread.
Result<AttentionFit> fit_attention(model::Runtime& runtime, kv::PrefixCache& cache,
                                   std::span<const AttentionTrial> trials,
                                   const AttentionFitOptions& options);

}  // namespace incipit::engine
