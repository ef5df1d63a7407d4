// SPDX-License-Identifier: Apache-2.0
//
// A whole serving process, but for the model, is killed while it writes states: ./dev soak makes
// the rounds many.
#include "support/killed_server.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "engine/generator_impl.h"
#include "engine/served_model.h"
#include "support/fake_runtime.h"
#include "support/vocabulary_file.h"

namespace incipit {
namespace {

using test::must;

TEST(KilledServer, LeavesWholeFilesAndRightAnswers) {
  engine::LoadedModel loaded;
  loaded.tokenizer = must(model::Tokenizer::open(test::sentencepiece_file()));
  loaded.runtime = std::make_unique<test::FakeRuntime>(
      test::FakeOptions{.vocabulary = loaded.tokenizer->vocabulary(),
                        .cells = 1200,
                        .block_cells = 4,
                        .padding_bytes = 4096});
  GeneratorOptions options;
  options.kv = {.memory_bytes = 2'000'000, .break_even = false, .folder_bytes = 8'000'000};
  test::KilledServer({.test = "KilledServer.LeavesWholeFilesAndRightAnswers",
                      .rounds = test::kill_rounds(20),
                      .open =
                          [&](const std::string& folder, auto on_event) {
                            options.kv.folder = folder;
                            options.on_event = std::move(on_event);
                            return std::make_unique<engine::GeneratorImpl>(
                                must(engine::ServedModel::open(loaded, options)));
                          }})
      .run();
}

}  // namespace
}  // namespace incipit
