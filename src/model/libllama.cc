// SPDX-License-Identifier: Apache-2.0
#include "model/libllama.h"

#include <llama.h>

#include <mutex>

namespace incipit::model {

void prepare_libllama() {
  static std::once_flag once;
  std::call_once(once, [] {
    llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
    llama_backend_init();
  });
}

std::string libllama_version() { return std::string("llama.cpp ") + llama_version(); }

}  // namespace incipit::model
