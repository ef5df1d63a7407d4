// SPDX-License-Identifier: Apache-2.0
//
// The report of a file job, for programs (JSON) and for people (a few lines).
#include <array>
#include <charconv>
#include <system_error>

#include "api/json_writer.h"
#include "base/counted.h"
#include "incipit/classify_file.h"

namespace incipit {
namespace {

using api::JsonWriter;
using api::six_digits;

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

double ms_per_ticket(const FileReport& file) {
  return share(file.ms_tickets, static_cast<double>(file.scored));
}

// Against whole prompts one at a time: from those that --verify timed in this process, else from
// the tokens that were not evaluated. Repeats are left out of both.
struct SpeedUp {
  double factor = 0;
  bool is_measured = false;
};

SpeedUp speed_up(const FileReport& file) {
  if (file.verify && file.verify->rows > 0 && file.scored > 0) {
    const double full = file.verify->ms_full / static_cast<double>(file.verify->rows);
    return {.factor = share(full, ms_per_ticket(file)), .is_measured = true};
  }
  return {.factor = share(static_cast<double>(file.tokens_full),
                          static_cast<double>(file.tokens_evaluated))};
}

const char* calibration_name(Calibration calibration) {
  switch (calibration) {
    case Calibration::kContentFree:
      return "content-free";
    case Calibration::kBatch:
      return "batch";
    case Calibration::kPrior:
      return "prior";
    case Calibration::kNone:
      break;
  }
  return "none";
}

void write_model(JsonWriter& json, const ClassifierReport& report) {
  json.key("model").begin_object();
  json.key("file").string(report.model_file);
  json.key("bytes").number(report.model_bytes);
  json.key("sha256").string(report.model_sha256);
  json.key("architecture").string(report.architecture).end_object();
  json.key("runtime").string(report.runtime);
  json.key("instructions").string(report.instructions);
  json.key("precision").string(report.precision);
  json.key("kv_type").string(report.kv_type);
  json.key("threads").number(report.threads);
  json.key("exact").boolean(report.exact);
  if (!report.exact) json.key("approximate_reason").string(report.approximate_reason);
  json.key("fingerprint").string(report.fingerprint);
  json.key("template_source").string(report.template_source);
  if (!report.template_date.empty()) json.key("template_date").string(report.template_date);
}

void write_labels(JsonWriter& json, const Classifier& classifier) {
  const ClassifierReport& report = classifier.report();
  json.key("scoring").string(report.scoring);
  json.key("normalise").string(report.normalise);
  json.key("temperature").number(classifier.task().options.temperature);
  json.key("labels").begin_array();
  for (const SurfaceTokens& surface : report.surfaces) {
    json.begin_object().key("label").string(classifier.task().labels[surface.label].name);
    json.key("surface").string(surface.surface).key("tokens").begin_array();
    for (const TokenPiece& piece : surface.tokens) json.number(piece.id);
    json.end_array().end_object();
  }
  json.end_array();
}

void write_counts(JsonWriter& json, const FileReport& file) {
  json.key("tickets").number(file.rows);
  json.key("unique").number(file.unique);
  json.key("duplicates").number(file.duplicates);
  json.key("ok").number(file.ok);
  json.key("review").number(file.review);
  json.key("errors").number(file.errors);
  json.key("resumed").number(file.resumed);
  json.key("slow_path").number(file.slow_path);
  json.key("rescored").number(file.rescored);
  json.key("neutralised").number(file.neutralised);
  json.key("utf8_replaced").number(file.utf8_replaced);
}

void write_work(JsonWriter& json, const ClassifierReport& report, const FileReport& file) {
  json.key("prefix_tokens").number(report.prefix_tokens);
  json.key("suffix_tokens").number(file.suffix_tokens);
  json.key("tokens_evaluated").number(file.tokens_evaluated);
  json.key("tokens_full").number(file.tokens_full);
  json.key("token_ratio")
      .number(
          share(static_cast<double>(file.tokens_full), static_cast<double>(file.tokens_evaluated)));
  json.key("ms_load").number(report.ms_load);
  json.key("ms_prefix").number(report.ms_prefix);
  json.key("ms_tickets").number(file.ms_tickets);
  json.key("ms_per_ticket").number(ms_per_ticket(file));
  json.key("tickets_per_s").number(share(1000, ms_per_ticket(file)));
  const SpeedUp speed = speed_up(file);
  json.key("speedup").number(speed.factor);
  json.key("speedup_kind").string(speed.is_measured ? "measured" : "estimated");
  if (speed.is_measured) json.key("speedup_full_tickets").number(file.verify->rows);
  json.key("deduplication_gain")
      .number(share(static_cast<double>(file.unique + file.duplicates),
                    static_cast<double>(file.unique)));
}

template <typename Values>
void write_by_label(JsonWriter& json, const Task& task, const Values& values) {
  json.begin_object();
  for (std::size_t i = 0; i < values.size() && i < task.labels.size(); ++i) {
    json.key(task.labels[i].name).number(values[i]);
  }
  json.end_object();
}

void write_predictions(JsonWriter& json, const Task& task, const ReportParts& parts) {
  const FileReport& file = *parts.file;
  write_by_label(json.key("predicted"), task, file.predicted);
  json.key("calibration").begin_object();
  json.key("kind").string(
      calibration_name(parts.job != nullptr ? parts.job->calibration : Calibration::kNone));
  if (!file.bias.empty()) {
    write_by_label(json.key("bias"), task, file.bias);
    write_by_label(json.key("predicted_before"), task, file.predicted_uncalibrated);
    json.key("changed_labels").number(file.changed_by_calibration);
  }
  json.end_object();
  if (file.dominant) {
    json.key("dominant_label").begin_object();
    json.key("label").string(task.labels[*file.dominant].name);
    json.key("share").number(file.dominant_share).end_object();
  }
}

void write_quality(JsonWriter& json, const FileQuality& quality) {
  json.key("quality").begin_object();
  json.key("rows").number(quality.rows);
  json.key("unscored").number(quality.unscored);
  json.key("unknown_labels").number(quality.unknown_gold);
  json.key("accuracy").number(quality.accuracy);
  json.key("macro_f1").number(quality.macro_f1);
  json.key("coverage").number(quality.coverage);
  json.key("accepted_accuracy").number(quality.accepted_accuracy);
  json.key("ece").number(quality.ece);
  json.key("confusion").begin_array();
  for (const auto& row : quality.confusion) {
    json.begin_array();
    for (const std::uint64_t count : row) json.number(count);
    json.end_array();
  }
  json.end_array().end_object();
}

void write_scores(JsonWriter& json, std::string_view name, const std::vector<double>& scores) {
  json.key(name).begin_array();
  for (const double score : scores) json.exact_number(score);
  json.end_array();
}

void write_verify(JsonWriter& json, const VerifyReport& verify) {
  json.key("verify").begin_object();
  json.key("n").number(verify.rows);
  json.key("mismatch").number(verify.mismatches);
  json.key("label_mismatch").number(verify.label_mismatches);
  json.key("max_abs_dlogprob").exact_number(verify.max_difference);
  json.key("ms_full").number(verify.ms_full);
  json.key("mismatches").begin_array();
  for (const VerifyMismatch& each : verify.examples) {
    json.begin_object().key("id").raw(each.id);
    write_scores(json, "scores", each.scores);
    write_scores(json, "full_scores", each.full_scores);
    json.key("label_differs").boolean(each.label_differs).end_object();
  }
  json.end_array().end_object();
}

void write_fit(JsonWriter& json, const FitReport& fit) {
  json.key("fit").begin_object();
  json.key("rows").number(fit.rows);
  json.key("temperature").number(fit.temperature);
  json.key("temperature_fitted").number(fit.temperature_fitted);
  json.key("temperature_kept").boolean(fit.temperature_kept);
  json.key("nll_before").number(fit.nll_before).key("nll_after").number(fit.nll_after);
  json.key("ece_before").number(fit.ece_before).key("ece_after").number(fit.ece_after);
  if (fit.min_confidence) {
    json.key("min_confidence").number(*fit.min_confidence);
    json.key("held_accuracy").number(fit.held_accuracy);
    json.key("held_accuracy_low").number(fit.held_accuracy_low);
    json.key("held_coverage").number(fit.held_coverage);
  }
  json.end_object();
}

void write_order(JsonWriter& json, const OrderReport& order) {
  json.key("order_test").begin_object();
  json.key("texts").number(order.texts).key("orders").number(order.orders);
  json.key("flipped").number(order.flipped);
  json.key("flipped_calibrated").number(order.flipped_calibrated).end_object();
}

// Text with numbers in fixed places, for people.
std::string fixed(double value, int decimals) {
  std::array<char, 64> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                    std::chars_format::fixed, decimals);
  return result.ec == std::errc() ? std::string(buffer.data(), result.ptr) : six_digits(value);
}

std::string percent(double part) { return fixed(100 * part, 1) + " %"; }

std::string quality_text(const FileQuality& quality) {
  std::string text = "quality: accuracy " + percent(quality.accuracy) + " of " +
                     counted(quality.rows, "labelled row") + ", macro F1 " +
                     fixed(quality.macro_f1, 3);
  if (quality.coverage < 1) {
    text += ", " + percent(quality.coverage) + " accepted with accuracy " +
            percent(quality.accepted_accuracy);
  }
  text += ", calibration error " + fixed(quality.ece, 3) + "\n";
  if (quality.unknown_gold > 0) {
    text += "quality: " + counted(quality.unknown_gold, "row") +
            " with a true label that the task does not know\n";
  }
  return text;
}

std::string verify_text(const Classifier& classifier, const VerifyReport& verify) {
  const std::uint64_t same = verify.rows - verify.mismatches;
  std::string text =
      "cached = full: " + std::to_string(same) + " of " + std::to_string(verify.rows) +
      (classifier.report().exact ? ", to the bit" : ", approximate: within the tolerance") + "\n";
  for (const VerifyMismatch& each : verify.examples) {
    text += "  mismatch at id " + each.id + ":";
    for (std::size_t i = 0; i < each.scores.size() && i < each.full_scores.size(); ++i) {
      text += " " + classifier.task().labels[i].name + " " + six_digits(each.scores[i]) + " / " +
              six_digits(each.full_scores[i]);
    }
    text += "\n";
  }
  return text;
}

std::string fit_text(const FitReport& fit) {
  std::string text =
      "fit on " + counted(fit.rows, "row") + ": temperature " + six_digits(fit.temperature_fitted);
  text += fit.temperature_kept ? " improves" : " does not improve";
  text += " the other half";
  text += fit.temperature_kept ? "" : " and is not used";
  text +=
      ", calibration error " + fixed(fit.ece_before, 3) + " -> " + fixed(fit.ece_after, 3) + "\n";
  if (fit.min_confidence) {
    text += "fit: confidence from " + six_digits(*fit.min_confidence) + " on accepts " +
            percent(fit.held_coverage) + " with accuracy " + percent(fit.held_accuracy) +
            " (at least " + percent(fit.held_accuracy_low) + " with 95 % certainty)\n";
  }
  return text;
}

std::string warnings_text(const Classifier& classifier, const ReportParts& parts) {
  std::string text;
  for (const std::string& warning : classifier.report().warnings) {
    text += "warning: " + warning + "\n";
  }
  const FileReport& file = *parts.file;
  const bool is_plain = parts.job == nullptr || parts.job->calibration == Calibration::kNone;
  if (file.dominant && is_plain) {
    text += "warning: " + percent(file.dominant_share) + " of the distinct texts got the label '" +
            classifier.task().labels[*file.dominant].name +
            "'; if the texts are mixed, the model prefers that word: compare with "
            "--calibrate content-free\n";
  }
  if (!classifier.report().exact) {
    text += "warning: results are approximate: " + classifier.report().approximate_reason + "\n";
  }
  return text;
}

}  // namespace

