// SPDX-License-Identifier: Apache-2.0
#include "api/bias.h"

#include <algorithm>
#include <optional>

#include "api/json_cursor.h"
#include "base/file.h"
#include "policy/calibration.h"

namespace incipit::api {
namespace {

constexpr std::size_t kPriorBytesMax = std::size_t{4} << 20U;

}  // namespace

Result<std::vector<double>> read_priors(const std::string& path, const Task& task) {
  INCIPIT_TRY(const std::string text, read_file(path, kPriorBytesMax));
  JsonCursor json(text, path);
  std::vector<std::optional<double>> priors(task.labels.size());
  INCIPIT_TRY_VOID(json.enter_object());
  std::string name;
  while (true) {
    INCIPIT_TRY(const bool more, json.next_member(name));
    if (!more) break;
    const auto label = std::ranges::find(task.labels, name, &LabelDefinition::name);
    if (label == task.labels.end()) return json.fail("'" + name + "' is not one of the labels");
    auto& prior = priors[static_cast<std::size_t>(label - task.labels.begin())];
    if (prior) return json.fail(name + ": this label occurs twice");
    INCIPIT_TRY(prior, json.number());
    if (!(*prior > 0)) return json.fail(name + ": a prior must be greater than 0");
  }
  INCIPIT_TRY_VOID(json.finish());
  std::vector<double> values;
  for (std::size_t i = 0; i < priors.size(); ++i) {
    if (!priors[i]) return json.fail_at(0, "there is no prior for '" + task.labels[i].name + "'");
    values.push_back(*priors[i]);
  }
  return policy::prior_bias(values);
}

Result<std::vector<double>> known_bias(Classifier& classifier, Calibration calibration,
                                       const std::string& prior_file) {
  switch (calibration) {
    case Calibration::kContentFree:
      return classifier.content_free_bias();
    case Calibration::kPrior:
      return read_priors(prior_file, classifier.task());
    case Calibration::kNone:
    case Calibration::kBatch:
      break;
  }
  return std::vector<double>{};
}

}  // namespace incipit::api
