// SPDX-License-Identifier: Apache-2.0
//
// What happens once, when a classifier is made: the prompt is rendered and cut, label tokens are
// read, the prefix is computed, and the task's own examples are scored as a check.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/elapsed.h"
#include "engine/classifier_impl.h"
#include "model/cpu.h"
#include "policy/calibration.h"

namespace incipit::engine {
namespace {

constexpr std::size_t kCheckedExamples = 3;
constexpr double kMassLow = 0.5;     // Below it the model mostly wants to say something else.
constexpr double kTailLow = -0.7;    // exp(-0.7): the rest of a label is less likely than not.
constexpr double kBandLeast = 0.05;  // Nats; DESIGN of near ties on approximate runtimes.

// Texts that say nothing, for the bias of a model that has seen none (arXiv 2102.09690).
constexpr std::string_view kContentFree[] = {"N/A", "", "[MASK]"};

std::string two_digits(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f", value);
  return text;
}

const char* name_of(LabelSurface surface) {
  switch (surface) {
    case LabelSurface::kAsIs:
      return "as-is";
    case LabelSurface::kSpace:
      return "space";
    case LabelSurface::kCapital:
      return "capital";
    case LabelSurface::kAuto:
      return "auto";
  }
  return "";
}

std::string name_of(Normalise normalise) {
  switch (normalise) {
    case Normalise::kNone:
      return "none";
    case Normalise::kMean:
      return "mean";
    case Normalise::kChar:
      return "char";
    case Normalise::kPmi:
      return "pmi";
  }
  return "";
}

}  // namespace

Result<std::unique_ptr<ClassifierImpl>> ClassifierImpl::create(std::shared_ptr<ServedModel> served,
                                                               Task task,
                                                               ClassifierOptions options) {
  using Made = std::unique_ptr<ClassifierImpl>;
  Made made(new ClassifierImpl(std::move(served), std::move(task), std::move(options)));
  if (made->options_.tenant.starts_with('\0'))
    return failure(ErrorCode::kInvalidArgument, "tenant: a name must not begin with NUL");
  INCIPIT_TRY(made->decision_, policy::LabelDecision::create(made->task_));
  if (made->task_.options.label_surface == LabelSurface::kAuto) {
    INCIPIT_TRY_VOID(made->choose_surface());
  } else {
    INCIPIT_TRY_VOID(made->build_prompt(std::nullopt));
  }
  if (made->task_.options.normalise == Normalise::kPmi) {
    INCIPIT_TRY(const auto raw, made->content_free_raw());
    INCIPIT_TRY(made->content_free_, policy::content_free_bias(raw));
  }
  made->fill_report();
  INCIPIT_TRY_VOID(made->check_start());
  made->counters_ = {};
  return made;
}

Result<prompt::TaskPrompt> ClassifierImpl::make_prompt(const Task& task) const {
  return prompt::TaskPrompt::build(task, *loaded_.tokenizer, *loaded_.chat_template,
                                   {.tokens_max = tokens_max_, .surface = surface_});
}

Result<void> ClassifierImpl::build_prompt(std::optional<LabelSurface> surface) {
  scorer_.reset();  // Before what it points to.
  surface_ = surface;
  tokens_max_ = loaded_.runtime->limits().context_tokens;
  INCIPIT_TRY(prompt_, make_prompt(task_));
  INCIPIT_TRY_VOID(build_tree());
  if (tokens_that_fit() < tokens_max_) {
    tokens_max_ = tokens_that_fit();
    INCIPIT_TRY(prompt_, make_prompt(task_));
  }
  scorer_.emplace(served_->scheduler(), loaded_.runtime->limits().context_tokens, options_.tenant,
                  tree_ ? &*tree_ : nullptr, answers_ ? &*answers_ : nullptr);
  const auto begin = std::chrono::steady_clock::now();
  INCIPIT_TRY_VOID(scorer_->set_prefix(prompt_->prefix()));
  report_.ms_prefix = ms_since(begin);
  return {};
}

// The longest prompt that the cells hold for certain. The ticket forks from the prefix, and the
// parts of an answer from the ticket, at most one for each of its tokens; every fork may waste
// some cells.
std::size_t ClassifierImpl::tokens_that_fit() const {
  const model::Limits& limits = loaded_.runtime->limits();
  const std::size_t forks = 1 + (tree_ ? tree_->tokens_deepest() : 1);
  return limits.cells - std::min(limits.cells, forks * limits.fork_cells);
}

Result<void> ClassifierImpl::build_tree() {
  if (task_.options.multi_label) {
    answers_.emplace();
    for (const prompt::AnswerSurface& surface : prompt_->surfaces()) {
      (surface.label == prompt::kYes ? answers_->yes : answers_->no)
          .push_back(surface.tokens.front());
    }
    return {};
  }
  std::vector<std::string> names;
  for (const LabelDefinition& label : task_.labels) names.push_back(label.name);
  std::vector<decode::Surface> surfaces;
  for (const prompt::AnswerSurface& surface : prompt_->surfaces()) {
    surfaces.push_back({.label = surface.label, .text = surface.text, .tokens = surface.tokens});
  }
  INCIPIT_TRY(tree_, decode::LabelTree::build(names, surfaces,
                                              {.scoring = task_.options.scoring,
                                               .normalise = task_.options.normalise,
                                               .end_token = task_.options.end_token,
                                               .end = prompt_->end_of_turn()}));
  return {};
}

std::vector<std::string_view> ClassifierImpl::example_texts() const {
  std::vector<std::string_view> texts;
  for (const Example& example : task_.examples) {
    if (texts.size() < kCheckedExamples) texts.push_back(example.text);
  }
  if (texts.empty()) texts.push_back(kContentFree[0]);
  return texts;
}

Result<double> ClassifierImpl::example_mass() {
  const auto texts = example_texts();
  INCIPIT_TRY(const auto scored, score(texts, Route::kBatched));
  double mass = 0;
  std::size_t count = 0;
  for (const Scored& one : scored) {
    if (!one.error.empty()) continue;
    mass += one.mass;
    ++count;
  }
  return count == 0 ? 0 : mass / static_cast<double>(count);
}

// Tries the ways to write a label and keeps the one that the model is most willing to say.
Result<void> ClassifierImpl::choose_surface() {
  std::optional<LabelSurface> best;
  double best_mass = -1;
  Error last_error;
  for (const LabelSurface surface :
       {LabelSurface::kAsIs, LabelSurface::kSpace, LabelSurface::kCapital}) {
    // A way that this vocabulary refuses (it would merge with the cue) is no candidate.
    if (auto built = build_prompt(surface); !built) {
      last_error = std::move(built).error();
      continue;
    }
    INCIPIT_TRY(const double mass, example_mass());
    if (mass <= best_mass) continue;
    best_mass = mass;
    best = surface;
  }
  if (!best) return std::unexpected(last_error);
  report_.warnings.push_back(std::string("label surface \"") + name_of(*best) +
                             "\" was chosen: label mass " + two_digits(best_mass) +
                             " on the examples");
  return build_prompt(best);
}

Result<void> ClassifierImpl::check_start() {
  const auto texts = example_texts();
  if (is_foregone()) {
    report_.warnings.push_back(
        "the task has one label: every text gets it, the model is not asked");
    return {};
  }
  INCIPIT_TRY(const double mass, example_mass());
  if (mass < kMassLow) {
    report_.warnings.push_back("the labels get only " + two_digits(mass) +
                               " of the probability on the task's examples: the model would rather "
                               "say something else; try "
                               "--label-surface auto, other label words, or more examples");
  }
  if (tree_) {
    INCIPIT_TRY_VOID(check_tails());
  }
  if (!loaded_.runtime->limits().exact) {
    INCIPIT_TRY_VOID(measure_drift(texts));
  }
  return {};
}

// In first mode a label of several tokens is judged by its first alone. Where the rest does not
// follow by itself, the first token stands for other words too.
Result<void> ClassifierImpl::check_tails() {
  const bool longer =
      std::ranges::any_of(prompt_->surfaces(), [](const auto& s) { return s.tokens.size() > 1; });
  if (tree_->scoring() != Scoring::kFirst || !longer) return {};
  TaskOptions options = task_.options;
  options.scoring = Scoring::kSequence;
  options.normalise = Normalise::kNone;
  std::vector<std::string> names;
  std::vector<decode::Surface> surfaces;
  for (const LabelDefinition& label : task_.labels) names.push_back(label.name);
  for (const prompt::AnswerSurface& surface : prompt_->surfaces()) {
    surfaces.push_back({.label = surface.label, .text = surface.text, .tokens = surface.tokens});
  }
  INCIPIT_TRY(const decode::LabelTree tree,
              decode::LabelTree::build(names, surfaces,
                                       {.scoring = Scoring::kSequence,
                                        .normalise = Normalise::kNone,
                                        .end_token = true,
                                        .end = prompt_->end_of_turn()}));
  const decode::LabelTree* before = scorer_->use_tree(&tree);
  Result<void> checked;
  for (std::size_t label = 0; checked && label < task_.labels.size(); ++label) {
    checked = check_tail(tree, label);
  }
  scorer_->use_tree(before);
  return checked;
}

Result<void> ClassifierImpl::check_tail(const decode::LabelTree& tree, std::size_t label) {
  const std::string& name = task_.labels[label].name;
  const auto example = std::ranges::find(task_.examples, name, &Example::label);
  if (example == task_.examples.end()) return {};
  INCIPIT_TRY(const auto parts,
              parts_of(prompt_->encode(example->text), example->text, Route::kBatched));
  if (parts.empty()) return {};
  INCIPIT_TRY(const auto scores, scorer_->score(std::span(parts).first(1)));
  if (!scores.front().error.empty()) return {};
  double tail = -std::numeric_limits<double>::infinity();
  for (std::size_t s = 0; s < tree.surfaces().size(); ++s) {
    if (tree.surfaces()[s].label != label) continue;
    tail = std::max(tail, scores.front().surfaces[s] - scores.front().first_tokens[s]);
  }
  if (tail < kTailLow) {
    report_.warnings.push_back(
        "label \"" + name + "\": after its first token the rest has probability " +
        two_digits(std::exp(tail)) + " on its example; --scoring sequence compares whole labels");
  }
  return {};
}

// Where the law does not hold: how far batched and single scores differ sets the band in which a
// text is scored again, alone.
Result<void> ClassifierImpl::measure_drift(std::span<const std::string_view> texts) {
  INCIPIT_TRY(const auto batched, score(texts, Route::kBatched));
  INCIPIT_TRY(const auto full, score(texts, Route::kFull));
  double drift = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    for (std::size_t l = 0; l < std::min(batched[i].scores.size(), full[i].scores.size()); ++l) {
      drift = std::max(drift, std::fabs(batched[i].scores[l] - full[i].scores[l]));
    }
  }
  band_ = std::max(kBandLeast, 2 * drift);
  report_.warnings.push_back("results are approximate on this CPU (" +
                             loaded_.runtime->limits().approximate_reason + "); near ties within " +
                             two_digits(band_) + " nats are scored again alone");
  return {};
}

