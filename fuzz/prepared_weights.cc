// SPDX-License-Identifier: Apache-2.0
//
// The kept weights of a model: a damaged file is made again, and never computed with.
#include "model/prepared_weights.h"

#include <algorithm>

#include "base/file.h"
#include "fuzz_target.h"
#include "model/gguf_file.h"
#include "model/model_shape.h"
#include "support/must.h"
#include "support/temp_dir.h"
#include "support/tiny_model.h"

namespace incipit::fuzz {
namespace {

using test::must;

struct Prepared {
  test::TempDir dir;
  std::string path = dir.path("weights");
  std::unique_ptr<model::GgufFile> gguf;
  model::ModelShape shape;
  std::string good;

  Prepared() {
    const auto file = test::tiny_model({.layers = 1, .width = 32, .heads = 1, .inner_width = 32});
    gguf = must(model::GgufFile::open(dir.file("model.gguf", file.bytes())));
    shape = must(model::read_model_shape(*gguf));
    must(open());
    good = dir.read("weights");
  }
  Result<std::unique_ptr<model::PreparedWeights>> open() const {
    return model::PreparedWeights::open(*gguf, shape, path, 1, {});
  }
};

const Prepared& prepared() {
  static const Prepared one;
  return one;
}

}  // namespace

std::vector<std::string> seeds() { return {prepared().good}; }

std::vector<std::string> words() { return {prepared().good.substr(0, 64), std::string(32, '\0')}; }

void open_over(std::string_view bytes) {
  static_cast<void>(prepared().dir.file("weights", std::string(bytes)));
  accepted += bytes == prepared().good ? 1 : 0;
  const auto weights = prepared().open();
  expect(weights.has_value(), "a damaged file was not made again");
  expect(prepared().dir.read("weights") == prepared().good, "other weights were taken");
}

}  // namespace incipit::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  incipit::fuzz::open_over(incipit::fuzz::text_of(data, size));
  return 0;
}
