// SPDX-License-Identifier: Apache-2.0
#include "store/state_file.h"

#include <simdjson.h>
#include <xxhash.h>

#include <array>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>

#include "base/file.h"
#include "base/hash.h"

namespace incipit::store {
namespace {

constexpr std::string_view kFormat = "incipit-kv/1";
constexpr std::size_t kHeaderBytesMax = std::size_t{64} << 10U;
constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kTenantBytesMax = 1024;

static_assert(std::endian::native == std::endian::little, "files are read as they lie in memory");

std::unexpected<Error> damaged(const std::string& path, const std::string& place) {
  return failure(ErrorCode::kCorruption, path + ": " + place);
}

std::string hash_of(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  std::array<char, 33> text{};
  std::snprintf(text.data(), text.size(), "%016llx%016llx",
                static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
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

std::optional<std::string> from_hex(std::string_view hex) {
  std::string text;
  if (hex.size() % 2 != 0) return std::nullopt;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    unsigned value = 0;
    const auto [end, code] = std::from_chars(hex.data() + i, hex.data() + i + 2, value, 16);
    if (code != std::errc() || end != hex.data() + i + 2) return std::nullopt;
    text += static_cast<char>(value);
  }
  return text;
}

template <typename Number>
std::optional<Number> number_of(std::string_view text) {
  Number value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string header_of(const StateFacts& facts) {
  const std::string end = std::to_string(facts.tokens.size());
  const std::uint64_t split = facts.tokens.size() * sizeof(Token);
  const std::string bytes = std::to_string(facts.cells_bytes);
  std::string header = R"({"__metadata__":{"format":")" + std::string(kFormat) + R"(","id":")" +
                       facts.id + R"(","fingerprint":")" + facts.fingerprint + R"(","tenant":")" +
                       in_hex(facts.tenant) + R"(","begin":")" + std::to_string(facts.begin) +
                       R"(","cells_xxh3":")" + facts.cells_xxh3 +
                       R"("},"tokens":{"dtype":"I32","shape":[)" + end + R"(],"data_offsets":[0,)" +
                       std::to_string(split) + R"(]},"cells":{"dtype":"U8","shape":[)" + bytes +
                       R"(],"data_offsets":[)" + std::to_string(split) + "," +
                       std::to_string(split + facts.cells_bytes) + "]}}";
  // Tensors begin at a multiple of eight.
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return header;
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct Header {
  StateFacts facts;
  std::uint64_t token_count = 0;
};

// The two tensors: exactly these, in this order, without gaps.
std::optional<std::string> read_tensor(simdjson::dom::element root, std::string_view name,
                                       std::string_view dtype, std::uint64_t& count,
                                       std::uint64_t& begin, std::uint64_t& end) {
  simdjson::dom::object tensor;
  std::string_view type;
  simdjson::dom::array shape;
  simdjson::dom::array offsets;
  const std::string at = "the header's \"" + std::string(name) + "\"";
  if (root[name].get(tensor) != simdjson::SUCCESS) return at + " is no tensor";
  if (tensor["dtype"].get(type) != simdjson::SUCCESS || type != dtype)
    return at + " has another type than " + std::string(dtype);
  if (tensor["shape"].get(shape) != simdjson::SUCCESS || shape.size() != 1 ||
      shape.at(0).get(count) != simdjson::SUCCESS)
    return at + " has no shape of one number";
  if (tensor["data_offsets"].get(offsets) != simdjson::SUCCESS || offsets.size() != 2 ||
      offsets.at(0).get(begin) != simdjson::SUCCESS || offsets.at(1).get(end) != simdjson::SUCCESS)
    return at + " has no two offsets";
  return std::nullopt;
}

std::optional<std::string> read_metadata(simdjson::dom::element root, StateFacts& facts) {
  const auto text = [&root](const char* name) -> std::optional<std::string> {
    std::string_view value;
    if (root["__metadata__"][name].get(value) != simdjson::SUCCESS) return std::nullopt;
    return std::string(value);
  };
  const auto id = text("id");
  const auto fingerprint = text("fingerprint");
  const auto tenant = text("tenant");
  const auto begin = text("begin");
  const auto hash = text("cells_xxh3");
  if (!id || !fingerprint || !tenant || !begin || !hash)
    return "the header's \"__metadata__\" lacks a field";
  const auto plain_tenant = from_hex(*tenant);
  const auto begin_number = number_of<std::size_t>(*begin);
  if (!plain_tenant || !begin_number)
    return "the header's \"__metadata__\" has a field that is no number";
  facts = {.id = *id,
           .fingerprint = *fingerprint,
           .tenant = *plain_tenant,
           .begin = *begin_number,
           .cells_xxh3 = *hash};
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
  if (format != kFormat)
    return failure(ErrorCode::kUnavailable, path + ": has the format " +
                                                std::string(format.substr(0, 40)) + ", not " +
                                                std::string(kFormat));
  Header header;
  if (const auto wrong = read_metadata(root, header.facts)) return damaged(path, *wrong);
  std::uint64_t begin = 0;
  std::uint64_t split = 0;
  std::uint64_t end = 0;
  if (const auto wrong = read_tensor(root, "tokens", "I32", header.token_count, begin, split))
    return damaged(path, *wrong);
  if (begin != 0 || split > data_bytes || header.token_count != split / sizeof(Token) ||
      split % sizeof(Token) != 0 || header.token_count == 0)
    return damaged(path, "the tokens do not lie inside the file");
  if (const auto wrong = read_tensor(root, "cells", "U8", header.facts.cells_bytes, begin, end))
    return damaged(path, *wrong);
  if (begin != split || end != data_bytes || header.facts.cells_bytes != end - begin)
    return damaged(path, "the cells do not fill the rest of the file");
  if (header.facts.begin >= header.token_count)
    return damaged(path, "the cells begin behind the last token");
  return header;
}

Result<void> read_exactly(const File& file, std::span<std::byte> bytes, std::uint64_t offset) {
  INCIPIT_TRY(const std::size_t count, file.read_at(bytes, offset));
  if (count != bytes.size()) return damaged(file.path(), "the file ends too early");
  return {};
}

}  // namespace

std::string state_id(const StateFacts& facts) {
  return Sha256()
      .field(kFormat)
      .field(facts.fingerprint)
      .field(facts.tenant)
      .field(std::uint64_t{facts.begin})
      .field(as_text(std::as_bytes(std::span(facts.tokens))))
      .hex();
}

Result<void> write_state(const std::string& path, StateFacts& facts,
                         std::span<const std::byte> cells) {
  if (facts.tenant.size() > kTenantBytesMax)
    return failure(ErrorCode::kInvalidArgument, "a tenant's name is longer than 1 KiB");
  facts.id = state_id(facts);
  facts.cells_bytes = cells.size();
  facts.cells_xxh3 = hash_of(cells);
  const std::string header = header_of(facts);
  const std::uint64_t length = header.size();
  facts.cells_offset = kLengthBytes + length + facts.tokens.size() * sizeof(Token);
  INCIPIT_TRY(File file, File::create(path));
  INCIPIT_TRY_VOID(file.write(as_text(std::as_bytes(std::span(&length, 1)))));
  INCIPIT_TRY_VOID(file.write(header));
  INCIPIT_TRY_VOID(file.write(as_text(std::as_bytes(std::span(facts.tokens)))));
  INCIPIT_TRY_VOID(file.write(as_text(cells)));
  INCIPIT_TRY_VOID(file.sync());
  return file.close();
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
  INCIPIT_TRY(Header header, parse_header(path, json, size - kLengthBytes - length));
  StateFacts& facts = header.facts;
  facts.tokens.resize(header.token_count);
  INCIPIT_TRY_VOID(
      read_exactly(file, std::as_writable_bytes(std::span(facts.tokens)), kLengthBytes + length));
  facts.cells_offset = size - facts.cells_bytes;
  if (state_id(facts) != facts.id)
    return damaged(path, "its id is not that of its tokens and its model");
  return std::move(facts);
}

Result<std::vector<std::byte>> read_state_cells(const std::string& path, const StateFacts& facts) {
  INCIPIT_TRY(const File file, File::open_read(path));
  INCIPIT_TRY(const std::uint64_t size, file.size());
  if (size != facts.file_bytes()) return damaged(path, "its size has changed");
  std::vector<std::byte> cells(facts.cells_bytes);
  INCIPIT_TRY_VOID(read_exactly(file, cells, facts.cells_offset));
  if (hash_of(cells) != facts.cells_xxh3) return damaged(path, "the cells have another checksum");
  return cells;
}

}  // namespace incipit::store
