// SPDX-License-Identifier: Apache-2.0
#include "model/gguf_file.h"

#include <ggml.h>
#include <sys/mman.h>

#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "base/counted.h"
#include "base/file.h"

namespace incipit::model {
namespace {

// Value types of the GGUF specification.
enum : std::uint32_t {
  kU8 = 0,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64
};

constexpr std::uint64_t kKeyBytesMax = 65535;  // The specification's own limit.
constexpr std::uint64_t kNameBytesMax = 64;
constexpr std::uint64_t kAlignmentMax = 1U << 16U;

std::size_t fixed_bytes(std::uint32_t type) {
  switch (type) {
    case kU8:
    case kI8:
    case kBool:
      return 1;
    case kU16:
    case kI16:
      return 2;
    case kU32:
    case kI32:
    case kF32:
      return 4;
    case kU64:
    case kI64:
    case kF64:
      return 8;
    default:
      return 0;
  }
}

// The tensor's byte count, or an empty optional where type or dimensions do not make sense.
std::optional<std::uint64_t> tensor_bytes(std::uint32_t type, std::uint64_t columns,
                                          std::uint64_t rows) {
  if (type >= GGML_TYPE_COUNT) return std::nullopt;
  const auto kind = static_cast<ggml_type>(type);
  const auto block = static_cast<std::uint64_t>(ggml_blck_size(kind));
  const std::uint64_t bytes = ggml_type_size(kind);
  if (block == 0 || bytes == 0 || columns % block != 0) return std::nullopt;
  const std::uint64_t row_blocks = columns / block;
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  if (row_blocks > kMax / bytes || rows > kMax / (row_blocks * bytes)) return std::nullopt;
  return rows * row_blocks * bytes;
}

}  // namespace

// A tensor and where the file says its data lies.
struct GgufFile::Placed {
  GgufTensor tensor;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

// Reads forward through the mapping; the first length that does not fit sets `error` and every
// later read gives zeros.
class GgufFile::Reader {
 public:
  Reader(const std::string& path, std::span<const std::byte> bytes) : path_(path), bytes_(bytes) {}

  template <typename T>
  T fixed() {
    T value{};
    if (const auto* from = take(sizeof(T))) std::memcpy(&value, from, sizeof(T));
    return value;
  }

  std::string string(std::uint64_t bytes_max) {
    const std::size_t place = offset_;
    const auto count = fixed<std::uint64_t>();
    if (count > bytes_max) {
      fail("a text of " + counted(count, "byte"), place);
      return {};
    }
    const auto* from = take(count);
    return from == nullptr ? std::string()
                           : std::string(reinterpret_cast<const char*>(from), count);
  }

  const std::byte* take(std::uint64_t count) {
    if (failed()) return nullptr;
    if (count > bytes_.size() - offset_) {
      fail("the file ends inside a value of " + counted(count, "byte"), offset_);
      return nullptr;
    }
    const std::byte* from = bytes_.data() + offset_;
    offset_ += count;
    return from;
  }

  void fail(const std::string& what, std::size_t place) {
    if (!failed())
      error_ = path_ + ": not a usable GGUF file: " + what + " (at byte " + std::to_string(place) +
               "); get the file again";
  }
  [[nodiscard]] bool failed() const { return !error_.empty(); }
  [[nodiscard]] std::unexpected<Error> failure_here() const {
    return failure(ErrorCode::kCorruption, error_);
  }
  [[nodiscard]] std::size_t offset() const { return offset_; }
  [[nodiscard]] std::size_t left() const { return bytes_.size() - offset_; }

  GgufValue value(std::uint32_t type) {
    switch (type) {
      case kU8:
        return std::uint64_t{fixed<std::uint8_t>()};
      case kU16:
        return std::uint64_t{fixed<std::uint16_t>()};
      case kU32:
        return std::uint64_t{fixed<std::uint32_t>()};
      case kU64:
        return fixed<std::uint64_t>();
      case kI8:
        return std::int64_t{fixed<std::int8_t>()};
      case kI16:
        return std::int64_t{fixed<std::int16_t>()};
      case kI32:
        return std::int64_t{fixed<std::int32_t>()};
      case kI64:
        return fixed<std::int64_t>();
      case kF32:
        return double{fixed<float>()};
      case kF64:
        return fixed<double>();
      case kBool:
        return fixed<std::uint8_t>() != 0;
      case kString:
        return string(bytes_.size());
      case kArray:
        return array();
      default:
        fail("unknown value type " + std::to_string(type), offset_);
        return false;
    }
  }

