// SPDX-License-Identifier: Apache-2.0
//
// What libllama needs before its first call. Its log sink and tables are global to the process.
// Thread-safe.
#pragma once

#include <string>

namespace incipit::model {

// Silences its log, since the library never prints, and fills its tables; once.
void prepare_libllama();

// Such as "llama.cpp 0.4.0".
[[nodiscard]] std::string libllama_version();

}  // namespace incipit::model
