// SPDX-License-Identifier: Apache-2.0
#include "support/fake_runtime.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>

#include "base/check.h"
#include "base/hash.h"

namespace incipit::test {
namespace {

using model::SequenceId;
using model::Step;

constexpr std::string_view kMagic = "FAKECELL";

// The finaliser of SplitMix64: every input bit reaches every output bit.
std::uint64_t mix(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15U;
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31U);
}

std::uint64_t mix(std::uint64_t first, std::uint64_t second) { return mix(first ^ mix(second)); }

// A number in [-1, 1) of 24 bits, so that it is the same float everywhere.
float signed_unit(std::uint64_t hash) { return static_cast<float>(hash >> 40U) * 0x1p-23F - 1.0F; }

template <typename T>
void put(std::vector<std::byte>& bytes, const T& value) {
  const auto view = std::as_bytes(std::span(&value, 1));
  bytes.insert(bytes.end(), view.begin(), view.end());
}

// Reads values off the front of bytes whose size was checked before.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <typename T>
  T take() {
    T value{};
    std::memcpy(&value, bytes_.data(), sizeof(T));
    bytes_ = bytes_.subspan(sizeof(T));
    return value;
  }
  std::string take_text(std::size_t size) {
    std::string text(size, '\0');
    std::memcpy(text.data(), bytes_.data(), size);
    bytes_ = bytes_.subspan(size);
    return text;
  }

 private:
  std::span<const std::byte> bytes_;
};

std::uint64_t checksum(std::span<const std::byte> bytes) {
  std::uint64_t sum = bytes.size();
  for (const std::byte byte : bytes) sum = mix(sum, std::to_integer<std::uint64_t>(byte));
  return sum;
}

// A cell that did not move is what it was.
std::uint64_t moved_state(std::uint64_t state, std::uint64_t from, std::uint64_t to) {
  return from == to ? state : mix(state, mix(from - to));
}

constexpr std::size_t kCellBytes = sizeof(Token) + sizeof(std::uint64_t);
constexpr std::size_t kFingerprintBytes = 64;
constexpr std::size_t kFrameBytes =
    kMagic.size() + kFingerprintBytes + 3 * sizeof(std::uint64_t);  // begin, end, checksum

}  // namespace

FakeRuntime::FakeRuntime(FakeOptions options) : options_(options) {
  INCIPIT_CHECK(options.block_cells > 0 && options.vocabulary > 1, "fake runtime options");
  limits_.vocabulary = options.vocabulary;
  limits_.context_tokens = options.context_tokens;
  if (options.sequences > 0) limits_.sequences = options.sequences;
  blocks_.resize(options.cells / options.block_cells);
  for (std::size_t i = blocks_.size(); i-- > 0;) free_blocks_.push_back(i);
  limits_.cells = blocks_.size() * options.block_cells;
  limits_.cell_bytes = kCellBytes + options.padding_bytes;
  limits_.fork_cells = 2 * (options.block_cells - 1);
  limits_.can_move = options.can_move;
  if (options.shows_attention) {
    limits_.attention_layers = 1;
    limits_.attention_heads = 2;
  }
  limits_.exact = options.exact;
  if (!options.exact) limits_.approximate_reason = "the fake was told to drift";
  fingerprint_ = Sha256().field("fake").field(options.seed).field(options.block_cells).hex();
}

const FakeRuntime::Row& FakeRuntime::row(SequenceId sequence) const {
  const auto found = sequences_.find(std::to_underlying(sequence));
  INCIPIT_CHECK(found != sequences_.end(), "a sequence that was dropped or never made");
  return found->second;
}

FakeRuntime::Row& FakeRuntime::row(SequenceId sequence) {
  return const_cast<Row&>(std::as_const(*this).row(sequence));  // NOLINT: same lookup, not const.
}

std::size_t FakeRuntime::blocks_free() const {
  return free_blocks_.size() - std::min(withheld_blocks_, free_blocks_.size());
}

std::size_t FakeRuntime::cells_free() const { return blocks_free() * options_.block_cells; }

void FakeRuntime::withhold_cells(std::size_t cells) {
  withheld_blocks_ = (cells + options_.block_cells - 1) / options_.block_cells;
}

std::size_t FakeRuntime::allocate() {
  const std::size_t index = free_blocks_.back();
  free_blocks_.pop_back();
  blocks_[index].references = 1;
  blocks_[index].cells.assign(options_.block_cells, Cell{});
  return index;
}

void FakeRuntime::release(std::size_t block) {
  if (--blocks_[block].references == 0) free_blocks_.push_back(block);
}

