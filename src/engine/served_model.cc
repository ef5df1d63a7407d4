// SPDX-License-Identifier: Apache-2.0
#include "engine/served_model.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "policy/attention_check.h"
#include "store/fingerprint_parts.h"

namespace incipit::engine {
namespace {

std::int64_t steady_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Result<void> check_attention(const KvOptions& kv, const model::Limits& limits) {
  if (!kv.attention_check) return {};
  std::string wrong;
  if (limits.attention_layers == 0)
    wrong = "the model does not show its attention; open it with EngineOptions::shows_attention";
  else if (!limits.exact)
    wrong = "a hit computed again would differ in any case, since results are approximate here: " +
            limits.approximate_reason;
  else
    wrong =
        policy::wrong_with(*kv.attention_check, limits.attention_layers, limits.attention_heads);
  if (wrong.empty()) return {};
  return failure(ErrorCode::kInvalidArgument, "kv.attention_check: " + wrong);
}

}  // namespace

Result<std::shared_ptr<ServedModel>> ServedModel::open(LoadedModel& loaded,
                                                       const GeneratorOptions& options) {
  if (options.jobs_max == 0 || options.queue_max == 0 || options.pass_tokens == 0)
    return failure(ErrorCode::kInvalidArgument,
                   "jobs_max, queue_max and pass_tokens must be at least 1");
  if (options.kv.protected_share < 0 || options.kv.protected_share > 1)
    return failure(ErrorCode::kInvalidArgument, "kv.protected_share must lie between 0 and 1");
  INCIPIT_TRY_VOID(check_attention(options.kv, loaded.runtime->limits()));
  loaded.is_unserved.acquire();
  Turn turn(&loaded.is_unserved);
  std::unique_ptr<store::StateFolder> folder;
  if (!options.kv.folder.empty()) {
    INCIPIT_TRY(folder, store::StateFolder::open(
                            {.path = options.kv.folder,
                             .fingerprint = loaded.runtime->fingerprint(),
                             .parts = store::parts_text(loaded.runtime->fingerprint_parts()),
                             .bytes_max = options.kv.folder_bytes,
                             .on_event = options.on_event}));
  }
  using Made = std::shared_ptr<ServedModel>;
  return Made(new ServedModel(loaded, options, std::move(turn), std::move(folder)));
}

ServedModel::ServedModel(LoadedModel& loaded, const GeneratorOptions& options, Turn turn,
                         std::unique_ptr<store::StateFolder> folder)
    : loaded_(loaded),
      options_(options),
      turn_(std::move(turn)),
      folder_(std::move(folder)),
      cache_(*loaded.runtime, folder_.get(), options.kv, steady_ms),
      fragments_(options.kv.passage_bytes),
      scheduler_(*loaded.runtime, cache_,
                 {.jobs_max = options.jobs_max,
                  .rows_max = options.pass_tokens,
                  .rows_max_alone = std::max<std::size_t>(options.pass_tokens, 1024),
                  .drafts = options.drafts,
                  .attention_check = options.kv.attention_check},
                 options.queue_max, &fragments_) {}

bool ServedModel::has(const GeneratorOptions& options) const {
  return options.kv == options_.kv && options.queue_max == options_.queue_max &&
         options.jobs_max == options_.jobs_max && options.pass_tokens == options_.pass_tokens &&
         options.drafts == options_.drafts;
}

}  // namespace incipit::engine
