// SPDX-License-Identifier: Apache-2.0
//
// The pattern of a JSON schema, in the words of llama.cpp's converter.
//
// The converter writes a pattern into the answer as it stands: a dot would let a quote end the
// string. Here dots and negated classes leave out quotes, backslashes and control characters, and
// so a pattern can only match what needs no escape in JSON; \d, \w and \s are written out.
// Pure.
#pragma once

#include <string>
#include <string_view>

#include "incipit/result.h"

namespace incipit::model {

// Errors: kInvalidArgument with the reason alone; the caller knows the place.
[[nodiscard]] Result<std::string> json_safe_pattern(std::string_view pattern);

}  // namespace incipit::model
