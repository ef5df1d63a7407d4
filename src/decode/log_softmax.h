// SPDX-License-Identifier: Apache-2.0
//
// The denominator of a softmax over the whole vocabulary, in double from raw float logits.
//
// Labels are compared by differences of a few nats and printed with six digits, and a score must
// be a function of the row alone: so the sum runs in eight lanes of double, in one fixed order,
// without fused multiplications, and has the same bits on every x86-64 instruction level. A
// row of 152,000 logits takes 0.16 ms with AVX-512 (1.2 ms without any AVX).
// Thread-safe.
#pragma once

#include <span>

namespace incipit::decode {

// log(sum(exp(logits))) to 1e-11; the log probability of token t is logits[t] less this.
// NaN if any logit is not a finite number, or if there is none.
[[nodiscard]] double log_sum_exp(std::span<const float> logits);

// The same bits from baseline instructions: what a CPU without AVX runs.
[[nodiscard]] double log_sum_exp_baseline(std::span<const float> logits);

}  // namespace incipit::decode
