// SPDX-License-Identifier: Apache-2.0
//
// The state of an interrupted run: a torn or damaged one gives whole rows, then ends.
#include "api/score_journal.h"

#include "base/file.h"
#include "fuzz_target.h"
#include "support/must.h"
#include "support/temp_dir.h"

namespace incipit::fuzz {
namespace {

const api::JournalFacts kFacts = {{"model", "abc"}, {"task", "def"}};

}  // namespace

std::vector<std::string> seeds() {
  const test::TempDir dir;
  auto journal =
      test::must(api::ScoreJournal::start(test::must(File::open_update(dir.path("j"))), kFacts));
  api::JournalRow row;
  row.kind = api::JournalRow::Kind::kScored;
  row.key = api::text_key("x");
  row.id = "\"1\"";
  row.scored.scores = row.scored.raw = {-0.1, -2.5, -7};
  row.scored.facts.tokens = 9;
  const std::uint64_t first = test::must(journal.append(row));
  row = {};
  row.kind = api::JournalRow::Kind::kRepeat;
  row.first = first;
  test::must(journal.append(row));
  row.kind = api::JournalRow::Kind::kUnreadable;
  test::must(journal.append(row));
  test::must(journal.flush());
  return {dir.read("j")};
}

std::vector<std::string> words() { return {"model", std::string("\x03\0\0\0", 4)}; }

}  // namespace incipit::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace incipit;
  const fuzz::MemoryFile file(fuzz::text_of(data, size));
  auto journal = api::ScoreJournal::resume(test::must(File::open_update(file.path())),
                                           {{"model", "abc"}, {"task", "def"}});
  if (!journal) return 0;
  api::JournalRow row;
  std::size_t rows = 0;
  while (true) {
    const auto more = journal->next(row);
    if (!more || !*more) break;
    ++fuzz::accepted;
    fuzz::expect(++rows <= size, "more rows than bytes");
    fuzz::expect(journal->place() < size, "a row behind the end");
    if (row.kind == api::JournalRow::Kind::kRepeat) static_cast<void>(journal->read_at(row.first));
  }
  fuzz::expect(journal->cut().has_value(), "what was read cannot be kept");
  return 0;
}
