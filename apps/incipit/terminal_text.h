// SPDX-License-Identifier: Apache-2.0
//
// Text from outside (tickets, model files, names) on its way to a terminal.
//
// A terminal obeys control characters, so whoever writes a ticket or a model file could move the
// cursor, recolour the screen or hide a line. What a terminal would obey, and bytes that are not
// UTF-8, are shown as escapes. Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace incipit::app {

// The text with escapes for control characters, text direction marks and bad bytes; line ends
// stay where `lines` is kKept.
enum class LineEnds { kKept, kEscaped };
[[nodiscard]] std::string printable(std::string_view text, LineEnds lines);

// The same on one line and in quotes; a quote or backslash of the text is escaped.
[[nodiscard]] std::string in_quotes(std::string_view text);

// Characters of a text that is printable: the columns that it takes in scripts without wide signs.
[[nodiscard]] std::size_t width_of(std::string_view text);

// `text` with blanks behind it up to `width` characters.
[[nodiscard]] std::string padded(std::string_view text, std::size_t width);

// Help for people: lines of at most `width` characters where words allow it. What is broken goes on
// under the start of its last column (a column begins behind two blanks), and several empty lines
// become one.
[[nodiscard]] std::string wrapped(std::string_view text, std::size_t width);

}  // namespace incipit::app
