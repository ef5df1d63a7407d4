// SPDX-License-Identifier: Apache-2.0
//
// The objects a program holds: an Engine (one loaded model), Classifiers (one task each) and
// Generators (generator.h) on it.
//
//     auto engine = incipit::Engine::open({.model = "model.gguf"});
//     auto classifier = (*engine)->classifier(task);
//     auto labels = (*classifier)->classify(texts);
//
// The classifier computes the shared prefix of its task once and gives each text only its own
// tokens. Where report().exact is true its scores are bit-equal to those of whole prompts, in
// any batch and any order. A classifier is confined to one thread at a time; those of other threads
// and generators share the model's passes with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "incipit/generator.h"
#include "incipit/label.h"
#include "incipit/options.h"
#include "incipit/result.h"
#include "incipit/task.h"
#include "incipit/types.h"

namespace incipit {

class Engine;

struct ClassifierOptions {
  // Texts given to the model together; 0: sized from memory and measured speed.
  std::size_t batch = 0;
  // Whose texts they are: tenants take turns, and nothing cached crosses between them.
  std::string tenant = {};
};

// How texts are run. kBatched is the product; the other two are its measure (bench, --verify).
enum class Route {
  kBatched,    // Shared prefix, many texts in one pass.
  kCached,     // Shared prefix, one text at a time.
  kFull,       // The whole prompt in a fresh sequence, one text at a time.
  kFullBatch,  // Whole prompts, many in one pass.
};

struct TokenPiece {
  Token id = 0;
  std::string text;
};

struct SurfaceTokens {
  std::size_t label = 0;  // Index into Task::labels.
  std::string surface;
  std::vector<TokenPiece> tokens;
};

// Facts about a classifier that hold for all of its texts.
struct ClassifierReport {
  std::string model_file;
  std::string model_sha256;
  std::uint64_t model_bytes = 0;
  std::string architecture;
  std::string runtime;       // Name and version of the library that computes.
  std::string instructions;  // Instruction level in use, such as "avx512_bf16 avx512_vnni".
  std::string precision;     // "as in the file" with libllama.
  std::string kv_type;
  std::size_t threads = 0;
  bool exact = false;              // The law holds on this CPU with these settings.
  std::string approximate_reason;  // Why not; empty where exact.
  std::string fingerprint;
  std::string template_source;
  std::string template_date;
  std::string scoring;  // "first" or "sequence", as chosen.
  std::string normalise;
  std::size_t prefix_tokens = 0;
  std::string prefix_text;
  std::string tail_text;
  std::vector<SurfaceTokens> surfaces;
  std::vector<std::string> warnings;
  double ms_load = 0;
  double ms_prefix = 0;
};

// Everything `incipit explain` shows of one text.
struct Explanation {
  std::vector<TokenPiece> prefix;  // Computed once for the task.
  std::vector<TokenPiece> suffix;  // Computed for this text.
  Scored scored;
  Label label;
};

// Counters since the classifier was made.
struct ClassifierCounters {
  std::uint64_t texts = 0;             // Texts that were scored by the model.
  std::uint64_t tokens_evaluated = 0;  // Tokens given to the model for them.
  std::uint64_t tokens_full = 0;       // Tokens that whole prompts would have needed.
  std::uint64_t passes = 0;            // That ran while its texts were in the model.
  std::uint64_t slow_path = 0;
  double ms_scoring = 0;
};

class Classifier {
 public:
  virtual ~Classifier() = default;

  // Scores texts; a bad text gets Scored::error and never fails the others.
  // Errors: kInternal or kResourceExhausted of the model as a whole.
  virtual Result<std::vector<Scored>> score(std::span<const std::string_view> texts,
                                            Route route) = 0;

  // Turns scores into a label by the task's options. `bias` is subtracted from the scores label
  // by label (a calibration); empty means none. Needs no model.
  [[nodiscard]] virtual Label decide(const Scored& scored, std::span<const double> bias) const = 0;

  // score() and decide() in one, on the batched route.
  virtual Result<std::vector<Label>> classify(std::span<const std::string_view> texts) = 0;

  // The mean label log probabilities of content-free texts: a bias for decide().
  virtual Result<std::vector<double>> content_free_bias() = 0;

  // Replaces TaskOptions::temperature and min_confidence after a fit on labelled rows.
  virtual void set_temperature(double temperature) = 0;
  virtual void set_min_confidence(double min_confidence) = 0;

  virtual Result<Explanation> explain(std::string_view text) = 0;

  // How many texts a call to score() is best given at a time.
  [[nodiscard]] virtual std::size_t texts_per_call() const = 0;
  [[nodiscard]] virtual const Task& task() const = 0;
  [[nodiscard]] virtual const ClassifierReport& report() const = 0;
  [[nodiscard]] virtual ClassifierCounters counters() const = 0;
};

class Engine {
 public:
  // Loads a model; the first time it is prepared and the law is proved on this CPU, and both are
  // kept in the cache directory. Errors: kUnavailable for a missing or unsupported model,
  // kCorruption for a damaged one; kInvalidArgument for options; kResourceExhausted if the KV cells
  // do not fit (the message says how many would).
  static Result<std::unique_ptr<Engine>> open(const EngineOptions& options);
  virtual ~Engine() = default;

  // Checks the task, renders its prefix and computes it. The engine must outlive the classifier.
  // Errors: kInvalidArgument names the field of the task that is wrong. Thread-safe, like the next.
  virtual Result<std::unique_ptr<Classifier>> classifier(Task task, ClassifierOptions options) = 0;

  // Makes the model answer many callers, beside its classifiers: they share one cache, which lives
  // as long as one of them does and has the options of the first; a classifier takes those that it
  // finds, or the default ones. The engine must outlive the generator.
  // Errors: kInvalidArgument names the option that is wrong, or says that others are in use.
  virtual Result<std::unique_ptr<Generator>> generator(const GeneratorOptions& options) = 0;
};

}  // namespace incipit
