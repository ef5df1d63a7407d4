// SPDX-License-Identifier: Apache-2.0
//
// Answers and label scores for many callers at once, over one KV prefix cache.
//
//     auto generator = (*engine)->generator({});
//     incipit::GenerateRequest request;
//     request.turns = {{"user", "How do I reset my password?"}};
//     auto answer = (*generator)->generate(request);
//
// Each call pays only for tokens that nobody has computed before. Calls from any number of threads
// share the model's passes. Where exact() is true the text is the same to the last bit, cold or
// cached, alone or in a crowd. What a request asks for beyond that is marked lossy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "incipit/kv.h"
#include "incipit/result.h"
#include "incipit/sampling.h"
#include "incipit/types.h"

namespace incipit {

// One message of a chat.
struct Turn {
  std::string role;  // "system", "user" or "assistant".
  std::string content;
};

// Lossy: passages of a prompt, such as retrieved ones, that come again in another order or behind
// other tokens. All but the first `recompute_tokens` of each take the cells that they had wherever
// they were computed first, moved to their new positions. A passage is found by its tokens.
struct Passages {
  struct Range {
    std::size_t begin = 0;  // Tokens [begin, end) of PromptRequest::tokens.
    std::size_t end = 0;
  };
  std::vector<Range> ranges;  // Ascending and apart; the prompt goes on behind the last.
  std::size_t recompute_tokens = 16;
};

// What to compute, and for whom. Tokens, if given, are used as they are in the place of turns.
struct PromptRequest {
  std::vector<Turn> turns;
  TokenVector tokens;
  Passages passages;           // Opt-in, with `tokens`.
  std::string tenant;          // Nothing cached crosses between tenants.
  bool reads_cache = true;     // False computes every token.
  bool writes_cache = true;    // False leaves nothing behind.
  int priority = 0;            // Higher stays longer in the cache.
  std::int64_t protect_s = 0;  // How long the priority counts; 0: until it is evicted.
  std::int64_t ttl_s = 0;      // Life of what is cached; 0: no end.
};

// Lossy, to go on beyond the context: the model sees the first tokens and the latest ones, at
// constant memory and time (StreamingLLM, arXiv 2309.17453). What lies between is forgotten, an
// eighth of the window at a time. Prompts may be of any length, too.
struct SlidingWindow {
  std::size_t sink_tokens = 4;    // Of the opening, which attention leans on.
  std::size_t recent_tokens = 0;  // 0: as many as the context holds.

  // Tokens that a slide forgets of a full window: several, since INT8 and bf16 keys are rounded
  // each time they move.
  [[nodiscard]] static constexpr std::size_t forgotten_at_once(std::size_t recent) {
    return recent < 8 ? 1 : recent / 8;
  }
};

struct GenerateRequest : PromptRequest {
  std::optional<SlidingWindow> sliding_window;
  std::size_t tokens_max = 256;
  SamplingOptions sampling;
  // Receives the text as it comes, in whole characters, on the model's thread: return soon. False
  // ends the generation.
  std::function<bool(std::string_view)> on_text;
};

enum class FinishReason { kStop, kLength, kCaller };

struct Generated {
  std::string text;
  TokenVector tokens;  // Chosen by the model, the one that ended it included.
  FinishReason finish = FinishReason::kStop;
  bool lossy = false;                   // A window slid, or passages were moved.
  std::string lossy_reason;             // What was forgotten or moved; empty where not lossy.
  std::vector<TokenLogprobs> logprobs;  // Of each token, if asked for.
  KvLookup kv;
  std::size_t tokens_computed = 0;  // Of prompt and answer, by the model.
  double ms_to_first_token = 0;
  double ms = 0;
};

struct ScoreRequest : PromptRequest {
  std::vector<std::string> continuations;  // Of the prompt; at least one.
};

struct ContinuationScores {
  std::vector<double> log_probabilities;  // Of each continuation, natural logarithm.
  KvLookup kv;                            // Of the first.
  std::size_t tokens_computed = 0;        // For all of them together.
  bool lossy = false;                     // Of any.
  std::string lossy_reason;
};

// How likely the model finds the end of a text, token by token.
struct TextScoreRequest : PromptRequest {
  std::size_t scored_tokens = 0;  // Of the end; 0: all but the first.
  std::optional<SlidingWindow> sliding_window;
  // Called with how many were scored, on the model's thread. False ends the scoring.
  std::function<bool(std::size_t)> on_tokens;
};

struct TextScore {
  std::vector<double> log_probabilities;  // Of each scored token, natural logarithm.
  KvLookup kv;
  std::size_t tokens_computed = 0;  // By the model.
  bool lossy = false;
  std::string lossy_reason;
};

struct GeneratorOptions {
  KvOptions kv;
  std::size_t queue_max = 1024;   // Requests that wait or run; more are refused.
  std::size_t jobs_max = 64;      // Of these, in the model at once.
  std::size_t pass_tokens = 256;  // Of a pass while several requests are there.
  // Guesses an answer's next token from what followed its last two before, and computes it with
  // them: two tokens in a pass where the guess was right, and the same text in any case.
  bool drafts = true;
  // Receives notices for an operator, such as a damaged file that was set aside. On the calling
  // thread at the start, later on the model's.
  std::function<void(const std::string&)> on_event{};
};

struct GeneratorCounters {
  KvCounters kv;
  std::uint64_t passes = 0;
  std::uint64_t rows = 0;            // Tokens given to the model.
  std::uint64_t decode_rows = 0;     // Of these, tokens of answers, drafts included.
  std::uint64_t drafted = 0;         // Tokens of answers that were guessed,
  std::uint64_t accepted = 0;        // and how many of them were right.
  std::uint64_t preempted = 0;       // Requests that started again for want of cells.
  std::uint64_t slides = 0;          // Of windows, lossy.
  std::uint64_t moved = 0;           // Tokens of passages that were not computed in place, lossy.
  std::uint64_t looked_at = 0;       // Hits that the attention check could judge,
  std::uint64_t suspects = 0;        // those that it doubted and that were computed again,
  std::uint64_t suspects_wrong = 0;  // and those whose cells differed then: they were dropped.
};

class Generator {
 public:
  virtual ~Generator() = default;

