// SPDX-License-Identifier: Apache-2.0
#include "decode/stop_strings.h"

#include <algorithm>

#include "base/utf8.h"

namespace incipit::decode {
namespace {

// Bytes at the end of `text` that may become a stop string.
std::size_t undecided(std::string_view text, const std::vector<std::string>& stops) {
  std::size_t longest = 0;
  for (const std::string& stop : stops) {
    const std::size_t most = std::min(stop.size() - 1, text.size());
    for (std::size_t size = most; size > longest; --size) {
      if (text.ends_with(std::string_view(stop).substr(0, size))) longest = size;
    }
  }
  return longest;
}

// Bytes at the end of `text` that begin a character and do not end it.
std::size_t unfinished(std::string_view text) {
  constexpr std::size_t kLongest = 4;
  for (std::size_t size = 1; size < kLongest && size <= text.size(); ++size) {
    const std::string_view end = text.substr(text.size() - size);
    const auto lead = static_cast<unsigned char>(end.front());
    if ((lead & 0xC0U) == 0x80U) continue;
    const std::size_t whole = lead >= 0xF0U ? 4 : lead >= 0xE0U ? 3 : lead >= 0xC0U ? 2 : 1;
    // A bad start is one part of its own however it goes on: it need not wait.
    return size < whole && utf8_step(end).bytes == size ? size : 0;
  }
  return 0;
}

}  // namespace

std::string StopStrings::push(std::string_view bytes) {
  if (is_stopped_) return {};
  held_ += bytes;
  std::size_t first = std::string::npos;
  for (const std::string& stop : stops_) first = std::min(first, held_.find(stop));
  if (first != std::string::npos) {
    is_stopped_ = true;
    held_.resize(first);
    return flush();
  }
  const std::string_view held = held_;
  std::size_t size = held.size() - undecided(held, stops_);
  size -= unfinished(held.substr(0, size));
  return release(size);
}

std::string StopStrings::flush() { return release(held_.size()); }

std::string StopStrings::release(std::size_t size) {
  std::string text = repair_utf8(std::string_view(held_).substr(0, size), nullptr);
  held_.erase(0, size);
  return text;
}

}  // namespace incipit::decode