const FakeRuntime::Cell& FakeRuntime::cell(const Row& source, std::size_t position) const {
  return blocks_[source.blocks[position / options_.block_cells]]
      .cells[position % options_.block_cells];
}

// What attention does: a row looks at every cell before it.
std::uint64_t FakeRuntime::attend(const Row& source) const {
  std::uint64_t seen = mix(options_.seed);
  for (std::size_t i = 0; i < source.length; ++i) seen = mix(seen, cell(source, i).state);
  return seen;
}

std::uint64_t FakeRuntime::state_after(TokenSpan prefix) const {
  std::uint64_t seen = mix(options_.seed);
  std::uint64_t state = 0;
  for (const Token token : prefix) {
    state = mix(seen, static_cast<std::uint64_t>(token) + 1);
    seen = mix(seen, state);
  }
  return state;
}

// Fresh blocks for `added` cells, and one more where the last block is shared and half used.
std::size_t FakeRuntime::blocks_wanted(const Row& target, std::size_t added) const {
  const std::size_t size = options_.block_cells;
  const std::size_t total = (target.length + added + size - 1) / size;
  const bool copies = added > 0 && target.length % size != 0 &&
                      blocks_[target.blocks[target.length / size]].references > 1;
  return total - target.blocks.size() + (copies ? 1 : 0);
}

void FakeRuntime::append(Row& target, Cell added) {
  const std::size_t index = target.length / options_.block_cells;
  if (index == target.blocks.size()) {
    target.blocks.push_back(allocate());
  } else if (blocks_[target.blocks[index]].references > 1) {
    const std::size_t copy = allocate();
    blocks_[copy].cells = blocks_[target.blocks[index]].cells;
    release(target.blocks[index]);
    target.blocks[index] = copy;
  }
  blocks_[target.blocks[index]].cells[target.length % options_.block_cells] = added;
  ++target.length;
}

Result<SequenceId> FakeRuntime::create() {
  if (sequences_free() == 0)
    return failure(ErrorCode::kResourceExhausted, "create: no free sequences");
  const SequenceId id{next_sequence_++};
  sequences_[std::to_underlying(id)] = {};
  return id;
}

Result<SequenceId> FakeRuntime::fork(SequenceId source, std::size_t length) {
  const Row& from = row(source);
  if (length > from.length) {
    return failure(ErrorCode::kInvalidArgument, "fork: the source is shorter than the length");
  }
  if (sequences_free() == 0)
    return failure(ErrorCode::kResourceExhausted, "fork: no free sequences");
  const std::size_t whole = length / options_.block_cells;
  const std::size_t rest = length % options_.block_cells;
  if (rest > 0 && blocks_free() == 0) {
    return failure(ErrorCode::kResourceExhausted, "fork: no free cells");
  }
  Row made;
  for (std::size_t i = 0; i < whole; ++i) {
    made.blocks.push_back(from.blocks[i]);
    ++blocks_[from.blocks[i]].references;
  }
  made.length = whole * options_.block_cells;
  for (std::size_t i = 0; i < rest; ++i) append(made, cell(from, made.length));
  const SequenceId id{next_sequence_++};
  sequences_[std::to_underlying(id)] = std::move(made);
  return id;
}

Result<void> FakeRuntime::truncate(SequenceId sequence, std::size_t length) {
  Row& target = row(sequence);
  if (length > target.length) {
    return failure(ErrorCode::kInvalidArgument, "truncate: the sequence is shorter");
  }
  target.length = length;
  const std::size_t kept = (length + options_.block_cells - 1) / options_.block_cells;
  while (target.blocks.size() > kept) {
    release(target.blocks.back());
    target.blocks.pop_back();
  }
  return {};
}

void FakeRuntime::drop(SequenceId sequence) {
  for (const std::size_t block : row(sequence).blocks) release(block);
  sequences_.erase(std::to_underlying(sequence));
}

std::size_t FakeRuntime::length(SequenceId sequence) const { return row(sequence).length; }

void FakeRuntime::poison(TokenSpan prefix, float value) { poisons_[state_after(prefix)] = value; }

void FakeRuntime::script(TokenSpan prefix, std::map<Token, double> probabilities) {
  scripts_[state_after(prefix)] = std::move(probabilities);
}

