// SPDX-License-Identifier: Apache-2.0
//
// The data path of generation:
//
//     turns --ChatTemplate, PromptText--> tokens --Scheduler--> logits --TokenSampler--> tokens
//           --StopStrings--> text
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/served_model.h"
#include "incipit/generator.h"
#include "prompt/prompt_text.h"
#include "prompt/special_text.h"

namespace incipit::engine {

class GeneratorImpl final : public Generator {
 public:
  explicit GeneratorImpl(std::shared_ptr<ServedModel> served);

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
  Job job_of(const PromptRequest& request, TokenVector tokens) const;

  std::shared_ptr<ServedModel> served_;
  LoadedModel& loaded_;  // Of served_, like the next.
  Scheduler& scheduler_;
  std::size_t cells_;
  std::size_t cell_bytes_;
  bool exact_;
  prompt::SpecialText special_;
  prompt::PromptText prompt_text_;
};

}  // namespace incipit::engine
