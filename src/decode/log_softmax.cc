// SPDX-License-Identifier: Apache-2.0

// A fused multiply-add rounds once where two instructions round twice: with it the bits would
// depend on the instruction level. It must stand before the includes.
#pragma GCC optimize("fp-contract=off")

#include "decode/log_softmax.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace incipit::decode {
namespace {

constexpr std::size_t kLanes = 8;
// Vectors of the compiler: it makes two or four instructions of one where registers are shorter.
using Doubles = double __attribute__((vector_size(kLanes * sizeof(double))));
using Integers = std::int64_t __attribute__((vector_size(kLanes * sizeof(std::int64_t))));
using Floats = float __attribute__((vector_size(kLanes * sizeof(float))));

constexpr double kLog2E = 0x1.71547652b82fep+0;
// ln 2 in two parts; the high one has so few bits that its product with an exponent is exact.
constexpr double kLn2High = 0x1.62e42fee00000p-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
// Adding 1.5 * 2^52 rounds to an integer, which then lies in the low bits of the mantissa.
constexpr double kRound = 0x1.8p52;
constexpr std::int64_t kExponentBias = 1023;
constexpr int kMantissaBits = 52;
// exp(-700) is far below the last bit of any sum that holds exp(0).
constexpr double kLeast = -700;
// Of degree 9: the Taylor remainder of exp on +-(ln 2)/2 is 7e-12.
constexpr double kCoefficients[] = {1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24,
                                    1.0 / 6,     1.0 / 2,    1.0,       1.0};

#define INCIPIT_INLINE inline __attribute__((always_inline))

// By reference: the convention for returning a vector depends on the instruction level.
INCIPIT_INLINE void load(const float* from, Floats& values) {
  std::memcpy(&values, from, sizeof values);
}

// Adds exp(logit - top) of eight logits to `sum`, lane by lane. A NaN stays one.
INCIPIT_INLINE void add_exponentials(const float* logits, double top, Doubles& sum) {
  Floats values;
  load(logits, values);
  Doubles t = __builtin_convertvector(values, Doubles) - top;
  t = t < kLeast ? Doubles{} + kLeast : t;
  const Doubles shifted = t * kLog2E + kRound;
  const Doubles whole = shifted - kRound;
  const Doubles rest = (t - whole * kLn2High) - whole * kLn2Low;
  Doubles power = Doubles{} + 1.0 / 362880;
  for (const double coefficient : kCoefficients) power = power * rest + coefficient;
  // The bits of `shifted` less those of kRound are the integer; moved up they are an exponent.
  Integers bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits + kExponentBias) << kMantissaBits;
  Doubles scale;
  std::memcpy(&scale, &bits, sizeof scale);
  sum += power * scale;
}

struct Range {
  float least;
  float top;
};

INCIPIT_INLINE Range range_of(const float* logits, std::size_t count) {
  Floats least = Floats{} + logits[0];
  Floats top = least;
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Floats values;
    load(logits + i, values);
    least = values < least ? values : least;
    top = values > top ? values : top;
  }
  Range range{.least = least[0], .top = top[0]};
  for (std::size_t lane = 1; lane < kLanes; ++lane) {
    range.least = std::min(range.least, least[lane]);
    range.top = std::max(range.top, top[lane]);
  }
  for (; i < count; ++i) {
    range.least = std::min(range.least, logits[i]);
    range.top = std::max(range.top, logits[i]);
  }
  return range;
}

INCIPIT_INLINE double log_sum_exp_inline(const float* logits, std::size_t count) {
  constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();
  if (count == 0) return kNotANumber;
  const Range range = range_of(logits, count);
  if (!std::isfinite(range.least) || !std::isfinite(range.top)) return kNotANumber;
  // Two sums, so that one addition need not wait for the other.
  Doubles even{};
  Doubles odd{};
  std::size_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    add_exponentials(logits + i, range.top, even);
    add_exponentials(logits + i + kLanes, range.top, odd);
  }
  if (i < count) {
    // The last logits stand among -FLT_MAX, whose exponentials vanish.
    float last[2 * kLanes];
    std::fill_n(last, 2 * kLanes, std::numeric_limits<float>::lowest());
    std::copy(logits + i, logits + count, last);
    add_exponentials(last, range.top, even);
    add_exponentials(last + kLanes, range.top, odd);
  }
  even += odd;
  double sum = 0;
  for (std::size_t lane = 0; lane < kLanes; ++lane) sum += even[lane];
  return range.top + std::log(sum);
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) double log_sum_exp_avx512(const float* logits,
                                                             std::size_t count) {
  return log_sum_exp_inline(logits, count);
}
__attribute__((target("avx2"))) double log_sum_exp_avx2(const float* logits, std::size_t count) {
  return log_sum_exp_inline(logits, count);
}
#endif

double log_sum_exp_any(const float* logits, std::size_t count) {
  return log_sum_exp_inline(logits, count);
}

using Kernel = double (*)(const float*, std::size_t);

Kernel best_kernel() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return log_sum_exp_avx512;
  if (__builtin_cpu_supports("avx2")) return log_sum_exp_avx2;
#endif
  return log_sum_exp_any;
}

}  // namespace

double log_sum_exp(std::span<const float> logits) {
  static const Kernel kernel = best_kernel();
  return kernel(logits.data(), logits.size());
}

double log_sum_exp_baseline(std::span<const float> logits) {
  return log_sum_exp_any(logits.data(), logits.size());
}

}  // namespace incipit::decode
