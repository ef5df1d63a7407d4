// SPDX-License-Identifier: Apache-2.0
#include "incipit/html_text.h"

#include <array>
#include <charconv>
#include <cmath>

namespace incipit::app {

std::string escape_html(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default: {
        const auto byte = static_cast<unsigned char>(c);
        const bool is_control = (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f;
        escaped += is_control ? std::string("&#xFFFD;") : std::string(1, c);
      }
    }
  }
  return escaped;
}

std::string fixed_number(double value, int decimals) {
  // Enough for every double that a benchmark can measure; 1e300 is as good as not finite here.
  std::array<char, 64> digits{};
  const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), value,
                                     std::chars_format::fixed, decimals);
  if (!std::isfinite(value) || written.ec != std::errc()) return "n/a";
  return {digits.data(), written.ptr};
}

std::string grouped_number(std::size_t value) {
  std::string digits = std::to_string(value);
  for (std::size_t end = digits.size(); end > 3; end -= 3) digits.insert(end - 3, ",");
  return digits;
}

}  // namespace incipit::app
