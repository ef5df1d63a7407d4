// SPDX-License-Identifier: Apache-2.0
//
// What every command's exit code means; scripts rely on it.
#pragma once

#include "incipit/result.h"

namespace incipit::app {

enum ExitCode : int {
  kExitDone = 0,
  kExitRowErrors = 1,      // Done, but some rows have errors (or went to review, if asked).
  kExitUsage = 2,          // Flags, task file, input file.
  kExitFailed = 3,         // Model, memory, disk, closed pipe.
  kExitMismatch = 4,       // --verify or doctor found a difference.
  kExitInterrupted = 130,  // Ctrl-C; what is written is complete.
};

[[nodiscard]] constexpr ExitCode exit_code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return kExitUsage;
    case ErrorCode::kCancelled:
      return kExitInterrupted;
    case ErrorCode::kResourceExhausted:
    case ErrorCode::kDeadlineExceeded:
    case ErrorCode::kUnavailable:
    case ErrorCode::kCorruption:
    case ErrorCode::kInternal:
      break;
  }
  return kExitFailed;
}

}  // namespace incipit::app
