// SPDX-License-Identifier: Apache-2.0
//
// Whether this is a sanitizer build, whose own memory grows with what the program touches: there
// a bound on the process's memory says nothing.
#pragma once

namespace incipit::test {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

}  // namespace incipit::test
