// SPDX-License-Identifier: Apache-2.0
//
// "bf16", "f32", "int8": as flags, reports and state files spell them.
#pragma once

#include <string>

#include "incipit/types.h"

namespace incipit::model {

[[nodiscard]] inline std::string name_of(Precision precision) {
  switch (precision) {
    case Precision::kAuto:
      return "auto";
    case Precision::kBf16:
      return "bf16";
    case Precision::kF32:
      return "f32";
  }
  return "";
}

[[nodiscard]] inline std::string name_of(KvType kv_type) {
  switch (kv_type) {
    case KvType::kAuto:
      return "auto";
    case KvType::kBf16:
      return "bf16";
    case KvType::kF32:
      return "f32";
    case KvType::kInt8:
      return "int8";
  }
  return "";
}

}  // namespace incipit::model
