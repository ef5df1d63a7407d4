// SPDX-License-Identifier: Apache-2.0
//
// The scores of the rows that are done, in input order, on disk.
//
// One journal serves three needs. A text that occurs again takes its scores from here, so memory
// holds only a hash of each text. A calibration over a whole file reads it a second time, when
// the file is known. And an interrupted job replays it instead of asking the model: output is a
// function of input and journal, so what is resumed ends with the same bytes.
//
//     "incipit scores 1\n"  frame(facts)  frame(row 1)  frame(row 2)  ...
//
// A frame is its length, a checksum and a payload. A torn or damaged frame ends the journal; the
// rows from there on are scored again. The facts name everything that the scores depend on, and
// resume() refuses a journal with others. Numbers are stored as the machine has them: a journal
// is read on the machine that wrote it. Confined to one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/seen_texts.h"
#include "base/file.h"
#include "incipit/label.h"

namespace incipit::api {

struct JournalRow {
  enum class Kind : std::uint8_t {
    kUnreadable,  // The row could not be read; it has no scores.
    kScored,      // A text that occurs for the first time.
    kRepeat,      // Its scores stand at `first`.
  };
  Kind kind = Kind::kUnreadable;
  TextKey key;
  std::uint64_t first = 0;  // kRepeat: the place of the scored row.
  std::string id;           // kScored: for the dup_of of later rows.
  Scored scored;            // kScored.
};

// Name and value of what the scores depend on, in the order in which a person wants to hear it.
using JournalFacts = std::vector<std::pair<std::string, std::string>>;

class ScoreJournal {
 public:
  // Starts a journal in an empty file that can be read back.
  static Result<ScoreJournal> start(File file, const JournalFacts& facts);
  // Opens a journal for replay. Errors: kInvalidArgument names the fact that differs, or says
  // that the file is no journal.
  static Result<ScoreJournal> resume(File file, const JournalFacts& facts);

  // Reads the row after the last one read; false at the end.
  Result<bool> next(JournalRow& row);
  // The place of the row that next() gave last.
  [[nodiscard]] std::uint64_t place() const { return place_; }
  // next() begins again with the first row.
  void rewind() { next_ = rows_begin_; }
  // Forgets everything behind the last row read, so that appending can go on there.
  Result<void> cut();

  // Returns the place of the row.
  Result<std::uint64_t> append(const JournalRow& row);
  // Hands appended rows to the system.
  Result<void> flush();
  // Requires: `place` came from place() or append().
  Result<JournalRow> read_at(std::uint64_t place) const;

 private:
  explicit ScoreJournal(File file) : file_(std::move(file)) {}
  // The payload of the frame at `place`; false if there is no sound frame.
  Result<bool> read_frame(std::uint64_t place, std::string& payload) const;
  Result<std::size_t> read_bytes(std::uint64_t place, std::size_t count, std::string& bytes) const;
  void append_frame(std::string_view payload);

  File file_;
  std::string pending_;        // Appended and not yet flushed.
  std::uint64_t flushed_ = 0;  // Bytes that are in the file.
  std::uint64_t rows_begin_ = 0;
  std::uint64_t next_ = 0;
  std::uint64_t place_ = 0;
};

}  // namespace incipit::api