void FakeRuntime::write_logits(std::uint64_t state, std::uint64_t pass_shape,
                               std::span<float> out) const {
  for (std::size_t token = 0; token < out.size(); ++token) {
    const std::uint64_t hash = mix(state, token);
    out[token] = options_.spread * signed_unit(hash);
  }
  if (const auto script = scripts_.find(state); script != scripts_.end()) {
    double left = 1;
    for (const auto& [token, probability] : script->second) left -= probability;
    const auto others = static_cast<double>(out.size() - script->second.size());
    std::ranges::fill(out, static_cast<float>(std::log(left / others)));
    for (const auto& [token, probability] : script->second) {
      out[static_cast<std::size_t>(token)] = static_cast<float>(std::log(probability));
    }
  }
  if (!options_.exact) {
    for (std::size_t token = 0; token < out.size(); ++token) {
      out[token] += options_.drift * signed_unit(mix(mix(state, token), pass_shape));
    }
  }
  if (const auto poison = poisons_.find(state); poison != poisons_.end()) {
    out[out.size() / 2] = poison->second;
  }
}

Result<void> FakeRuntime::check_step(const Step& step) const {
  if (step.tokens.empty()) return failure(ErrorCode::kInvalidArgument, "evaluate: an empty step");
  for (const Token token : step.tokens) {
    if (token < 0 || static_cast<std::size_t>(token) >= options_.vocabulary) {
      return failure(ErrorCode::kInvalidArgument,
                     "evaluate: token " + std::to_string(token) + " is outside the vocabulary");
    }
  }
  if (length(step.sequence) + step.tokens.size() > options_.context_tokens) {
    return failure(ErrorCode::kInvalidArgument, "evaluate: beyond the context");
  }
  for (std::size_t i = 0; i < step.logits_rows.size(); ++i) {
    const bool ascends = i == 0 || step.logits_rows[i - 1] < step.logits_rows[i];
    INCIPIT_CHECK(ascends && step.logits_rows[i] < step.tokens.size(), "logits_rows");
  }
  return {};
}

Result<model::Logits> FakeRuntime::evaluate(std::span<const Step> steps) {
  std::size_t wanted = 0;
  std::size_t rows = 0;
  std::size_t logits_rows = 0;
  std::set<SequenceId> occurred;
  for (const Step& step : steps) {
    INCIPIT_TRY_VOID(check_step(step));
    INCIPIT_CHECK(occurred.insert(step.sequence).second, "a sequence occurs twice in a pass");
    wanted += blocks_wanted(row(step.sequence), step.tokens.size());
    rows += step.tokens.size();
    logits_rows += step.logits_rows.size();
  }
  if (wanted > blocks_free()) {
    return failure(ErrorCode::kResourceExhausted, "evaluate: no free cells");
  }
  if (fail_in_ > 0 && --fail_in_ == 0) {
    return failure(ErrorCode::kInternal, "evaluate: the fake was told to fail");
  }
  shown_rows_.clear();
  logits_.resize(logits_rows * options_.vocabulary);
  std::span<float> out = logits_;
  for (const Step& step : steps) {
    Row& target = row(step.sequence);
    std::uint64_t seen = attend(target);
    auto next_row = step.logits_rows.begin();
    for (std::size_t i = 0; i < step.tokens.size(); ++i) {
      const Token token = step.tokens[i];
      const std::uint64_t state = mix(seen, static_cast<std::uint64_t>(token) + 1);
      seen = mix(seen, state);
      append(target, {.token = token, .state = state});
      if (next_row == step.logits_rows.end() || *next_row != i) continue;
      shown_rows_.emplace_back(step.sequence, target.length - 1);
      write_logits(state, mix(rows, steps.size()), out.first(options_.vocabulary));
      out = out.subspan(options_.vocabulary);
      ++next_row;
    }
  }
  ++counters_.passes;
  counters_.rows += rows;
  counters_.logits_rows += logits_rows;
  return model::Logits{.values = logits_, .vocabulary = options_.vocabulary};
}

Result<std::vector<float>> FakeRuntime::attention(std::size_t row, AttentionHead head) const {
  if (!options_.shows_attention) return Runtime::attention(row, head);
  if (head.layer > 0 || head.head > 1 || row >= shown_rows_.size())
    return failure(ErrorCode::kInvalidArgument, "attention: no such head or row");
  const auto& [sequence, position] = shown_rows_[row];
  const auto found = sequences_.find(std::to_underlying(sequence));
  if (found == sequences_.end() || found->second.length <= position)
    return failure(ErrorCode::kInvalidArgument, "attention: the row's cells are gone");
  constexpr float kOwnToken = 50;
  const Token own = cell(found->second, position).token;
  std::vector<float> weights(position + 1, 1.0F);
  weights[0] = kOwnToken;  // The sink.
  for (std::size_t i = 1; i < position && head.head == 0; ++i)
    if (cell(found->second, i).token == own) weights[i] = kOwnToken;
  const float sum = std::accumulate(weights.begin(), weights.end(), 0.0F);
  for (float& weight : weights) weight /= sum;
  return weights;
}

