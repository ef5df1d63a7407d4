// SPDX-License-Identifier: Apache-2.0
//
// What `incipit doctor` found, as lines for a person. Pure functions.
#pragma once

#include <string>

#include "incipit/doctor.h"

namespace incipit::app {

[[nodiscard]] std::string doctor_text(const DoctorReport& report);

}  // namespace incipit::app
