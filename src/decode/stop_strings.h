// SPDX-License-Identifier: Apache-2.0
//
// Text out of token pieces: whole characters only, and nothing from a stop string on.
//
// A piece may end inside a UTF-8 character or inside what may become a stop string; both are held
// back until it is known. Bytes that are no UTF-8 come out as U+FFFD, as in base/utf8.h.
// Confined to one thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace incipit::decode {

class StopStrings {
 public:
  // Requires: none is empty.
  explicit StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // Takes the next bytes; returns the text that is certain by now.
  std::string push(std::string_view bytes);
  // The text that was held back. Nothing comes after it.
  std::string flush();
  [[nodiscard]] bool is_stopped() const { return is_stopped_; }

 private:
  std::string release(std::size_t size);

  std::vector<std::string> stops_;
  std::string held_;
  bool is_stopped_ = false;
};

}  // namespace incipit::decode
