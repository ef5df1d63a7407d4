// SPDX-License-Identifier: Apache-2.0
//
// The KV prefix cache as a user sees it: its settings, its reasons, its contents, its counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "incipit/attention_check.h"
#include "incipit/result.h"
#include "incipit/types.h"

namespace incipit {

struct KvOptions {
  // Shorter matches are not used.
  std::size_t tokens_min = 1;
  // Memory for cells that were pushed out of the runtime; 0 switches the level off.
  std::size_t memory_bytes = std::size_t{256} << 20U;
  // Only prefixes that were used again enter memory and files. Without it one-off prompts fill
  // them with what nobody asks for again.
  bool second_sight = true;
  // Computes instead of restoring where that was measured to be faster.
  bool break_even = true;
  // Part of the live cells that prefixes of a raised priority may keep others from, 0 to 1.
  double protected_share = 0.5;
  // Live cells that one tenant may hold while others want them; 0: all.
  std::size_t tenant_cells = 0;
  // Folder for prefixes that survive a restart; empty switches the level off.
  std::string folder;
  std::size_t folder_bytes = std::size_t{4} << 30U;
  // Memory for passages (PromptRequest::passages); 0: passages are always computed.
  std::size_t passage_bytes = std::size_t{256} << 20U;
  // Looks at every hit; one that is suspect is computed again, and dropped if its cells differ.
  // Needs EngineOptions::shows_attention and exact results.
  std::optional<AttentionCheck> attention_check{};

  bool operator==(const KvOptions&) const = default;
};

// Why a prompt was not matched further.
enum class KvMiss {
  kNone,         // All that may be matched was matched.
  kNeverCached,  // No prompt with these tokens was seen.
  kEvicted,      // It was cached and pushed out.
  kExpired,      // Its time was over.
  kDropped,      // The operator removed it.
  kOtherTenant,  // Only another tenant has it cached; nothing crosses between tenants.
  kTooShort,     // The match is below tokens_min.
  kLost,         // Its saved cells were missing or damaged.
  kNoRoom,       // It is there, but no cells are free to use it.
  kSlower,       // It is saved, but computing is measured to be faster than restoring.
  kSuspect,      // The attention check doubted the match: all was computed.
};

// "never cached", "evicted", ...: for reports.
[[nodiscard]] std::string to_string(KvMiss miss);

struct KvLookup {
  std::size_t tokens = 0;    // Of the prompt.
  std::size_t matched = 0;   // Tokens that need not be computed.
  std::size_t restored = 0;  // Of these, from memory or files.
  // Index of the first token that had to be computed although a prefix was wanted there.
  std::size_t first_missing = 0;
  KvMiss miss = KvMiss::kNone;
};

// What Generator::save() wrote.
struct KvSaved {
  std::size_t tokens = 0;
  std::size_t computed = 0;  // Of these, not cached before.
};

// One run of tokens in the cache: a node of the tree.
struct KvEntry {
  std::string tenant;
  std::size_t begin = 0;  // The entry holds the cells of tokens [begin, end) of its path.
  std::size_t end = 0;
  TokenVector tokens;  // The whole path, [0, end).
  bool is_live = false;
  bool is_in_memory = false;
  bool is_in_file = false;
  bool is_leased = false;
  std::uint64_t hits = 0;
  int priority = 0;
};

// Counts since the cache was made.
struct KvCounters {
  std::uint64_t lookups = 0;
  std::uint64_t tokens_wanted = 0;
  std::uint64_t tokens_matched = 0;
  std::uint64_t tokens_restored = 0;
  std::uint64_t evictions = 0;
  std::uint64_t expiries = 0;
  std::uint64_t saved = 0;          // Entries moved to memory.
  std::uint64_t saved_refused = 0;  // Not moved: seen once only.
  std::uint64_t too_large = 0;      // Not moved: larger than the level.
  std::uint64_t written = 0;        // Entries written to files.
  std::uint64_t write_errors = 0;
  std::uint64_t left_unwritten = 0;     // Pushed out of memory before there was a file.
  std::uint64_t lost = 0;               // Saved cells that were missing or damaged.
  std::uint64_t skipped_as_slower = 0;  // Saved cells that were computed instead.
  std::size_t memory_bytes = 0;         // In use now, with what waits for the disk.
};

// One file of a folder of KV states, as seen from outside.
struct KvState {
  std::string id;
  std::string fingerprint;  // Of the model, precision, instruction level and version it is for.
  std::string tenant;
  std::size_t begin = 0;  // It holds the cells of tokens [begin, end) of its path.
  std::size_t end = 0;
  std::uint64_t bytes = 0;
  std::string problem;  // Why it cannot be used, with the file's name; empty where it can.
};

// Lists a folder without changing it, also while another process owns it. The cells are not read.
// Errors: kUnavailable if the folder cannot be read.
Result<std::vector<KvState>> list_kv_folder(const std::string& folder);

}  // namespace incipit
