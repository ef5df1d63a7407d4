// SPDX-License-Identifier: Apache-2.0
//
// UTF-8 as the Unicode standard defines it (chapter 3.9, table 3-7): no overlong forms, no
// surrogates, nothing above U+10FFFF.
//
// Text from outside is repaired once, at the door: tokenisers and JSON writers may then rely on
// it. A bad run is replaced part by part, where a part is the longest start of a valid character,
// or one byte; this is what browsers do, so the same bytes look the same everywhere.
// Pure functions; one pass, and no copy where `text` is valid.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace incipit {

// What stands at the start of a text: a character, or a bad part that one U+FFFD replaces.
struct Utf8Step {
  std::size_t bytes = 0;  // At least 1 for a text that is not empty.
  bool valid = false;
};

[[nodiscard]] Utf8Step utf8_step(std::string_view text);

[[nodiscard]] bool is_valid_utf8(std::string_view text);

// Returns `text` with U+FFFD for each bad part, and adds the number of parts to `*replaced`,
// which may be null.
[[nodiscard]] std::string repair_utf8(std::string_view text, std::size_t* replaced);

}  // namespace incipit
