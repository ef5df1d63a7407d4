// SPDX-License-Identifier: Apache-2.0
#include "api/job_facts.h"

#include <span>
#include <string>

#include "api/json_writer.h"
#include "base/hash.h"
#include "incipit/task_file.h"

namespace incipit::api {
namespace {

std::string short_hash(std::string_view text) {
  return sha256_hex(std::as_bytes(std::span(text))).substr(0, 16);
}

std::string label_tokens(const ClassifierReport& report) {
  JsonWriter json;
  json.begin_array();
  for (const SurfaceTokens& surface : report.surfaces) {
    json.begin_array().number(surface.label).string(surface.surface);
    for (const TokenPiece& piece : surface.tokens) json.number(piece.id);
    json.end_array();
  }
  return json.end_array().take();
}

void write_format(JsonWriter& json, const RowFormat& format) {
  json.begin_array().boolean(format.kind == RowFormat::Kind::kCsv);
  json.string({&format.delimiter, 1}).boolean(format.header).end_array();
}

std::string job_options(const FileJob& job, const RowFormat& input, const RowFormat& output) {
  JsonWriter json;
  json.begin_array();
  write_format(json, input);
  write_format(json, output);
  for (const std::string& field : job.fields.text) json.string(field);
  json.string(job.fields.join).string(job.fields.id).string(job.fields.label);
  json.boolean(job.fields.keep).number(job.fields.row_bytes_max);
  json.number(static_cast<int>(job.calibration)).string(job.prior_file);
  json.boolean(job.dedupe).boolean(job.probabilities).boolean(job.csv_safe);
  return json.end_array().take();
}

}  // namespace

JournalFacts job_facts(const Classifier& classifier, const FileJob& job, const RowFormat& input,
                       const RowFormat& output) {
  const ClassifierReport& report = classifier.report();
  const std::string prefix = json_string(report.prefix_text) + json_string(report.tail_text) +
                             std::to_string(report.prefix_tokens);
  return {{"version of incipit", INCIPIT_VERSION},
          {"model", report.model_sha256.substr(0, 16)},
          {"precision", report.precision + "/" + report.kv_type},
          {"runtime or machine", short_hash(report.fingerprint)},
          {"prompt", short_hash(prefix)},
          {"label list", short_hash(label_tokens(report))},
          {"task", short_hash(task_json(classifier.task()))},
          {"set of options", short_hash(job_options(job, input, output))}};
}

}  // namespace incipit::api
