// SPDX-License-Identifier: Apache-2.0
#include "api/score_journal.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "support/temp_dir.h"

namespace incipit::api {
namespace {

const JournalFacts kFacts = {{"model", "abc"}, {"task", "def"}};

JournalRow scored_row(std::size_t number) {
  JournalRow row;
  row.kind = JournalRow::Kind::kScored;
  row.key = text_key(std::to_string(number));
  row.id = "\"" + std::to_string(number) + "\"";
  row.scored.scores = {-0.1 * static_cast<double>(number), -1.0 / 3, -0.0};
  row.scored.raw = {1e-300, -7, 5};
  row.scored.mass = 0.97;
  row.scored.facts = {.tokens = number,
                      .truncated_tokens = 1,
                      .neutralised = 2,
                      .utf8_replaced = 3,
                      .slow_path = number % 2 == 0,
                      .rescored = number % 3 == 1};
  return row;
}

bool same(const JournalRow& a, const JournalRow& b) {
  return a.kind == b.kind && a.key == b.key && a.first == b.first && a.id == b.id &&
         a.scored.error == b.scored.error && a.scored.scores == b.scored.scores &&
         a.scored.raw == b.scored.raw && a.scored.mass == b.scored.mass &&
         a.scored.facts.tokens == b.scored.facts.tokens &&
         a.scored.facts.slow_path == b.scored.facts.slow_path &&
         a.scored.facts.rescored == b.scored.facts.rescored &&
         a.scored.facts.utf8_replaced == b.scored.facts.utf8_replaced;
}

// A journal of a scored row, a repeat of it, a row that could not be read, and a scored row.
std::vector<JournalRow> write_journal(const std::string& path) {
  auto journal = ScoreJournal::start(File::open_update(path).value(), kFacts).value();
  std::vector<JournalRow> rows = {scored_row(1), {}, {}, scored_row(2)};
  rows[1].kind = JournalRow::Kind::kRepeat;
  rows[1].key = rows[0].key;
  rows[1].first = journal.append(rows[0]).value();
  for (std::size_t i = 1; i < rows.size(); ++i) EXPECT_TRUE(journal.append(rows[i]));
  EXPECT_TRUE(journal.flush());
  return rows;
}

std::vector<JournalRow> read_rows(ScoreJournal& journal) {
  std::vector<JournalRow> rows;
  JournalRow row;
  while (journal.next(row).value()) rows.push_back(row);
  return rows;
}

TEST(ScoreJournal, GivesRowsBackBitByBit) {
  const test::TempDir dir;
  const auto rows = write_journal(dir.path("a.state"));
  auto journal =
      ScoreJournal::resume(File::open_update(dir.path("a.state")).value(), kFacts).value();
  for (int pass = 0; pass < 2; ++pass) {
    const auto again = read_rows(journal);
    ASSERT_EQ(again.size(), rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_TRUE(same(rows[i], again[i])) << i;
    EXPECT_TRUE(std::signbit(again[0].scored.scores[2]));
    journal.rewind();
  }
  EXPECT_TRUE(same(journal.read_at(rows[1].first).value(), rows[0]));
}

TEST(ScoreJournal, ReadsRowsThatAreNotFlushed) {
  const test::TempDir dir;
  auto journal = ScoreJournal::start(File::temporary(dir.path("")).value(), kFacts).value();
  const std::uint64_t place = journal.append(scored_row(7)).value();
  EXPECT_TRUE(same(journal.read_at(place).value(), scored_row(7)));
}

TEST(ScoreJournal, NamesTheFactThatDiffers) {
  const test::TempDir dir;
  write_journal(dir.path("a.state"));
  const auto other = ScoreJournal::resume(File::open_update(dir.path("a.state")).value(),
                                          {{"model", "abc"}, {"task", "xyz"}});
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().message.find("another task (def, now xyz)"), std::string::npos);
}

// Cut anywhere, a journal gives a prefix of its rows and can be written on.
TEST(ScoreJournal, SurvivesACutAtEveryByte) {
  const test::TempDir dir;
  const auto rows = write_journal(dir.path("a.state"));
  const std::string bytes = dir.read("a.state");
  std::size_t opened = 0;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const std::string path = dir.file("cut.state", bytes.substr(0, size));
    auto journal = ScoreJournal::resume(File::open_update(path).value(), kFacts);
    if (!journal) continue;
    ++opened;
    const auto again = read_rows(*journal);
    ASSERT_LT(again.size(), rows.size());
    for (std::size_t i = 0; i < again.size(); ++i) ASSERT_TRUE(same(rows[i], again[i]));
    ASSERT_TRUE(journal->cut());
    ASSERT_TRUE(journal->append(scored_row(9)));
    ASSERT_TRUE(journal->flush());
    auto longer = ScoreJournal::resume(File::open_update(path).value(), kFacts).value();
    ASSERT_EQ(read_rows(longer).size(), again.size() + 1);
  }
  EXPECT_GT(opened, bytes.size() / 2);
}

// A flipped bit ends the journal there; it never changes a row and never crashes.
RC_GTEST_PROP(ScoreJournal, NeverGivesADamagedRow, ()) {
  const test::TempDir dir;
  const auto rows = write_journal(dir.path("a.state"));
  std::string bytes = dir.read("a.state");
  const auto place = *rc::gen::inRange<std::size_t>(0, bytes.size());
  bytes[place] = static_cast<char>(bytes[place] ^ (1 << *rc::gen::inRange(0, 8)));
  auto journal = ScoreJournal::resume(File::open_update(dir.file("b", bytes)).value(), kFacts);
  if (!journal) return;
  const auto again = read_rows(*journal);
  RC_ASSERT(again.size() < rows.size());
  for (std::size_t i = 0; i < again.size(); ++i) RC_ASSERT(same(rows[i], again[i]));
}

}  // namespace
}  // namespace incipit::api
