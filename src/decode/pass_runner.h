// SPDX-License-Identifier: Apache-2.0
//
// Runs the steps of many prompts in as few passes as the cells allow.
//
// Work comes as a forest: a root continues a shared prefix by one prompt's own tokens, and what
// stands below an item forks from it. Items of equal depth of all prompts go into one pass.
// A group that takes too many cells is split in halves, and each half is finished, with all that
// stands below it, before the other begins: so the cells that are held stay few, and nothing but
// time depends on how many there are. Every fork is dropped on the way back.
// Confined to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "incipit/result.h"
#include "incipit/types.h"
#include "model/runtime.h"

namespace incipit::decode {

// One step to be: `tokens` behind the first `shared` cells of `parent`.
struct PassItem {
  std::size_t prompt = 0;
  std::size_t segment = 0;  // What the visitor makes of it.
  model::SequenceId parent{};
  std::size_t shared = 0;  // 0: a fresh sequence, `parent` is not looked at.
  TokenSpan tokens;        // Kept alive by the visitor until run() is over.
  std::span<const std::uint32_t> logits_rows;
  bool has_more = false;  // Something may stand below: leave cells for it.
};

// What gives meaning to the items.
class PassVisitor {
 public:
  PassVisitor() = default;
  PassVisitor(const PassVisitor&) = delete;
  PassVisitor& operator=(const PassVisitor&) = delete;
  virtual ~PassVisitor() = default;

  // Reads the item's rows, which begin at `first_row` of `logits`.
  virtual void read(const PassItem& item, const model::Logits& logits, std::size_t first_row) = 0;
  // What follows the item, which now ends `sequence`. May name sequences further up, too.
  virtual std::vector<PassItem> next(const PassItem& item, const model::Sequence& sequence) = 0;
  // There are no cells for this item beside those that are held; next() will not be called.
  virtual void does_not_fit(const PassItem& item) = 0;
};

struct PassLimits {
  std::size_t tokens_max = 0;         // Rows of one pass; 0: as many as there are cells.
  std::size_t logits_rows_max = 256;  // Bounds the memory of logits: rows * vocabulary * 4 bytes.
};

struct PassCounters {
  std::uint64_t passes = 0;
  std::uint64_t tokens = 0;
  std::uint64_t logits_rows = 0;
};

class PassRunner {
 public:
  // The runtime must outlive the runner.
  PassRunner(model::Runtime& runtime, PassLimits limits) : runtime_(runtime), limits_(limits) {}

  // Runs the roots and all that follows from them.
  // Errors: what evaluate() and fork() report, kResourceExhausted aside.
  Result<void> run(std::span<const PassItem> roots, PassVisitor& visitor);
  // The same, holding the cells of one path at a time: the least that can be needed.
  Result<void> run_singly(const PassItem& root, PassVisitor& visitor);

  [[nodiscard]] const PassCounters& counters() const { return counters_; }

 private:
  Result<void> run_groups(std::span<const PassItem> items, PassVisitor& visitor);
  Result<void> run_group(std::span<const PassItem> items, PassVisitor& visitor);
  [[nodiscard]] std::size_t group_size(std::span<const PassItem> items) const;
  Result<model::Sequence> open(const PassItem& item);
  Result<model::Logits> evaluate(std::span<const PassItem> items,
                                 std::vector<model::Sequence>& sequences);

  model::Runtime& runtime_;
  PassLimits limits_;
  PassCounters counters_;
  bool singly_ = false;
};

}  // namespace incipit::decode
