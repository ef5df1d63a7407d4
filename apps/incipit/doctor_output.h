// SPDX-License-Identifier: Apache-2.0
//
// What `incipit doctor` found, as lines for a person. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "incipit/doctor.h"

namespace incipit::app {

// `not_proved` says why no way to run a model was tried; it counts where the report has none.
[[nodiscard]] std::string doctor_text(const DoctorReport& report, std::string_view not_proved);

}  // namespace incipit::app
