// SPDX-License-Identifier: Apache-2.0
//
// What every runtime refuses of a pass before it begins.
// Pure functions.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "incipit/result.h"
#include "model/runtime.h"

namespace incipit::model {

// `length_of` gives a sequence's length. Errors: kInvalidArgument, as Runtime::evaluate().
Result<void> check_steps(std::span<const Step> steps, const Limits& limits,
                         const std::function<std::size_t(SequenceId)>& length_of);

// What a runtime without room says.
[[nodiscard]] std::unexpected<Error> no_free_cells();

}  // namespace incipit::model
