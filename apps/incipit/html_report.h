// SPDX-License-Identifier: Apache-2.0
//
// The benchmark's result as one HTML file that needs nothing else: no script, no font, no image,
// no network. It follows the reader's light or dark setting, fits a phone and prints.
//
// The page says first what a reader wants to know (time per text, speed-up, share of the prompt
// that never changes, proof that nothing else changed), then shows two plots with their numbers
// in tables, every mode, and the machine. A part without data says so and is not left out.
//
// BenchReport is plain data; `incipit bench classify` fills it. Pure function.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace incipit::app {

// How the texts were evaluated; the names and explanations are in mode_name() and the report.
enum class BenchMode { kFull, kFullBatched, kCached, kBatched, kDeduplicated };

// "full", "full batched", "cached", "batched", "deduplicated".
std::string_view mode_name(BenchMode mode);

struct ModeTime {
  std::string precision;  // "bf16", "f32"
  BenchMode mode = BenchMode::kFull;
  double total_s = 0;
  double ms_per_ticket = 0;
  double speed_up = 0;  // Against kFull in the same precision.
};

// One prefix length of the first plot.
struct SharePoint {
  std::string series;  // Such as "bf16"; points of one name form a line.
  std::size_t prefix_tokens = 0;
  double static_share = 0;  // 0 to 1: prefix tokens of all prompt tokens.
  double full_ms = 0;       // Per text.
  double batched_ms = 0;
  double speed_up = 0;
};

// One batch size of the second plot.
struct BatchPoint {
  std::string series;
  std::size_t batch = 0;
  double ms_per_ticket = 0;
};

// Something that was checked, and how often it held: "cached = full", 30 of 30, "bit-equal".
struct Proof {
  std::string claim;
  std::size_t equal = 0;
  std::size_t total = 0;
  std::string kind;  // What "equal" means where it held: "bit-equal".
};

struct Fact {
  std::string name;
  std::string value;
};

struct BenchReport {
  std::string title;    // Such as "Sorting 30 tickets".
  std::string date;     // As it shall appear.
  std::string command;  // What reproduces the report.
  std::size_t tickets = 0;
  std::size_t prefix_tokens = 0;  // The part of the prompt that is the same for every ticket.
  double prompt_tokens = 0;       // The whole prompt, mean over the tickets.
  std::vector<ModeTime> modes;    // In the order of the table; one precision after the other.
  std::vector<SharePoint> shares;
  std::vector<BatchPoint> batches;
  std::vector<Proof> proofs;
  std::vector<Fact> machine;  // CPU, instructions, threads, model, versions.
};

// Returns the whole document. Every text in `report` is escaped; numbers that are not finite
// appear as "n/a".
std::string html_report(const BenchReport& report);

}  // namespace incipit::app
