// SPDX-License-Identifier: Apache-2.0
//
// A grammar in GBNF: what the check lets pass can be used, in bounded time.
#include "model/grammar.h"

#include "fuzz_target.h"
#include "vocabulary.h"

namespace incipit::fuzz {

std::vector<std::string> seeds() {
  return {"root ::= \"a\" b* | [^x-z\\n]{2,3} # comment\nb ::= (\"c\" | .) root?\n",
          "root ::= <[5]> !<[6]> \"\\u00e9\\x41\"+\n", "root ::= a\na ::= \"x\" a | \"\"\n"};
}

std::vector<std::string> words() {
  return {"::=", "root", "(",  ")",   "*",           "+",  "?",  "{1,", "{0,1999}", "|", "[",
          "]",   "[^",   "\"", "\\x", "\\U0010FFFF", "<[", "]>", "!",   "\n",       ".", "#"};
}

}  // namespace incipit::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace incipit;
  const auto grammar = model::Grammar::create(fuzz::vocabulary(), fuzz::text_of(data, size));
  if (!grammar) {
    fuzz::expect(grammar.error().code == ErrorCode::kInvalidArgument, "another kind of error");
    return 0;
  }
  ++fuzz::accepted;
  for (int step = 0; step < 3; ++step) {
    for (Token token = 0; token < 400; ++token) {
      if (!(*grammar)->allows(token)) continue;
      (*grammar)->accept(token);
      break;
    }
    static_cast<void>((*grammar)->end());
  }
  return 0;
}
