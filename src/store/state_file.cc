// SPDX-License-Identifier: Apache-2.0
#include "store/state_file.h"

#include <fcntl.h>
#include <simdjson.h>
#include <unistd.h>
#include <xxhash.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <utility>

#include "base/hash.h"

namespace incipit::store {
namespace {

constexpr std::string_view kFormat = "incipit-kv/2";
constexpr std::string_view kOnePieceFormat = "incipit-kv/1";
constexpr std::size_t kHeaderBytesMax = std::size_t{64} << 10U;
constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kTenantBytesMax = 1024;
constexpr std::size_t kHashDigits = 32;

static_assert(std::endian::native == std::endian::little, "files are read as they lie in memory");

std::unexpected<Error> damaged(const std::string& path, const std::string& place) {
  return failure(ErrorCode::kCorruption, path + ": " + place);
}

using Xxh3 = std::array<std::uint64_t, 2>;

Xxh3 hash_of(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

std::string hex_of(const Xxh3& hash) {
  std::array<char, kHashDigits + 1> text{};
  std::snprintf(text.data(), text.size(), "%016llx%016llx",
                static_cast<unsigned long long>(hash[0]), static_cast<unsigned long long>(hash[1]));
  return text.data();
}

// A tenant comes from outside and may hold any bytes.
std::string in_hex(std::string_view text) {
  std::string result;
  for (const char c : text) {
    std::array<char, 3> hex{};
    std::snprintf(hex.data(), hex.size(), "%02x", static_cast<unsigned char>(c));
    result += hex.data();
  }
  return result;
}

template <typename Number>
std::optional<Number> number_of(std::string_view text, int base = 10) {
  Number value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<Xxh3> xxh3_of(std::string_view hex) {
  if (hex.size() != kHashDigits) return std::nullopt;
  const auto high = number_of<std::uint64_t>(hex.substr(0, kHashDigits / 2), 16);
  const auto low = number_of<std::uint64_t>(hex.substr(kHashDigits / 2), 16);
  if (!high || !low) return std::nullopt;
  return Xxh3{*high, *low};
}

std::optional<std::string> from_hex(std::string_view hex) {
  std::string text;
  if (hex.size() % 2 != 0) return std::nullopt;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    const auto value = number_of<unsigned>(hex.substr(i, 2), 16);
    if (!value) return std::nullopt;
    text += static_cast<char>(*value);
  }
  return text;
}

// As it lies in the file, one after the other.
struct PieceRow {
  std::uint64_t end = 0;
  std::uint64_t bytes = 0;
  Xxh3 xxh3{};
};
static_assert(sizeof(PieceRow) == kBytesBesideCells);

std::vector<PieceRow> rows_of(const StateFacts& facts) {
  std::vector<PieceRow> rows;
  for (const PieceFacts& piece : facts.pieces)
    rows.push_back({.end = piece.end, .bytes = piece.bytes, .xxh3 = piece.xxh3});
  return rows;
}

std::string header_of(const StateFacts& facts, std::uint64_t cells_bytes, std::uint64_t pieces,
                      const Xxh3& pieces_xxh3) {
  const auto tensor = [](const char* name, const char* dtype, std::uint64_t count,
                         std::uint64_t begin, std::uint64_t end) {
    return std::string(",\"") + name + R"(":{"dtype":")" + dtype + R"(","shape":[)" +
           std::to_string(count) + R"(],"data_offsets":[)" + std::to_string(begin) + "," +
           std::to_string(end) + "]}";
  };
  const std::uint64_t tokens_bytes = facts.tokens.size() * sizeof(Token);
  const std::uint64_t cells_end = tokens_bytes + cells_bytes;
  return R"({"__metadata__":{"format":")" + std::string(kFormat) + R"(","id":")" + facts.id +
         R"(","fingerprint":")" + facts.fingerprint + R"(","parts":")" + facts.parts +
         R"(","tenant":")" + in_hex(facts.tenant) + R"(","begin":")" + std::to_string(facts.begin) +
         R"(","use":")" + std::to_string(facts.use) + R"(","pieces_xxh3":")" + hex_of(pieces_xxh3) +
         R"("})" + tensor("tokens", "I32", facts.tokens.size(), 0, tokens_bytes) +
         tensor("cells", "U8", cells_bytes, tokens_bytes, cells_end) +
         tensor("pieces", "U64", 4 * pieces, cells_end, cells_end + pieces * sizeof(PieceRow)) +
         "}";
}

// The header is written last, when its numbers are known, into room for the largest ones.
// Tensors begin at a multiple of eight.
std::uint64_t header_room(const StateFacts& facts) {
  constexpr std::uint64_t kLarge = std::numeric_limits<std::uint64_t>::max() / 64;
  StateFacts with_id = facts;
  with_id.id = std::string(64, '0');
  return (header_of(with_id, kLarge, kLarge, {}).size() + 7) / 8 * 8;
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct Tensor {
  std::uint64_t count = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct Header {
  StateFacts facts;
  Tensor tokens;
  Tensor cells;
  std::optional<Tensor> pieces;  // None where the cells are one piece.
  Xxh3 xxh3{};                   // Of the list of pieces, or of the one piece.
};

// An error says what is wrong.
std::expected<Tensor, std::string> read_tensor(simdjson::dom::element root, std::string_view name,
                                               std::string_view dtype, std::uint64_t item_bytes) {
  simdjson::dom::object object;
  std::string_view type;
  simdjson::dom::array shape;
  simdjson::dom::array offsets;
  Tensor tensor;
  const auto wrong = [name](const std::string& what) {
    return std::unexpected("the header's \"" + std::string(name) + "\" " + what);
  };
  if (root[name].get(object) != simdjson::SUCCESS) return wrong("is no tensor");
  if (object["dtype"].get(type) != simdjson::SUCCESS || type != dtype)
    return wrong("has another type than " + std::string(dtype));
  if (object["shape"].get(shape) != simdjson::SUCCESS || shape.size() != 1 ||
      shape.at(0).get(tensor.count) != simdjson::SUCCESS)
    return wrong("has no shape of one number");
  if (object["data_offsets"].get(offsets) != simdjson::SUCCESS || offsets.size() != 2 ||
      offsets.at(0).get(tensor.begin) != simdjson::SUCCESS ||
      offsets.at(1).get(tensor.end) != simdjson::SUCCESS || tensor.begin > tensor.end)
    return wrong("has no two offsets");
  const std::uint64_t bytes = tensor.end - tensor.begin;
  if (bytes % item_bytes != 0 || tensor.count != bytes / item_bytes)
    return wrong("has another shape than its bytes");
  return tensor;
}

std::optional<std::string> read_metadata(simdjson::dom::element root, Header& header) {
  const auto text = [&root](const char* name) -> std::optional<std::string> {
    std::string_view value;
    if (root["__metadata__"][name].get(value) != simdjson::SUCCESS) return std::nullopt;
    return std::string(value);
  };
  const auto id = text("id");
  const auto fingerprint = text("fingerprint");
  const auto tenant = text("tenant");
  const auto begin = text("begin");
  const auto hash = text(text("format") == kFormat ? "pieces_xxh3" : "cells_xxh3");
  if (!id || !fingerprint || !tenant || !begin || !hash)
    return "the header's \"__metadata__\" lacks a field";
  const auto plain_tenant = from_hex(*tenant);
  const auto begin_number = number_of<std::size_t>(*begin);
  const auto xxh3 = xxh3_of(*hash);
  if (!plain_tenant || !begin_number || !xxh3)
    return "the header's \"__metadata__\" has a field that is no number";
  header.xxh3 = *xxh3;
  header.facts = {.id = *id,
                  .fingerprint = *fingerprint,
                  .parts = text("parts").value_or(""),
                  .tenant = *plain_tenant,
                  .begin = *begin_number,
                  .use = number_of<std::uint64_t>(text("use").value_or("")).value_or(0)};
  return std::nullopt;
}

// The tensors: exactly these, in this order, without gaps, up to the end of the file.
std::optional<std::string> read_tensors(simdjson::dom::element root, bool is_one_piece,
                                        std::uint64_t data_bytes, Header& header) {
  const auto tokens = read_tensor(root, "tokens", "I32", sizeof(Token));
  if (!tokens) return tokens.error();
  const auto cells = read_tensor(root, "cells", "U8", 1);
  if (!cells) return cells.error();
  header.tokens = *tokens;
  header.cells = *cells;
  std::uint64_t end = cells->end;
  if (!is_one_piece) {
    const auto pieces = read_tensor(root, "pieces", "U64", sizeof(std::uint64_t));
    if (!pieces) return pieces.error();
    if (pieces->begin != end || pieces->count == 0 || pieces->count % 4 != 0)
      return "the pieces do not follow the cells";
    header.pieces = *pieces;
    end = pieces->end;
  }
  if (tokens->begin != 0 || tokens->end > data_bytes || tokens->count == 0)
    return "the tokens do not lie inside the file";
  if (cells->begin != tokens->end || end != data_bytes)
    return "the cells do not fill the rest of the file";
  if (header.facts.begin >= tokens->count) return "the cells begin behind the last token";
  return std::nullopt;
}

Result<Header> parse_header(const std::string& path, std::string_view json,
                            std::uint64_t data_bytes) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (parser.parse(json.data(), json.size()).get(root) != simdjson::SUCCESS)
    return damaged(path, "the header is no JSON");
  std::string_view format;
  if (root["__metadata__"]["format"].get(format) != simdjson::SUCCESS)
    return damaged(path, "the header names no format");
  if (format != kFormat && format != kOnePieceFormat)
    return failure(ErrorCode::kUnavailable, path + ": has the format " +
                                                std::string(format.substr(0, 40)) + ", not " +
                                                std::string(kFormat));
  Header header;
  if (const auto wrong = read_metadata(root, header)) return damaged(path, *wrong);
  if (const auto wrong = read_tensors(root, format == kOnePieceFormat, data_bytes, header))
    return damaged(path, *wrong);
  return header;
}

Result<void> read_exactly(const File& file, std::span<std::byte> bytes, std::uint64_t offset) {
  INCIPIT_TRY(const std::size_t count, file.read_at(bytes, offset));
  if (count != bytes.size()) return damaged(file.path(), "the file ends too early");
  return {};
}

// Fills the pieces of the header's facts. `data`: where the tensors begin in the file.
Result<void> read_pieces(const File& file, std::uint64_t data, Header& header) {
  StateFacts& facts = header.facts;
  if (!header.pieces) {
    facts.pieces = {{.end = header.tokens.count,
                     .offset = data + header.cells.begin,
                     .bytes = header.cells.count,
                     .xxh3 = header.xxh3}};
    return {};
  }
  std::vector<PieceRow> rows(header.pieces->count / 4);
  const auto bytes = std::as_writable_bytes(std::span(rows));
  INCIPIT_TRY_VOID(read_exactly(file, bytes, data + header.pieces->begin));
  if (hash_of(bytes) != header.xxh3)
    return damaged(file.path(), "the list of pieces has another checksum");
  std::uint64_t offset = data + header.cells.begin;
  const std::uint64_t cells_end = data + header.cells.end;
  std::uint64_t before = facts.begin;
  for (const PieceRow& row : rows) {
    if (row.end <= before || row.bytes > cells_end - offset)
      return damaged(file.path(), "the pieces do not lie inside the cells");
    facts.pieces.push_back(
        {.end = row.end, .offset = offset, .bytes = row.bytes, .xxh3 = row.xxh3});
    offset += row.bytes;
    before = row.end;
  }
  if (offset != cells_end || before != header.tokens.count)
    return damaged(file.path(), "the pieces are not the cells of its tokens");
  return {};
}

// A name must be on the disk too. Where that fails the file may be gone after a power cut.
void sync_folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path();
  const int descriptor =
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

}  // namespace

std::string state_id(const StateFacts& facts) {
  // What a state is does not change with how it is written: the name of the first format.
  return Sha256()
      .field(kOnePieceFormat)
      .field(facts.fingerprint)
      .field(facts.tenant)
      .field(std::uint64_t{facts.begin})
      .field(as_text(std::as_bytes(std::span(facts.tokens))))
      .hex();
}

std::uint64_t bytes_beside_pieces(const StateFacts& facts) {
  return kLengthBytes + header_room(facts) + facts.tokens.size() * sizeof(Token);
}

StateDraft::StateDraft(File file, std::string path, StateFacts facts)
    : file_(std::move(file)),
      path_(std::move(path)),
      facts_(std::move(facts)),
      header_bytes_(header_room(facts_)) {
  facts_.id = state_id(facts_);
  facts_.file_bytes = bytes_beside_pieces(facts_);
}

Result<StateDraft> StateDraft::create(const std::string& path, StateFacts facts) {
  if (facts.tenant.size() > kTenantBytesMax)
    return failure(ErrorCode::kInvalidArgument, "a tenant's name is longer than 1 KiB");
  if (must_stay(path))
    return failure(ErrorCode::kInvalidArgument, "cannot write " + path + ": it is no plain file");
  INCIPIT_TRY(File file, File::create(path + std::string(kDraftEnding)));
  StateDraft draft(std::move(file), path, std::move(facts));
  INCIPIT_TRY_VOID(draft.file_.write_at(as_text(std::as_bytes(std::span(draft.facts_.tokens))),
                                        kLengthBytes + draft.header_bytes_));
  return draft;
}

StateDraft::StateDraft(StateDraft&& other) noexcept
    : file_(std::move(other.file_)),
      path_(std::exchange(other.path_, {})),
      facts_(std::move(other.facts_)),
      header_bytes_(other.header_bytes_) {}

StateDraft::~StateDraft() {
  if (!path_.empty()) ::unlink(file_.path().c_str());
}

Result<void> StateDraft::append(const CellPiece& piece) {
  const PieceFacts facts{.end = piece.end,
                         .offset = facts_.file_bytes,
                         .bytes = piece.cells->size(),
                         .xxh3 = hash_of(*piece.cells)};
  INCIPIT_TRY_VOID(file_.write_at(as_text(*piece.cells), facts.offset));
  facts_.pieces.push_back(facts);
  facts_.file_bytes += facts.bytes;
  return {};
}

Result<StateFacts> StateDraft::finish() {
  const std::vector<PieceRow> rows = rows_of(facts_);
  const auto list = std::as_bytes(std::span(rows));
  const std::uint64_t cells = facts_.file_bytes - bytes_beside_pieces(facts_);
  INCIPIT_TRY_VOID(file_.write_at(as_text(list), facts_.file_bytes));
  facts_.file_bytes += list.size();
  std::string header = header_of(facts_, cells, rows.size(), hash_of(list));
  header.resize(header_bytes_, ' ');
  INCIPIT_TRY_VOID(file_.write_at(
      std::string(as_text(std::as_bytes(std::span(&header_bytes_, 1)))) + header, 0));
  INCIPIT_TRY_VOID(file_.sync());
  INCIPIT_TRY_VOID(file_.close());
  if (std::rename(file_.path().c_str(), path_.c_str()) != 0)
    return failure(ErrorCode::kResourceExhausted,
                   "cannot rename " + file_.path() + ": " + std::strerror(errno));
  sync_folder_of(path_);
  path_.clear();
  return std::move(facts_);
}

Result<StateFacts> read_state_facts(const std::string& path) {
  INCIPIT_TRY(const File file, File::open_read(path));
  INCIPIT_TRY(const std::uint64_t size, file.size());
  std::uint64_t length = 0;
  INCIPIT_TRY_VOID(read_exactly(file, std::as_writable_bytes(std::span(&length, 1)), 0));
  if (length > kHeaderBytesMax || length > size - kLengthBytes)
    return damaged(path, "the header's length is " + std::to_string(length));
  std::string json(length, '\0');
  INCIPIT_TRY_VOID(read_exactly(file, std::as_writable_bytes(std::span(json)), kLengthBytes));
  const std::uint64_t data = kLengthBytes + length;
  INCIPIT_TRY(Header header, parse_header(path, json, size - data));
  StateFacts& facts = header.facts;
  facts.tokens.resize(header.tokens.count);
  INCIPIT_TRY_VOID(read_exactly(file, std::as_writable_bytes(std::span(facts.tokens)), data));
  if (state_id(facts) != facts.id)
    return damaged(path, "its id is not that of its tokens and its model");
  INCIPIT_TRY_VOID(read_pieces(file, data, header));
  facts.file_bytes = size;
  return std::move(facts);
}

Result<std::vector<std::byte>> read_state_piece(const std::string& path, const StateFacts& facts,
                                                std::size_t piece) {
  INCIPIT_TRY(const File file, File::open_read(path));
  INCIPIT_TRY(const std::uint64_t size, file.size());
  if (size != facts.file_bytes) return damaged(path, "its size has changed");
  const PieceFacts& place = facts.pieces.at(piece);
  std::vector<std::byte> cells(place.bytes);
  INCIPIT_TRY_VOID(read_exactly(file, cells, place.offset));
  if (hash_of(cells) != place.xxh3) return damaged(path, "the cells have another checksum");
  return cells;
}

}  // namespace incipit::store
