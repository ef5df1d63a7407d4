// SPDX-License-Identifier: Apache-2.0
//
// Takes a Result's value; a failure throws, which ends the test with the message.
#pragma once

#include <stdexcept>
#include <utility>

#include "incipit/result.h"

namespace incipit::test {

template <typename T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

inline void must(const Result<void>& result) {
  if (!result) throw std::runtime_error(result.error().message);
}

}  // namespace incipit::test
