// SPDX-License-Identifier: Apache-2.0
//
// A classification task: what the model is told, which labels exist, and how an answer is chosen.
//
// A Task is plain data. It comes from a task file (api/task_file.h, docs/task_file.md) or is
// filled by hand; Engine::classifier() checks it and names the field that is wrong.
// Immutable once a classifier is made of it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace incipit {

struct LabelDefinition {
  std::string name;                   // As it appears in the output; a path such as "a/b" nests.
  std::string description;            // Optional; shown to the model where {labels} stands.
  std::vector<std::string> surfaces;  // What the model would say for it; empty means {name}.
};

struct Example {
  std::string text;
  std::string label;
};

enum class Scoring { kAuto, kFirst, kSequence };
enum class Normalise { kNone, kMean, kChar, kPmi };
enum class LabelSurface { kAsIs, kSpace, kCapital, kAuto };
enum class SpecialTextPolicy { kNeutralise, kReject, kAllow };
enum class EmptyTextPolicy { kError, kReview, kScore };
enum class TooLongPolicy { kError, kHead, kTail, kHeadTail, kShard };
enum class ConfidenceKind { kTop, kPeak };

struct TaskOptions {
  Scoring scoring = Scoring::kAuto;
  Normalise normalise = Normalise::kNone;
  LabelSurface label_surface = LabelSurface::kAsIs;
  bool end_token = true;  // Sequence scores include the end-of-turn token.

  double temperature = 1.0;  // Divides the scores before the softmax; fitted by --calibrate-on.
  ConfidenceKind confidence = ConfidenceKind::kTop;

  double min_confidence = 0.0;  // Below one of these: status "review".
  double min_margin = 0.0;
  double min_mass = 0.0;
  std::string none_label;  // Name of the label that means "none of these"; empty: no such label.

  bool multi_label = false;        // One yes/no question per label instead of one choice.
  double multi_threshold = 0.5;    // p(yes) that a label needs in a multi-label task.
  double hierarchy_threshold = 0;  // With label paths: report the deepest node that reaches it.

  bool strip = false;
  bool drop_control = false;
  bool reject_invalid_utf8 = false;
  SpecialTextPolicy special_text = SpecialTextPolicy::kNeutralise;
  EmptyTextPolicy empty_text = EmptyTextPolicy::kError;
  TooLongPolicy too_long = TooLongPolicy::kError;
  std::string template_date;  // "YYYY-MM-DD" given to templates that print a date.
};

struct Task {
  std::string instructions;      // The system turn; "{labels}" becomes the list of labels.
  std::string input = "{text}";  // The user turn; "{text}" becomes the ticket.
  std::vector<LabelDefinition> labels;
  std::vector<Example> examples;  // Real user/assistant turns, in this order.
  TaskOptions options;
};

}  // namespace incipit