  // A tensor's header, its data not looked at yet.
  Placed tensor(std::uint64_t alignment) {
    const std::size_t place = offset_;
    Placed placed;
    GgufTensor& tensor = placed.tensor;
    tensor.name = string(kNameBytesMax);
    const auto dimensions = fixed<std::uint32_t>();
    if (dimensions == 0 || dimensions > GGML_MAX_DIMS)
      fail("a tensor of " + counted(dimensions, "dimension"), place);
    for (std::uint32_t d = 0; d < dimensions && !failed(); ++d) {
      const auto extent = fixed<std::uint64_t>();
      if (extent == 0 || extent > bytes_.size() * 8)
        fail("tensor \"" + tensor.name + "\" has a dimension of " + std::to_string(extent), place);
      // Each factor is at most 2^3 x the file, so products are checked before they can wrap.
      else if (d == 0)
        tensor.columns = extent;
      else if (tensor.rows > bytes_.size() * 8 / extent)
        fail("tensor \"" + tensor.name + "\" is larger than the file", place);
      else
        tensor.rows *= extent;
    }
    tensor.type = fixed<std::uint32_t>();
    placed.offset = fixed<std::uint64_t>();
    const auto size = tensor_bytes(tensor.type, tensor.columns, tensor.rows);
    if (!size || placed.offset % alignment != 0)
      fail("tensor \"" + tensor.name + "\" has an unknown type, shape or place", place);
    placed.bytes = size.value_or(0);
    return placed;
  }

 private:
  GgufArray array() {
    GgufArray result;
    const std::size_t place = offset_;
    result.type = fixed<std::uint32_t>();
    result.count = fixed<std::uint64_t>();
    if (result.type == kString) {
      // Eight bytes of length are the least that a text takes, so the loop is bounded by the file.
      for (std::uint64_t i = 0; i < result.count && !failed(); ++i) take(fixed<std::uint64_t>());
      return result;
    }
    const std::size_t width = fixed_bytes(result.type);
    if (width == 0) {
      fail("an array of type " + std::to_string(result.type), place);
    } else if (result.count > left() / width) {
      fail("an array of " + counted(result.count, "value"), place);
    } else {
      take(result.count * width);
    }
    return result;
  }

