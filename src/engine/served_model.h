// SPDX-License-Identifier: Apache-2.0
//
// A loaded model at work: its caches, and the one thread on which it runs. All classifiers and
// generators of an engine share one, so that their texts and prompts meet in common passes and
// find each other's openings.
#pragma once

#include <memory>
#include <semaphore>

#include "engine/loaded_model.h"
#include "engine/scheduler.h"
#include "incipit/generator.h"
#include "kv/fragment_cache.h"
#include "kv/prefix_cache.h"
#include "store/state_folder.h"

namespace incipit::engine {

class ServedModel {
 public:
  // Waits for the end of an earlier one. `loaded` must outlive it.
  // Errors: kInvalidArgument names the option that is wrong; of the folder.
  static Result<std::shared_ptr<ServedModel>> open(LoadedModel& loaded,
                                                   const GeneratorOptions& options);

  [[nodiscard]] LoadedModel& loaded() { return loaded_; }
  [[nodiscard]] Scheduler& scheduler() { return scheduler_; }
  // For the model's thread.
  [[nodiscard]] kv::FragmentCache& fragments() { return fragments_; }
  // All but who receives notices.
  [[nodiscard]] bool has(const GeneratorOptions& options) const;

 private:
  struct Release {
    void operator()(std::binary_semaphore* is_unserved) const { is_unserved->release(); }
  };
  using Turn = std::unique_ptr<std::binary_semaphore, Release>;

  ServedModel(LoadedModel& loaded, const GeneratorOptions& options, Turn turn,
              std::unique_ptr<store::StateFolder> folder);

  LoadedModel& loaded_;
  GeneratorOptions options_;
  Turn turn_;
  std::unique_ptr<store::StateFolder> folder_;  // Null where there is none.
  kv::PrefixCache cache_;
  kv::FragmentCache fragments_;
  Scheduler scheduler_;  // Last: its thread uses the others.
};

}  // namespace incipit::engine
