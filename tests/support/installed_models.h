// SPDX-License-Identifier: Apache-2.0
//
// The models that `./dev` puts into the cache directory. A test that needs one fails without it.
#pragma once

#include <cstdlib>
#include <string>

namespace incipit::test {

inline std::string home() {
  if (const char* set = std::getenv("INCIPIT_HOME")) return set;
  if (const char* cache = std::getenv("XDG_CACHE_HOME")) return std::string(cache) + "/incipit";
  const char* user = std::getenv("HOME");
  return std::string(user != nullptr ? user : ".") + "/.cache/incipit";
}

inline std::string qwen_path() {
  return home() + "/models/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf";
}
inline std::string smollm_path() { return home() + "/models/smollm2-135m-instruct-q4_1.gguf"; }
// No instructions were ever shown to it, so the file has no chat template.
inline std::string gemma_path() { return home() + "/models/gemma-3-270m-q4_k_m.gguf"; }

}  // namespace incipit::test