  const std::string& path_;
  std::span<const std::byte> bytes_;
  std::size_t offset_ = 0;
  std::string error_;
};

Result<std::unique_ptr<GgufFile>> GgufFile::open(const std::string& path) {
  const auto file = File::open_read(path);
  if (!file) {
    return failure(ErrorCode::kUnavailable, "there is no model to read: " + file.error().message +
                                                "; give a GGUF file (--model)");
  }
  INCIPIT_TRY(const std::uint64_t size, file->size());
  std::unique_ptr<GgufFile> gguf(new GgufFile());
  gguf->path_ = path;
  if (size < 24) {
    return failure(ErrorCode::kCorruption,
                   path + ": not a GGUF file: only " + counted(size, "byte"));
  }
  void* mapping = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file->descriptor(), 0);
  if (mapping == MAP_FAILED) {
    return failure(ErrorCode::kResourceExhausted, "cannot map " + path + " into memory");
  }
  gguf->bytes_ = {static_cast<const std::byte*>(mapping), size};
  INCIPIT_TRY_VOID(gguf->parse());
  return gguf;
}

GgufFile::~GgufFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

Result<void> GgufFile::parse() {
  Reader reader(path_, bytes_);
  if (reader.fixed<std::uint32_t>() != 0x46554747U) {  // "GGUF"
    return failure(ErrorCode::kCorruption,
                   path_ + ": not a GGUF file (it does not begin with \"GGUF\")");
  }
  const auto version = reader.fixed<std::uint32_t>();
  if (version == 0x02000000U || version == 0x03000000U) {
    return failure(ErrorCode::kCorruption,
                   path_ + ": a big-endian GGUF file; convert it to little endian");
  }
  if (version != 2 && version != 3) {
    return failure(ErrorCode::kCorruption, path_ + ": GGUF version " + std::to_string(version) +
                                               " is not supported; convert it to version 3");
  }
  const auto tensor_count = reader.fixed<std::uint64_t>();
  const auto value_count = reader.fixed<std::uint64_t>();
  // A value takes at least 13 bytes, a tensor's header 32: counts beyond that are lies.
  if (value_count > reader.left() / 13 || tensor_count > reader.left() / 32) {
    reader.fail(
        "counts of " + counted(tensor_count, "tensor") + " and " + counted(value_count, "value"),
        8);
  }
  for (std::uint64_t i = 0; i < value_count && !reader.failed(); ++i) {
    const std::size_t place = reader.offset();
    std::string key = reader.string(kKeyBytesMax);
    const auto type = reader.fixed<std::uint32_t>();
    GgufValue value = reader.value(type);
    if (!reader.failed() && !values_.emplace(key, std::move(value)).second) {
      reader.fail("the key \"" + key + "\" occurs twice", place);
    }
  }
  const std::uint64_t alignment = this->alignment();
  if (!std::has_single_bit(alignment) || alignment > kAlignmentMax) {
    reader.fail("an alignment of " + std::to_string(alignment), reader.offset());
  }
  std::vector<Placed> found;
  for (std::uint64_t i = 0; i < tensor_count && !reader.failed(); ++i) {
    found.push_back(reader.tensor(alignment));
  }
  if (reader.failed()) return reader.failure_here();
  return place_tensors(std::move(found), (reader.offset() + alignment - 1) / alignment * alignment);
}

std::uint64_t GgufFile::alignment() const {
  if (value("general.alignment") == nullptr) return 32;
  return unsigned_value("general.alignment").value_or(0);
}

Result<void> GgufFile::place_tensors(std::vector<Placed> found, std::uint64_t data_begin) {
  const std::uint64_t data_bytes = data_begin > bytes_.size() ? 0 : bytes_.size() - data_begin;
  for (auto& [tensor, offset, size] : found) {
    const std::string name = tensor.name;
    if (offset > data_bytes || size > data_bytes - offset) {
      return failure(ErrorCode::kCorruption,
                     path_ + ": the file is cut short: tensor \"" + name + "\" has " +
                         counted(size, "byte") + " at " + std::to_string(offset) + " of " +
                         std::to_string(data_bytes) + "; get the file again");
    }
    tensor.data = bytes_.subspan(data_begin + offset, size);
    if (!tensors_.emplace(name, std::move(tensor)).second) {
      return failure(ErrorCode::kCorruption,
                     path_ + ": the tensor \"" + name + "\" occurs twice; get the file again");
    }
  }
  return {};
}

const GgufTensor* GgufFile::tensor(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

const GgufValue* GgufFile::value(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

std::optional<std::uint64_t> GgufFile::unsigned_value(std::string_view key) const {
  const GgufValue* found = value(key);
  if (found == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<std::uint64_t>(found)) return *number;
  if (const auto* number = std::get_if<std::int64_t>(found); number && *number >= 0) {
    return static_cast<std::uint64_t>(*number);
  }
  return std::nullopt;
}

std::optional<double> GgufFile::number(std::string_view key) const {
  const GgufValue* found = value(key);
  if (found == nullptr) return std::nullopt;
  if (const auto* real = std::get_if<double>(found)) return *real;
  if (const auto whole = unsigned_value(key)) return static_cast<double>(*whole);
  return std::nullopt;
}

std::optional<std::string> GgufFile::text(std::string_view key) const {
  const GgufValue* found = value(key);
  if (found == nullptr) return std::nullopt;
  if (const auto* string = std::get_if<std::string>(found)) return *string;
  return std::nullopt;
}

}  // namespace incipit::model