Result<std::vector<std::vector<double>>> ClassifierImpl::content_free_raw() {
  Task task = task_;
  task.options.empty_text = EmptyTextPolicy::kScore;
  INCIPIT_TRY(auto own, make_prompt(task));
  std::swap(*prompt_, own);
  auto scored = score(kContentFree, Route::kBatched);
  std::swap(*prompt_, own);
  if (!scored) return std::unexpected(std::move(scored).error());
  std::vector<std::vector<double>> raw;
  for (Scored& one : *scored) {
    if (one.error.empty()) raw.push_back(std::move(one.raw));
  }
  return raw;
}

Result<std::vector<double>> ClassifierImpl::content_free_bias() {
  INCIPIT_TRY(const auto raw, content_free_raw());
  return policy::content_free_bias(raw);
}

void ClassifierImpl::fill_report() {
  report_.model_file = loaded_.file.substr(loaded_.file.find_last_of('/') + 1);
  report_.model_sha256 = loaded_.sha256;
  report_.model_bytes = loaded_.bytes;
  report_.architecture = loaded_.architecture;
  report_.runtime = loaded_.runtime_name;
  report_.instructions = model::cpu_facts().instructions_text();
  report_.precision = loaded_.precision_name;
  report_.kv_type = loaded_.kv_type_name;
  report_.threads = loaded_.threads;
  report_.exact = loaded_.runtime->limits().exact;
  report_.approximate_reason = loaded_.runtime->limits().approximate_reason;
  report_.fingerprint = loaded_.runtime->fingerprint();
  report_.template_source = "the model file's own Jinja template";
  report_.template_date = prompt_->template_date();
  report_.scoring = !tree_ ? "yes-no" : tree_->scoring() == Scoring::kFirst ? "first" : "sequence";
  report_.normalise = name_of(task_.options.normalise);
  report_.prefix_tokens = prompt_->prefix().size();
  report_.prefix_text = prompt_->prefix_text();
  report_.tail_text = prompt_->tail_text();
  for (const prompt::AnswerSurface& surface : prompt_->surfaces()) {
    report_.surfaces.push_back(
        {.label = surface.label, .surface = surface.text, .tokens = pieces(surface.tokens)});
  }
  for (const std::string& warning : prompt_->warnings()) report_.warnings.push_back(warning);
  report_.ms_load = loaded_.ms_load;
}

}  // namespace incipit::engine
