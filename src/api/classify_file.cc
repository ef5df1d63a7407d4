// SPDX-License-Identifier: Apache-2.0
#include "incipit/classify_file.h"

#include "api/file_run.h"

namespace incipit {

Result<FileReport> classify_file(Classifier& classifier, const FileJob& job) {
  return api::FileRun::run(classifier, job);
}

}  // namespace incipit