  // Errors: kInvalidArgument names the field that is wrong; kResourceExhausted for a full queue
  // or a prompt beyond the cells; kInternal of the model. Thread-safe, like all below.
  virtual Result<Generated> generate(const GenerateRequest& request) = 0;

  // The log probabilities of continuations. They share their prompt's passes.
  virtual Result<ContinuationScores> score(const ScoreRequest& request) = 0;

  // With a window, or many scored tokens, one token a pass, as when the model wrote them.
  virtual Result<TextScore> score_text(const TextScoreRequest& request) = 0;

  // The tokens of a piece of text, without a template around it: for prompts made of parts.
  virtual Result<TokenVector> plain_tokens(std::string_view text) = 0;
  // The tokens that a request's turns become.
  virtual Result<TokenVector> tokens(const PromptRequest& request) = 0;
  [[nodiscard]] virtual std::string text(TokenSpan tokens) const = 0;

  // What the cache holds of a prompt, and why not more.
  virtual Result<KvLookup> explain(const PromptRequest& request) = 0;
  virtual std::vector<KvEntry> entries() = 0;
  // Removes every entry of the tenant that begins with `tokens`, on every level. A request that
  // stands on one ends as it began, and nobody takes its cells. Without `tokens` also the tenant's
  // passages. Returns the tokens forgotten.
  virtual std::size_t drop(std::string_view tenant, TokenSpan tokens) = 0;
  // Writes the cells of a prompt to one file that restore() takes, here or on another machine of
  // the same kind; computes what is not cached.
  // Errors: as generate(); kUnavailable if the cache cannot hold the prompt; of the disk.
  virtual Result<KvSaved> save(const PromptRequest& request, const std::string& path) = 0;
  // Takes such a file into the cache, and into its folder, under the tenant that it names. Every
  // byte is checked for damage; that its maker computed these cells honestly is for the caller to
  // trust, or to prove (incipit kv verify). Returns the tokens that it holds.
  // Errors: kCorruption for a damaged file; kInvalidArgument for one of another model, precision
  // or version; kResourceExhausted for one beyond the cells.
  virtual Result<std::size_t> restore(const std::string& path) = 0;
  // Finds heads and threshold for KvOptions::attention_check from prompts like those to come.
  // Every second trial is fitted to, the others measure what came of it. Takes the model for as
  // long as it takes to compute all of them. Errors: kUnavailable where the model does not show
  // its attention (EngineOptions::shows_attention); kInvalidArgument for a trial that is no prompt
  // with a cut and prefixes of that length, or too few whose end repeats a token of the prefix;
  // kCancelled by on_trial.
  virtual Result<AttentionFit> fit_attention_check(std::span<const AttentionTrial> trials,
                                                   const AttentionFitOptions& options) = 0;
  // Pushes all live cells out of the runtime into the slower levels, as far as they take them.
  virtual void spill() = 0;

  virtual GeneratorCounters counters() = 0;
  // KV cells of the runtime and the bytes of one.
  [[nodiscard]] virtual std::size_t cells() const = 0;
  [[nodiscard]] virtual std::size_t cell_bytes() const = 0;
  [[nodiscard]] virtual bool exact() const = 0;
};

}  // namespace incipit
