// SPDX-License-Identifier: Apache-2.0
//
// Text and numbers as they may stand in an HTML or SVG document.
//
// Whatever comes from outside (a model's name, a command line) passes escape_html(); numbers are
// written without the locale, so that a report reads the same everywhere.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace incipit::app {

// Returns `text` with markup characters as entities and control characters as U+FFFD. The result
// is safe between tags and within quoted attributes. Bytes from 0x80 up pass unchanged: a reader
// of HTML replaces bad UTF-8 without swallowing the character after it.
std::string escape_html(std::string_view text);

// Returns `value` with `decimals` digits after the point, and "n/a" if it is not finite.
std::string fixed_number(double value, int decimals);

// Returns a whole number with commas between the thousands: "2,000".
std::string grouped_number(std::size_t value);

}  // namespace incipit::app
