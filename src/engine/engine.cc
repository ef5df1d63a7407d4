// SPDX-License-Identifier: Apache-2.0
#include "incipit/engine.h"

#include <utility>

#include "engine/classifier_impl.h"
#include "engine/generator_impl.h"
#include "engine/loaded_model.h"

namespace incipit {
namespace {

class EngineImpl final : public Engine {
 public:
  explicit EngineImpl(std::unique_ptr<engine::LoadedModel> loaded) : loaded_(std::move(loaded)) {}

  Result<std::unique_ptr<Classifier>> classifier(Task task, ClassifierOptions options) override {
    return engine::ClassifierImpl::create(*loaded_, std::move(task), options);
  }

  Result<std::unique_ptr<Generator>> generator(const GeneratorOptions& options) override {
    return engine::GeneratorImpl::create(*loaded_, options);
  }

 private:
  std::unique_ptr<engine::LoadedModel> loaded_;
};

}  // namespace

Result<std::unique_ptr<Engine>> Engine::open(EngineOptions options) {
  INCIPIT_TRY(auto loaded, engine::load_model(options));
  return std::make_unique<EngineImpl>(std::move(loaded));
}

}  // namespace incipit
