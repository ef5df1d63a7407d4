// SPDX-License-Identifier: Apache-2.0
//
// What a fingerprint hashes, as text beside it in a file: so that a file which is not used can say
// which part differs. Only for a person: the text comes from whoever wrote the file, and nothing
// is decided by it.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "model/runtime.h"

namespace incipit::store {

// "model=1d96...;precision=bf16;...": printable, without quotes, at most 2 KiB.
[[nodiscard]] std::string parts_text(std::span<const model::FingerprintPart> parts);

// "of another precision (f32; here bf16)", with every part that differs; in general words where
// `theirs` does not tell. Printable whatever `theirs` holds, and short.
[[nodiscard]] std::string difference(std::string_view theirs, std::string_view ours);

}  // namespace incipit::store
