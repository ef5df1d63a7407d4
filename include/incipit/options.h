// SPDX-License-Identifier: Apache-2.0
//
// What an Engine is opened with. Every field has a default that is right for most users.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "incipit/types.h"

namespace incipit {

struct EngineOptions {
  std::string model;  // Path of a GGUF file.
  std::string home;   // Cache directory; empty: $INCIPIT_HOME, else the XDG cache folder.
  RuntimeKind runtime = RuntimeKind::kAuto;
  Precision precision = Precision::kAuto;  // kAuto alone with libllama: it takes the file's.
  KvType kv_type = KvType::kAuto;
  std::size_t ctx_size = 4096;  // KV cells in all, shared by every sequence.
  std::size_t threads = 0;      // 0: one per core that this process may use.
  // Compiles the model so that a generator can use KvOptions::attention_check, or fit one. Changes
  // no result. OpenVINO only.
  bool shows_attention = false;

  // Receives notices written for an operator ("prepared the model in 4.1 s"). The library itself
  // never prints. Called on the thread that called into the library.
  std::function<void(const std::string&)> on_event;
};

}  // namespace incipit
