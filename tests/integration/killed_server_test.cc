// SPDX-License-Identifier: Apache-2.0
//
// A process that serves a real model is killed while it writes states.
#include "support/killed_server.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "incipit/engine.h"
#include "support/installed_models.h"

namespace incipit {
namespace {

using test::must;

TEST(KilledServerOnModel, LeavesWholeFilesAndRightAnswers) {
  const auto before = std::chrono::steady_clock::now();
  const auto engine = must(Engine::open({.model = test::smollm_path(), .ctx_size = 512}));
  const auto start = std::chrono::steady_clock::now() - before;
  GeneratorOptions options;
  options.kv.memory_bytes = std::size_t{16} << 20U;
  options.kv.break_even = false;
  options.kv.folder_bytes = std::size_t{64} << 20U;
  test::KilledServer({.test = "KilledServerOnModel.LeavesWholeFilesAndRightAnswers",
                      .rounds = 6,
                      .prefix_tokens = 100,
                      .answer_tokens = 2,
                      .start = std::chrono::duration_cast<std::chrono::milliseconds>(start),
                      .open =
                          [&](const std::string& folder, auto on_event) {
                            options.kv.folder = folder;
                            options.on_event = std::move(on_event);
                            return must(engine->generator(options));
                          }})
      .run();
}

}  // namespace
}  // namespace incipit
