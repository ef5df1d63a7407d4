// SPDX-License-Identifier: Apache-2.0
//
// The data path of generation:
//
//     turns --ChatTemplate, PromptText--> tokens --Scheduler--> logits --TokenSampler--> tokens
//           --StopStrings--> text
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "engine/loaded_model.h"
#include "engine/scheduler.h"
#include "incipit/generator.h"
#include "kv/fragment_cache.h"
#include "kv/prefix_cache.h"
#include "prompt/prompt_text.h"
#include "prompt/special_text.h"
#include "store/state_folder.h"

namespace incipit::engine {

class GeneratorImpl final : public Generator {
 public:
  // `loaded` must outlive the generator, and belongs to it as long as it lives.
  static Result<std::unique_ptr<GeneratorImpl>> create(LoadedModel& loaded,
                                                       const GeneratorOptions& options);

  Result<Generated> generate(const GenerateRequest& request) override;
  Result<ContinuationScores> score(const ScoreRequest& request) override;
  Result<TextScore> score_text(const TextScoreRequest& request) override;
  Result<TokenVector> plain_tokens(std::string_view text) override {
    return loaded_.tokenizer->encode_plain(text);
  }
  Result<TokenVector> tokens(const PromptRequest& request) override;
  [[nodiscard]] std::string text(TokenSpan tokens) const override;
  Result<KvLookup> explain(const PromptRequest& request) override;
  std::vector<KvEntry> entries() override;
  std::size_t drop(std::string_view tenant, TokenSpan tokens) override;
  Result<KvSaved> save(const PromptRequest& request, const std::string& path) override;
  Result<std::size_t> restore(const std::string& path) override;
  Result<AttentionFit> fit_attention_check(std::span<const AttentionTrial> trials,
                                           const AttentionFitOptions& options) override;
  void spill() override;
  GeneratorCounters counters() override;
  [[nodiscard]] std::size_t cells() const override { return cells_; }
  [[nodiscard]] std::size_t cell_bytes() const override { return cell_bytes_; }
  [[nodiscard]] bool exact() const override { return exact_; }

 private:
  GeneratorImpl(LoadedModel& loaded, std::unique_ptr<store::StateFolder> folder,
                const GeneratorOptions& options);
  Job job_of(const PromptRequest& request, TokenVector tokens) const;

  LoadedModel& loaded_;
  std::size_t cells_;
  std::size_t cell_bytes_;
  bool exact_;
  prompt::SpecialText special_;
  prompt::PromptText prompt_text_;
  std::mutex template_mutex_;                   // The Jinja engine takes one thread at a time.
  std::unique_ptr<store::StateFolder> folder_;  // Null where there is none.
  kv::PrefixCache cache_;
  kv::FragmentCache fragments_;
  Scheduler scheduler_;  // Last: its thread uses the others.
};

}  // namespace incipit::engine
