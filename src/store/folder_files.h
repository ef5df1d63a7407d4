// SPDX-License-Identifier: Apache-2.0
//
// The files of a folder of KV states as they lie there, the least lately used first.
//
// When a state was used last is said by the file kOrderName where it knows it, else by the state
// itself. Times of files decide only between those of which neither tells.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "incipit/result.h"
#include "store/state_file.h"

namespace incipit::store {

enum class FileKind {
  kState,     // NAME.safetensors.
  kBad,       // Set aside.
  kLeftover,  // Of a process that died over it.
};

struct FoundFile {
  FileKind kind{};
  std::string path;
  std::string name;
  std::uint64_t bytes = 0;
  std::uint64_t use = 0;       // 0: not known.
  Result<StateFacts> facts{};  // Of a state.
};

inline constexpr std::string_view kStateEnding = ".safetensors";
inline constexpr std::string_view kBadEnding = ".bad";  // Behind the other.

// Only files of names that this folder gives: an id and an ending. Others are somebody else's.
// `and_other_states`: every *.safetensors, too.
// Errors: kUnavailable if the folder cannot be read.
Result<std::vector<FoundFile>> folder_files(const std::string& folder, bool and_other_states);

// The text of the file kOrderName: a line for each file.
[[nodiscard]] std::string order_line(std::uint64_t use, std::string_view name);

}  // namespace incipit::store