Result<std::vector<std::byte>> FakeRuntime::save(SequenceId sequence, std::size_t begin,
                                                 std::size_t end) const {
  const Row& source = row(sequence);
  if (begin > end || end > source.length) {
    return failure(ErrorCode::kInvalidArgument, "save: the range is outside the sequence");
  }
  std::vector<std::byte> bytes;
  bytes.reserve(kFrameBytes + (end - begin) * limits_.cell_bytes);
  for (const char letter : kMagic) put(bytes, letter);
  for (const char letter : fingerprint_) put(bytes, letter);
  put(bytes, std::uint64_t{begin});
  put(bytes, std::uint64_t{end});
  for (std::size_t i = begin; i < end; ++i) {
    put(bytes, cell(source, i).token);
    put(bytes, cell(source, i).state);
    bytes.resize(bytes.size() + options_.padding_bytes, static_cast<std::byte>(i));
  }
  put(bytes, checksum(bytes));
  return bytes;
}

Result<void> FakeRuntime::restore(SequenceId sequence, std::span<const std::byte> bytes) {
  return restore(row(sequence), bytes, false);
}

Result<void> FakeRuntime::restore_moved(SequenceId sequence, std::span<const std::byte> bytes) {
  INCIPIT_TRY_VOID(check_can_move());
  return restore(row(sequence), bytes, true);
}

Result<void> FakeRuntime::check_can_move() const {
  if (options_.can_move) return {};
  return failure(ErrorCode::kUnavailable, "the fake was told not to move cells");
}

Result<void> FakeRuntime::slide(SequenceId sequence, const model::Slide& slide) {
  INCIPIT_TRY_VOID(check_can_move());
  Row& target = row(sequence);
  if (slide.sink > target.length || slide.dropped > target.length - slide.sink)
    return failure(ErrorCode::kInvalidArgument, "slide: the sequence is shorter");
  if (slide.dropped == 0) return {};
  std::vector<Cell> moved;
  for (std::size_t i = slide.sink + slide.dropped; i < target.length; ++i) {
    Cell kept = cell(target, i);
    kept.state = moved_state(kept.state, i, i - slide.dropped);
    moved.push_back(kept);
  }
  // Shared blocks behind the sink are copied before they are written.
  std::size_t copies = 0;
  const std::size_t end = target.length - slide.dropped;
  for (std::size_t i = slide.sink / options_.block_cells; i * options_.block_cells < end; ++i)
    copies += blocks_[target.blocks[i]].references > 1 ? 1 : 0;
  if (copies > blocks_free()) return failure(ErrorCode::kResourceExhausted, "slide: no free cells");
  INCIPIT_TRY_VOID(truncate(sequence, slide.sink));
  for (const Cell& kept : moved) append(target, kept);
  return {};
}

Result<void> FakeRuntime::restore(Row& target, std::span<const std::byte> bytes, bool moves) {
  const auto damaged = failure(ErrorCode::kCorruption, "restore: damaged cells");
  if (bytes.size() < kFrameBytes) return damaged;
  const std::span<const std::byte> body = bytes.first(bytes.size() - sizeof(std::uint64_t));
  if (Reader(bytes.last(sizeof(std::uint64_t))).take<std::uint64_t>() != checksum(body)) {
    return damaged;
  }
  Reader reader(body);
  if (reader.take_text(kMagic.size()) != kMagic) return damaged;
  if (reader.take_text(kFingerprintBytes) != fingerprint_) {
    return failure(ErrorCode::kInvalidArgument, "restore: cells of another fingerprint");
  }
  const auto begin = reader.take<std::uint64_t>();
  const auto end = reader.take<std::uint64_t>();
  if (begin > end ||
      body.size() != kFrameBytes - sizeof(std::uint64_t) + (end - begin) * limits_.cell_bytes) {
    return damaged;
  }
  const std::size_t place = target.length;
  if (begin != place && !moves) {
    return failure(ErrorCode::kInvalidArgument, "restore: cells of another position");
  }
  if (place + (end - begin) > options_.context_tokens) {
    return failure(ErrorCode::kInvalidArgument, "restore: beyond the context");
  }
  if (blocks_wanted(target, end - begin) > blocks_free()) {
    return failure(ErrorCode::kResourceExhausted, "restore: no free cells");
  }
  for (std::uint64_t i = begin; i < end; ++i) {
    const auto token = reader.take<Token>();
    append(target,
           {.token = token, .state = moved_state(reader.take<std::uint64_t>(), begin, place)});
    reader.take_text(options_.padding_bytes);
  }
  return {};
}

}  // namespace incipit::test
