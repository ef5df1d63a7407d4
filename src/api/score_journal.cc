// SPDX-License-Identifier: Apache-2.0
#include "api/score_journal.h"

#include <algorithm>
#include <span>
#include <type_traits>

namespace incipit::api {
namespace {

// Bits of a scored row's last byte.
constexpr unsigned kSlowPath = 1;
constexpr unsigned kRescored = 2;

constexpr std::string_view kMagic = "incipit scores 1\n";
constexpr std::size_t kFrameHead = sizeof(std::uint32_t) + sizeof(std::uint64_t);
// Far above a row of ten thousand labels; a length beyond it is damage.
constexpr std::uint32_t kPayloadMax = std::uint32_t{64} << 20U;

// FNV-1a: finds torn and flipped bytes; nobody attacks a file of his own.
std::uint64_t checksum(std::string_view bytes) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const char c : bytes) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  }
  return hash;
}

template <typename T>
void put(std::string& out, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  const auto bytes = std::as_bytes(std::span(&value, 1));
  out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

void put(std::string& out, const std::string& text) {
  put(out, std::uint64_t{text.size()});
  out += text;
}

void put(std::string& out, const std::vector<double>& values) {
  put(out, std::uint64_t{values.size()});
  for (const double value : values) put(out, value);
}

std::unexpected<Error> another_run(const std::string& path, const std::string& name,
                                   const std::string& stored, const std::string& value) {
  return failure(ErrorCode::kInvalidArgument, path + " was written with another " + name + " (" +
                                                  stored + ", now " + value +
                                                  "); run without --resume to start over");
}

// Takes values off the front of `bytes_`; sound() is false once one was missing.
class Taker {
 public:
  explicit Taker(std::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  T take() {
    T value{};
    if (bytes_.size() < sizeof(T)) {
      is_sound_ = false;
      bytes_ = {};
      return value;
    }
    bytes_.copy(reinterpret_cast<char*>(&value), sizeof(T));
    bytes_.remove_prefix(sizeof(T));
    return value;
  }

  std::string take_text() {
    const std::size_t size = take_size(1);
    std::string text(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return text;
  }

  std::vector<double> take_numbers() {
    std::vector<double> values(take_size(sizeof(double)));
    for (double& value : values) value = take<double>();
    return values;
  }

  [[nodiscard]] bool sound() const { return is_sound_ && bytes_.empty(); }

 private:
  std::size_t take_size(std::size_t item_bytes) {
    const auto size = take<std::uint64_t>();
    if (size <= bytes_.size() / item_bytes) return size;
    is_sound_ = false;
    return 0;
  }

  std::string_view bytes_;
  bool is_sound_ = true;
};

std::string encode(const JournalRow& row) {
  std::string out;
  put(out, row.kind);
  put(out, row.key);
  if (row.kind == JournalRow::Kind::kRepeat) put(out, row.first);
  if (row.kind != JournalRow::Kind::kScored) return out;
  put(out, row.id);
  put(out, row.scored.error);
  put(out, row.scored.scores);
  put(out, row.scored.raw);
  put(out, row.scored.mass);
  const TextFacts& facts = row.scored.facts;
  for (const std::size_t number :
       {facts.tokens, facts.truncated_tokens, facts.neutralised, facts.utf8_replaced}) {
    put(out, std::uint64_t{number});
  }
  put(out, static_cast<std::uint8_t>((facts.slow_path ? kSlowPath : 0) |
                                     (facts.rescored ? kRescored : 0)));
  return out;
}

bool decode(std::string_view payload, JournalRow& row) {
  Taker taker(payload);
  row = {};
  row.kind = taker.take<JournalRow::Kind>();
  row.key = taker.take<TextKey>();
  if (row.kind == JournalRow::Kind::kRepeat) row.first = taker.take<std::uint64_t>();
  if (row.kind == JournalRow::Kind::kScored) {
    row.id = taker.take_text();
    row.scored.error = taker.take_text();
    row.scored.scores = taker.take_numbers();
    row.scored.raw = taker.take_numbers();
    row.scored.mass = taker.take<double>();
    TextFacts& facts = row.scored.facts;
    for (std::size_t* number :
         {&facts.tokens, &facts.truncated_tokens, &facts.neutralised, &facts.utf8_replaced}) {
      *number = taker.take<std::uint64_t>();
    }
    const auto flags = taker.take<std::uint8_t>();
    facts.slow_path = (flags & kSlowPath) != 0;
    facts.rescored = (flags & kRescored) != 0;
  }
  return taker.sound() && row.kind <= JournalRow::Kind::kRepeat;
}

}  // namespace

void ScoreJournal::append_frame(std::string_view payload) {
  put(pending_, static_cast<std::uint32_t>(payload.size()));
  put(pending_, checksum(payload));
  pending_ += payload;
}

Result<ScoreJournal> ScoreJournal::start(File file, const JournalFacts& facts) {
  ScoreJournal journal(std::move(file));
  journal.pending_ = kMagic;
  std::string payload;
  for (const auto& [name, value] : facts) {
    put(payload, name);
    put(payload, value);
  }
  journal.append_frame(payload);
  journal.rows_begin_ = journal.next_ = journal.place_ = journal.pending_.size();
  INCIPIT_TRY_VOID(journal.flush());
  return journal;
}

Result<ScoreJournal> ScoreJournal::resume(File file, const JournalFacts& facts) {
  ScoreJournal journal(std::move(file));
  const std::string path = journal.file_.path();
  INCIPIT_TRY(journal.flushed_, journal.file_.size());
  std::string bytes;
  INCIPIT_TRY_VOID(journal.read_bytes(0, kMagic.size(), bytes));
  std::string payload;
  INCIPIT_TRY(const bool has_facts, journal.read_frame(kMagic.size(), payload));
  if (bytes != kMagic || !has_facts) {
    return failure(ErrorCode::kInvalidArgument,
                   path + " does not hold scores; run without --resume to start over");
  }
  Taker taker(payload);
  for (const auto& [name, value] : facts) {
    const std::string stored_name = taker.take_text();
    const std::string stored = taker.take_text();
    if (stored_name != name || stored != value) return another_run(path, name, stored, value);
  }
  journal.rows_begin_ = journal.next_ = journal.place_ =
      kMagic.size() + kFrameHead + payload.size();
  return journal;
}

Result<std::size_t> ScoreJournal::read_bytes(std::uint64_t place, std::size_t count,
                                             std::string& bytes) const {
  const std::uint64_t end = flushed_ + pending_.size();
  place = std::min(place, end);
  count = static_cast<std::size_t>(std::min<std::uint64_t>(count, end - place));
  if (place >= flushed_) {
    bytes = pending_.substr(static_cast<std::size_t>(place - flushed_), count);
    return count;
  }
  bytes.resize(count);
  return file_.read_at(std::as_writable_bytes(std::span(bytes)), place);
}

Result<bool> ScoreJournal::read_frame(std::uint64_t place, std::string& payload) const {
  std::string head;
  INCIPIT_TRY(const std::size_t count, read_bytes(place, kFrameHead, head));
  if (count != kFrameHead) return false;
  Taker taker(head);
  const auto length = taker.take<std::uint32_t>();
  const auto sum = taker.take<std::uint64_t>();
  if (length > kPayloadMax) return false;
  INCIPIT_TRY(const std::size_t got, read_bytes(place + kFrameHead, length, payload));
  return got == length && checksum(payload) == sum;
}

Result<bool> ScoreJournal::next(JournalRow& row) {
  std::string payload;
  INCIPIT_TRY(const bool is_sound, read_frame(next_, payload));
  if (!is_sound || !decode(payload, row)) return false;
  // A repeat points back to a row before it; anything else is damage.
  if (row.kind == JournalRow::Kind::kRepeat && (row.first < rows_begin_ || row.first >= next_)) {
    return false;
  }
  place_ = next_;
  next_ += kFrameHead + payload.size();
  return true;
}

Result<void> ScoreJournal::cut() {
  INCIPIT_TRY_VOID(flush());
  INCIPIT_TRY_VOID(file_.truncate(next_));
  flushed_ = next_;
  return {};
}

Result<std::uint64_t> ScoreJournal::append(const JournalRow& row) {
  const std::uint64_t place = flushed_ + pending_.size();
  append_frame(encode(row));
  return place;
}

Result<void> ScoreJournal::flush() {
  INCIPIT_TRY_VOID(file_.write_at(pending_, flushed_));
  flushed_ += pending_.size();
  pending_.clear();
  return {};
}

Result<JournalRow> ScoreJournal::read_at(std::uint64_t place) const {
  JournalRow row;
  std::string payload;
  INCIPIT_TRY(const bool is_sound, read_frame(place, payload));
  if (!is_sound || !decode(payload, row) || row.kind != JournalRow::Kind::kScored) {
    return failure(ErrorCode::kCorruption, file_.path() + ": the scores at byte " +
                                               std::to_string(place) +
                                               " are damaged; run without --resume to start over");
  }
  return row;
}

}  // namespace incipit::api
