// SPDX-License-Identifier: Apache-2.0
#include "incipit/kv.h"

namespace incipit {

std::string to_string(KvMiss miss) {
  switch (miss) {
    case KvMiss::kNone:
      return "all cached";
    case KvMiss::kNeverCached:
      return "never cached";
    case KvMiss::kEvicted:
      return "evicted";
    case KvMiss::kExpired:
      return "expired";
    case KvMiss::kDropped:
      return "dropped";
    case KvMiss::kOtherTenant:
      return "other tenant";
    case KvMiss::kTooShort:
      return "too short";
    case KvMiss::kLost:
      return "lost or damaged";
    case KvMiss::kNoRoom:
      return "no free cells";
    case KvMiss::kSlower:
      return "computing is faster";
    case KvMiss::kSuspect:
      return "suspect";
  }
  return "unknown";
}

}  // namespace incipit
