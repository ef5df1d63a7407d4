// SPDX-License-Identifier: Apache-2.0
//
// The frame around saved KV cells: libllama would take any bytes behind it, so it must be exact.
#include <algorithm>
#include <span>

#include "fuzz_target.h"
#include "model/cell_state.h"

namespace incipit::fuzz {
namespace {

std::string sealed(std::size_t payload, std::size_t begin, std::size_t end) {
  std::vector<std::byte> framed = model::cells_frame(payload);
  std::size_t next = 0;
  for (std::byte& each : model::cells_payload(framed)) each = static_cast<std::byte>(next++ * 7);
  model::seal_cells(framed, std::string(64, 'a'), begin, end);
  return {reinterpret_cast<const char*>(framed.data()), framed.size()};
}

}  // namespace

std::vector<std::string> seeds() { return {sealed(40, 4, 7), sealed(0, 9, 9), sealed(300, 0, 2)}; }

std::vector<std::string> words() { return {std::string(64, 'a'), std::string(8, '\x01')}; }

}  // namespace incipit::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace incipit;
  const std::span framed(reinterpret_cast<const std::byte*>(data), size);
  const auto state = model::open_cells(framed, std::string(64, 'a'));
  if (!state) return 0;
  ++fuzz::accepted;
  static const std::vector<std::string> good = fuzz::seeds();
  fuzz::expect(state->begin <= state->end, "a range that runs backwards");
  fuzz::expect(std::ranges::find(good, fuzz::text_of(data, size)) != good.end(),
               "a frame was taken that nobody sealed");
  return 0;
}
