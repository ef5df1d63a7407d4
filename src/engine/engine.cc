// SPDX-License-Identifier: Apache-2.0
#include "incipit/engine.h"

#include <memory>
#include <mutex>
#include <utility>

#include "engine/classifier_impl.h"
#include "engine/generator_impl.h"
#include "engine/loaded_model.h"
#include "engine/served_model.h"

namespace incipit {
namespace {

class EngineImpl final : public Engine {
 public:
  explicit EngineImpl(std::unique_ptr<engine::LoadedModel> loaded) : loaded_(std::move(loaded)) {}

  Result<std::unique_ptr<Classifier>> classifier(Task task, ClassifierOptions options) override {
    INCIPIT_TRY(auto served, serve(nullptr));
    return engine::ClassifierImpl::create(std::move(served), std::move(task), std::move(options));
  }

  Result<std::unique_ptr<Generator>> generator(const GeneratorOptions& options) override {
    INCIPIT_TRY(auto served, serve(&options));
    return std::make_unique<engine::GeneratorImpl>(std::move(served));
  }

 private:
  // What others use already, if it is as wanted; null wants nothing.
  Result<std::shared_ptr<engine::ServedModel>> serve(const GeneratorOptions* wanted) {
    const std::scoped_lock lock(mutex_);
    if (auto in_use = served_.lock()) {
      if (wanted == nullptr || in_use->has(*wanted)) return in_use;
      return failure(ErrorCode::kInvalidArgument,
                     "this engine serves others with other generator options; use theirs, or make "
                     "the generator before the classifiers");
    }
    INCIPIT_TRY(auto served, engine::ServedModel::open(
                                 *loaded_, wanted != nullptr ? *wanted : GeneratorOptions{}));
    served_ = served;
    return served;
  }

  std::unique_ptr<engine::LoadedModel> loaded_;
  std::mutex mutex_;
  std::weak_ptr<engine::ServedModel> served_;  // Guarded by mutex_.
};

}  // namespace

Result<std::unique_ptr<Engine>> Engine::open(const EngineOptions& options) {
  INCIPIT_TRY(auto loaded, engine::load_model(options));
  return std::make_unique<EngineImpl>(std::move(loaded));
}

}  // namespace incipit
