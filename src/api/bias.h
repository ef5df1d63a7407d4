// SPDX-License-Identifier: Apache-2.0
//
// Where the numbers come from that a calibration subtracts from the scores.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "incipit/classify_file.h"
#include "incipit/engine.h"

namespace incipit::api {

// The bias that is known before the first row: of a text without content, or of priors. Empty
// for kNone and kBatch. Errors: kInvalidArgument for a prior file that is wrong.
Result<std::vector<double>> known_bias(Classifier& classifier, Calibration calibration,
                                       const std::string& prior_file);

// Priors as a bias. The file is a JSON object with a positive number for each label; they need
// not sum to 1. Errors: kInvalidArgument "FILE:LINE:COLUMN: ...".
Result<std::vector<double>> read_priors(const std::string& path, const Task& task);

}  // namespace incipit::api
