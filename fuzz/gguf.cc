// SPDX-License-Identifier: Apache-2.0
//
// A model file: every length, type and offset of its header is a stranger's.
#include "fuzz_target.h"
#include "model/gguf_file.h"
#include "model/model_shape.h"
#include "support/tiny_model.h"

namespace incipit::fuzz {

std::vector<std::string> seeds() {
  test::GgufWriter small;
  small.text("general.architecture", "llama");
  small.number("general.alignment", 32);
  small.texts("tokens", std::vector<std::string>{"a", "b"});
  const std::uint64_t extent[] = {8};
  small.tensor("x.weight", 0, extent, std::string(32, 'x'));
  return {small.bytes(),
          test::tiny_model({.layers = 1, .width = 32, .heads = 1, .inner_width = 32}).bytes()};
}

std::vector<std::string> words() {
  return {"GGUF",
          "llama.block_count",
          "general.alignment",
          std::string("\x09\0\0\0\x08\0\0\0", 8),
          std::string("\0\0\0\0\0\0\0\x80", 8),
          std::string("\x01\0\0\0\0\0\0\0", 8)};
}

}  // namespace incipit::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace incipit;
  const fuzz::MemoryFile file(fuzz::text_of(data, size));
  const auto gguf = model::GgufFile::open(file.path());
  if (!gguf) {
    fuzz::expect(!gguf.error().message.empty(), "an error says nothing");
    return 0;
  }
  ++fuzz::accepted;
  unsigned sum = 0;  // Every byte of every tensor can be read.
  for (const auto& [name, tensor] : (*gguf)->tensors())
    for (const std::byte each : tensor.data) sum += std::to_integer<unsigned>(each);
  const auto shape = model::read_model_shape(**gguf);
  fuzz::expect(shape || !shape.error().message.empty() || sum == 1, "a refusal says nothing");
  return 0;
}
