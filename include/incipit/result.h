// SPDX-License-Identifier: Apache-2.0
//
// How this library reports failure: a value or an Error, never an exception.
//
// An Error carries one of seven codes, each of which tells the caller what to do, and a message
// written for the person who runs the program: it names the place (file, line, key, flag) and
// the way out. INCIPIT_TRY hands an error up unchanged.
#pragma once

#include <expected>
#include <string>
#include <utility>

namespace incipit {

enum class ErrorCode {
  kInvalidArgument,    // The request or file is wrong: correct it, a retry cannot help.
  kResourceExhausted,  // No memory, cells, disk or queue space: retry later or ask for less.
  kDeadlineExceeded,   // It took too long: retry with more time.
  kCancelled,          // The caller gave up: nothing to do, finished work is kept.
  kUnavailable,        // Not now (loading, shutting down, not supported here): retry elsewhere.
  kCorruption,         // Bytes on disk are damaged: replace the file that the message names.
  kInternal,           // The model or a library failed: report it with the message.
};

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
};

template <typename T>
using Result = std::expected<T, Error>;

// The failed side of any Result: `return failure(ErrorCode::kInvalidArgument, "...")`.
[[nodiscard]] inline std::unexpected<Error> failure(ErrorCode code, std::string message) {
  return std::unexpected<Error>(Error{code, std::move(message)});
}

}  // namespace incipit

#define INCIPIT_CONCAT_INNER(a, b) a##b
#define INCIPIT_CONCAT(a, b) INCIPIT_CONCAT_INNER(a, b)
#define INCIPIT_TRY_INNER(temporary, target, expression)                                \
  auto temporary = (expression);                                                        \
  if (!temporary) return std::unexpected<incipit::Error>(std::move(temporary).error()); \
  target = std::move(*temporary)

// `INCIPIT_TRY(auto tokens, tokenizer.encode(text));` binds the value or returns the error.
#define INCIPIT_TRY(target, expression) \
  INCIPIT_TRY_INNER(INCIPIT_CONCAT(incipit_try_, __COUNTER__), target, expression)

// The same for a Result<void>: `INCIPIT_TRY_VOID(runtime.truncate(id, 5));`
#define INCIPIT_TRY_VOID_INNER(temporary, expression) \
  if (auto temporary = (expression); !temporary)      \
  return std::unexpected<incipit::Error>(std::move(temporary).error())
#define INCIPIT_TRY_VOID(expression) \
  INCIPIT_TRY_VOID_INNER(INCIPIT_CONCAT(incipit_try_, __COUNTER__), expression)
