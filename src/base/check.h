// SPDX-License-Identifier: Apache-2.0
//
// Broken invariants stop the program with file, line and text: going on would break a promise.
#pragma once

#include <cstdio>
#include <cstdlib>

// Checked in every build.
#define INCIPIT_CHECK(condition, text)                                                     \
  do {                                                                                     \
    if (!(condition)) {                                                                    \
      std::fprintf(stderr, "%s:%d: broken invariant: %s (%s)\n", __FILE__, __LINE__, text, \
                   #condition);                                                            \
      std::abort();                                                                        \
    }                                                                                      \
  } while (false)
