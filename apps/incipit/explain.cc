// SPDX-License-Identifier: Apache-2.0
//
// incipit explain: one text through a task, with everything that is seen on the way.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>

#include "base/counted.h"
#include "incipit/command.h"
#include "incipit/engine.h"
#include "incipit/engine_flags.h"
#include "incipit/exit_code.h"
#include "incipit/task_flags.h"
#include "incipit/terminal_text.h"

namespace incipit::app {
namespace {

constexpr const char* kDescription =
    "Shows for one text which tokens the model sees, where the prompt is cut, which tokens each "
    "label has, and every score.";

constexpr const char* kFooter =
    "Example:\n  incipit explain --task task.json \"I was charged twice.\"\n\n"
    "Exit codes: 0 done, 1 the text cannot be labelled, 2 usage, 3 model or memory.";

std::string one_line(std::string_view text) { return printable(text, LineEnds::kEscaped); }

void print_tokens(std::FILE* out, const char* title, const std::vector<TokenPiece>& tokens) {
  std::fprintf(out, "%s: %s\n", title, counted(tokens.size(), "token").c_str());
  for (const TokenPiece& token : tokens) {
    std::fprintf(out, "  %7d %s\n", token.id, in_quotes(token.text).c_str());
  }
}

void print_surfaces(std::FILE* out, const ClassifierReport& report) {
  std::size_t width = 0;
  for (const SurfaceTokens& each : report.surfaces) {
    width = std::max(width, width_of(one_line(each.surface)));
  }
  std::fprintf(out, "answers that are compared (scoring: %s, normalisation: %s):\n",
               report.scoring.c_str(), report.normalise.c_str());
  for (const SurfaceTokens& each : report.surfaces) {
    std::fprintf(out, "  %s", padded(one_line(each.surface), width).c_str());
    for (const TokenPiece& token : each.tokens) {
      std::fprintf(out, "  %d %s", token.id, in_quotes(token.text).c_str());
    }
    std::fprintf(out, "\n");
  }
}

void print_facts(std::FILE* out, const TextFacts& facts) {
  const auto line = [out](std::size_t count, const char* what, const char* became) {
    if (count > 0) std::fprintf(out, "%s %s\n", counted(count, what).c_str(), became);
  };
  line(facts.neutralised, "special-token text", "kept as plain text");
  line(facts.utf8_replaced, "run", "of bytes that are not UTF-8, replaced");
  line(facts.truncated_tokens, "token", "cut away");
}

void print_scores(std::FILE* out, const Task& task, const Explanation& explanation) {
  const Scored& scored = explanation.scored;
  const Label& label = explanation.label;
  std::size_t width = 0;
  for (const LabelDefinition& each : task.labels) {
    width = std::max(width, width_of(one_line(each.name)));
  }
  std::fprintf(out,
               "scores (natural logarithms; raw: of the whole answer, before normalisation):\n");
  for (std::size_t i = 0; i < task.labels.size() && i < scored.scores.size(); ++i) {
    std::fprintf(out, "  %s  score %11.6f  raw %11.6f",
                 padded(one_line(task.labels[i].name), width).c_str(), scored.scores[i],
                 i < scored.raw.size() ? scored.raw[i] : scored.scores[i]);
    if (i < label.probabilities.size()) {
      std::fprintf(out, "  probability %.6f", label.probabilities[i]);
    }
    std::fprintf(out, "\n");
  }
  std::fprintf(out, "mass %.6f: the share that the model gives to all labels together\n",
               label.mass);
  std::fprintf(out, "confidence %.6f, margin %.6f to the second label, gap %.6f nats%s\n",
               label.confidence, label.margin, label.gap,
               label.tie ? "; an exact tie, which the label declared first wins" : "");
}

void print_answer(std::FILE* out, const Task& task, const Label& label) {
  const auto name = [&task](std::size_t index) { return one_line(task.labels[index].name); };
  switch (label.status) {
    case Status::kOk: {
      const bool is_multi = task.options.multi_label;
      std::string names = one_line(label.node);
      if (!is_multi && names.empty() && label.label) names = name(*label.label);
      for (const std::size_t chosen : label.chosen) {
        if (is_multi) names += (names.empty() ? "" : ", ") + name(chosen);
      }
      std::fprintf(out, "%s: %s\n", is_multi ? "labels" : "label",
                   names.empty() ? "none" : names.c_str());
      break;
    }
    case Status::kReview:
      std::fprintf(out, "review: %s", label.reason.c_str());
      if (label.best) std::fprintf(out, "; the best label is %s", name(*label.best).c_str());
      std::fprintf(out, "\n");
      break;
    case Status::kError:
      std::fprintf(out, "error: %s\n", label.error.c_str());
      break;
  }
}

void print_explanation(std::FILE* out, const Classifier& classifier,
                       const Explanation& explanation) {
  const ClassifierReport& report = classifier.report();
  const Label& label = explanation.label;
  std::fprintf(out, "model %s (%s), %s, %s cells, %s\n", one_line(report.model_file).c_str(),
               one_line(report.architecture).c_str(), report.precision.c_str(),
               report.kv_type.c_str(), report.exact ? "exact to the bit" : "approximate");
  print_tokens(out, "prefix, computed once for the task", explanation.prefix);
  std::fprintf(out, "---- cut ----%s\n",
               label.facts.slow_path
                   ? " (not used: this text changes tokens before it, so all is computed)"
                   : "");
  print_tokens(out, "computed for this text", explanation.suffix);
  print_surfaces(out, report);
  print_facts(out, label.facts);
  if (label.status != Status::kError) print_scores(out, classifier.task(), explanation);
  print_answer(out, classifier.task(), label);
}

struct ExplainFlags {
  EngineFlags engine;
  TaskFlags task;
  std::string text;
};

// Returns the exit code.
Result<int> explain(const ExplainFlags& flags, const Surroundings& around) {
  INCIPIT_TRY(EngineOptions options, engine_options(flags.engine));
  INCIPIT_TRY(const Task task, read_task(flags.task));
  options.on_event = notices(around);
  INCIPIT_TRY(const auto engine, around.open_engine(options));
  INCIPIT_TRY(const auto classifier, make_classifier(*engine, flags.task.path, task, {}));
  INCIPIT_TRY(const Explanation explanation, classifier->explain(flags.text));
  print_explanation(around.out, *classifier, explanation);
  for (const std::string& warning : classifier->report().warnings) {
    std::fprintf(around.err, "warning: %s\n", printable(warning, LineEnds::kKept).c_str());
  }
  return explanation.label.status == Status::kError ? kExitRowErrors : kExitDone;
}

}  // namespace

int run_explain(std::span<const std::string> arguments, const Surroundings& around) {
  ExplainFlags flags;
  CLI::App app(kDescription, "incipit explain");
  app.footer(kFooter);
  app.add_option("text", flags.text, "The text, in quotes.")->required();
  add_task_flags(app, flags.task);
  add_engine_flags(app, flags.engine);
  if (const auto over = parse_flags(app, arguments, around)) return *over;
  const auto code = explain(flags, around);
  return code ? *code : fail(code.error(), around);
}

}  // namespace incipit::app
