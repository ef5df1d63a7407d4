// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <string>

#include "incipit/command.h"
#include "incipit/engine.h"
#include "incipit/engine_flags.h"
#include "incipit/exit_code.h"
#include "incipit/task_file.h"

namespace incipit::app {
namespace {

// A token's bytes on one line: quotes, line ends and bytes that are no printable ASCII escaped.
std::string shown(const std::string& piece) {
  std::string text = "\"";
  for (const char c : piece) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      text += "\\n";
    } else if (c == '"' || c == '\\') {
      text += std::string("\\") + c;
    } else if (byte < 0x20 || byte == 0x7f) {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\x%02x", byte);
      text += escaped;
    } else {
      text += c;
    }
  }
  return text + "\"";
}

void print_tokens(std::FILE* out, const char* title, const std::vector<TokenPiece>& tokens) {
  std::fprintf(out, "%s: %zu tokens\n", title, tokens.size());
  for (const TokenPiece& token : tokens)
    std::fprintf(out, "  %7d %s\n", token.id, shown(token.text).c_str());
}

void print_scores(std::FILE* out, const Task& task, const Explanation& explanation) {
  const Scored& scored = explanation.scored;
  std::fprintf(out, "scores (natural log; raw is the probability of the whole answer):\n");
  for (std::size_t i = 0; i < task.labels.size() && i < scored.scores.size(); ++i) {
    const double probability =
        i < explanation.label.probabilities.size() ? explanation.label.probabilities[i] : NAN;
    std::fprintf(out, "  %-24s score %10.6f   raw %10.6f   probability %.6g\n",
                 task.labels[i].name.c_str(), scored.scores[i], scored.raw[i], probability);
  }
  const Label& label = explanation.label;
  std::fprintf(out, "mass %.6g: what the model gives to all labels together\n", label.mass);
  std::fprintf(out, "confidence %.6g   margin %.6g   gap %.6g nats%s\n", label.confidence,
               label.margin, label.gap,
               label.tie ? "   exact tie: the label declared first wins" : "");
}

void print_answer(std::FILE* out, const Task& task, const Label& label) {
  switch (label.status) {
    case Status::kOk:
      if (task.options.multi_label) {
        std::fprintf(out, "labels:");
        for (const std::size_t chosen : label.chosen)
          std::fprintf(out, " %s", task.labels[chosen].name.c_str());
        std::fprintf(out, "%s\n", label.chosen.empty() ? " none" : "");
      } else {
        std::fprintf(out, "label: %s\n",
                     label.node.empty() && label.label ? task.labels[*label.label].name.c_str()
                                                       : label.node.c_str());
      }
      break;
    case Status::kReview:
      std::fprintf(out, "review: %s%s%s\n", label.reason.c_str(), label.best ? ", best label " : "",
                   label.best ? task.labels[*label.best].name.c_str() : "");
      break;
    case Status::kError:
      std::fprintf(out, "error: %s\n", label.error.c_str());
      break;
  }
}

void print_explanation(std::FILE* out, const Classifier& classifier,
                       const Explanation& explanation) {
  const ClassifierReport& report = classifier.report();
  std::fprintf(out, "model %s (%s), %s, %s cells, %s\n", report.model_file.c_str(),
               report.architecture.c_str(), report.precision.c_str(), report.kv_type.c_str(),
               report.exact ? "exact" : "approximate");
  print_tokens(out, "prefix, computed once for the task", explanation.prefix);
  std::fprintf(out, "---- cut ----%s\n",
               explanation.label.facts.slow_path
                   ? " (not used: this text changes tokens before it, slow path)"
                   : "");
  print_tokens(out, "computed for this text", explanation.suffix);
  std::fprintf(out, "answers (scoring: %s, normalisation: %s):\n", report.scoring.c_str(),
               report.normalise.c_str());
  for (const SurfaceTokens& surface : report.surfaces) {
    std::fprintf(out, "  %-24s", surface.surface.c_str());
    for (const TokenPiece& token : surface.tokens)
      std::fprintf(out, " %d %s", token.id, shown(token.text).c_str());
    std::fprintf(out, "\n");
  }
  const TextFacts& facts = explanation.label.facts;
  if (facts.neutralised > 0)
    std::fprintf(out, "%zu special-token texts were kept as plain text\n", facts.neutralised);
  if (facts.utf8_replaced > 0)
    std::fprintf(out, "%zu byte runs were not UTF-8 and were replaced\n", facts.utf8_replaced);
  if (facts.truncated_tokens > 0)
    std::fprintf(out, "%zu tokens were cut away\n", facts.truncated_tokens);
  if (explanation.label.status != Status::kError) print_scores(out, classifier.task(), explanation);
  print_answer(out, classifier.task(), explanation.label);
}

}  // namespace

int run_explain(std::span<const std::string> arguments, const Surroundings& around) {
  CLI::App app(
      "Shows for one text which tokens the model sees, where the prompt is cut, which tokens each "
      "label "
      "has, and every score.",
      "incipit explain");
  EngineFlags flags;
  add_engine_flags(app, flags);
  std::string task_file;
  std::string text;
  app.add_option("--task", task_file, "Task file (JSON)")->required()->type_name("FILE");
  app.add_option("text", text, "The text")->required();
  if (const auto over = parse_flags(app, arguments, around)) return *over;
  const auto options = engine_options(flags);
  if (!options) return fail(options.error(), around);
  auto task = read_task_file(task_file);
  if (!task) return fail(task.error(), around);
  auto engine = around.open_engine(*options);
  if (!engine) return fail(engine.error(), around);
  auto classifier = (*engine)->classifier(std::move(*task), {});
  if (!classifier) return fail(classifier.error(), around);
  const auto explanation = (*classifier)->explain(text);
  if (!explanation) return fail(explanation.error(), around);
  print_explanation(around.out, **classifier, *explanation);
  for (const std::string& warning : (*classifier)->report().warnings)
    std::fprintf(around.err, "warning: %s\n", warning.c_str());
  return explanation->label.status == Status::kError ? kExitRowErrors : kExitDone;
}

}  // namespace incipit::app
