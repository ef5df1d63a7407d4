// SPDX-License-Identifier: Apache-2.0
//
// The vocabulary against which grammars are read.
#pragma once

#include <memory>

#include "model/tokenizer.h"
#include "support/must.h"
#include "support/vocabulary_file.h"

namespace incipit::fuzz {

inline const model::Tokenizer& vocabulary() {
  static const auto tokenizer =
      test::must(model::Tokenizer::open(test::sentencepiece_file("fuzz")));
  return *tokenizer;
}

}  // namespace incipit::fuzz