std::string report_json(const Classifier& classifier, const ReportParts& parts) {
  const FileReport& file = *parts.file;
  JsonWriter json(2);
  json.begin_object();
  json.key("incipit").string(INCIPIT_VERSION);
  write_model(json, classifier.report());
  write_labels(json, classifier);
  write_counts(json, file);
  write_work(json, classifier.report(), file);
  write_predictions(json, classifier.task(), parts);
  if (file.quality) write_quality(json, *file.quality);
  if (file.verify) write_verify(json, *file.verify);
  if (parts.fit != nullptr) write_fit(json, *parts.fit);
  if (parts.order != nullptr) write_order(json, *parts.order);
  json.key("warnings").begin_array();
  for (const std::string& warning : classifier.report().warnings) json.string(warning);
  json.end_array();
  return json.end_object().take() + "\n";
}

std::string report_text(const Classifier& classifier, const ReportParts& parts) {
  const FileReport& file = *parts.file;
  std::string text = counted(file.rows, "row") + ": " + std::to_string(file.ok) + " ok, " +
                     std::to_string(file.review) + " review, " + counted(file.errors, "error") +
                     "; " + counted(file.unique, "distinct text") + "\n";
  text += "labels:";
  for (std::size_t i = 0; i < file.predicted.size(); ++i) {
    text += std::string(i == 0 ? " " : ", ") + classifier.task().labels[i].name + " " +
            std::to_string(file.predicted[i]);
  }
  if (!file.bias.empty()) {
    text += "; " + std::to_string(file.changed_by_calibration) + " changed by the calibration";
  }
  text += "\n";
  if (file.tokens_full > 0) {
    const SpeedUp speed = speed_up(file);
    text += fixed(ms_per_ticket(file), 1) + " ms per ticket; speed-up against full prompts " +
            fixed(speed.factor, 2) + "x (" + (speed.is_measured ? "measured" : "estimated") + ")\n";
    const double prefix = static_cast<double>(classifier.report().prefix_tokens);
    const double prompt = static_cast<double>(file.tokens_full) / static_cast<double>(file.scored);
    text += "static share of the prompt: " + fixed(100.0 * prefix / prompt, 0) + " % (" +
            fixed(prefix, 0) + " of " + fixed(prompt, 0) + " tokens, computed once)\n";
  }
  if (file.quality) text += quality_text(*file.quality);
  if (parts.fit != nullptr) text += fit_text(*parts.fit);
  if (parts.order != nullptr) {
    text += "order test: " + std::to_string(parts.order->flipped) + " of " +
            counted(parts.order->texts, "text") + " with another label under " +
            counted(parts.order->orders, "order") + " of the label list, " +
            std::to_string(parts.order->flipped_calibrated) + " with the calibration\n";
  }
  if (file.verify) text += verify_text(classifier, *file.verify);
  return text + warnings_text(classifier, parts);
}

}  // namespace incipit
