// SPDX-License-Identifier: Apache-2.0
//
// The cache directory as far as models go: where prepared weights and proofs of the law are kept,
// and which hash a model file had when it was last read.
//
//     <home>/prepared/<sha256 of the model>/weights      PreparedWeights
//     <home>/prepared/<sha256 of the model>/law-<key>    what the self-test found
//     <home>/hashes/<device>-<inode>                     size, time and hash of a model file
#pragma once

#include <string>

#include "incipit/result.h"

namespace incipit::model {

// `asked`, else $INCIPIT_HOME, else $XDG_CACHE_HOME/incipit, else ~/.cache/incipit.
[[nodiscard]] std::string cache_home(const std::string& asked);

// SHA-256 of a file, remembered by device, inode, size and time of change, so that half a
// gigabyte is not hashed at every start. Errors: kInvalidArgument if it cannot be read.
Result<std::string> remembered_sha256(const std::string& path, const std::string& home);

// The folder for what is made of a model; makes it. Errors: as make_directories().
Result<std::string> prepared_folder(const std::string& home, const std::string& sha256);

}  // namespace incipit::model
