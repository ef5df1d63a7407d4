// SPDX-License-Identifier: Apache-2.0
//
// What the rows of a job depend on, by name: the reason for or against resuming it.
#pragma once

#include "api/score_journal.h"
#include "incipit/classify_file.h"
#include "incipit/engine.h"

namespace incipit::api {

// Long values are given by the start of their hash. The input's rows are not part of it: they are
// compared one by one when the journal is replayed.
[[nodiscard]] JournalFacts job_facts(const Classifier& classifier, const FileJob& job,
                                     const RowFormat& input, const RowFormat& output);

}  // namespace incipit::api
