// SPDX-License-Identifier: Apache-2.0
#include "model/prepared_weights.h"

#include <fcntl.h>
#include <ggml.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/elapsed.h"
#include "base/file.h"

namespace incipit::model {
namespace {

constexpr std::size_t kGroups[] = {128, 64, 32};  // Tried in this order.
constexpr std::size_t kAlignment = 64;            // A cache line, and what vector loads like.

struct Header {
  char magic[8] = {'I', 'N', 'C', 'W', 'E', 'I', 'G', 'H'};
  std::uint64_t version = 2;
  std::uint64_t body_hash = 0;
  std::uint64_t body_bytes = 0;
  std::byte padding[32] = {};
};
static_assert(sizeof(Header) == kAlignment);

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// A writable mapping of a file that is being made beside its final place. Its name is its own:
// process ids are not unique where containers share a cache directory.
class Draft {
 public:
  static Result<Draft> create(const std::string& target, std::size_t bytes) {
    Draft draft;
    draft.path_ = target + ".tmpXXXXXX";
    const int descriptor = ::mkostemp(draft.path_.data(), O_CLOEXEC);
    if (descriptor < 0) {
      draft.path_.clear();
      return failure(ErrorCode::kInvalidArgument, "cannot write beside " + target + ": " +
                                                      std::generic_category().message(errno) +
                                                      "; point INCIPIT_HOME elsewhere");
    }
    ::fchmod(descriptor, 0644);
    // Space is taken now: a full disk is an error here and a SIGBUS in a mapping.
    const int refused = ::posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
    void* mapping = refused != 0
                        ? MAP_FAILED
                        : ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    ::close(descriptor);
    if (mapping == MAP_FAILED) {
      return failure(ErrorCode::kResourceExhausted,
                     "no room for " + std::to_string(bytes >> 20U) + " MiB at " + target +
                         "; free some space or point INCIPIT_HOME elsewhere");
    }
    draft.bytes_ = {static_cast<std::byte*>(mapping), bytes};
    return draft;
  }
  Draft(Draft&& other) noexcept
      : path_(std::exchange(other.path_, {})), bytes_(std::exchange(other.bytes_, {})) {}
  Draft& operator=(Draft&&) = delete;
  // One that was not kept disappears.
  ~Draft() {
    if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }
  // Moves the finished file to its place.
  [[nodiscard]] bool keep_as(const std::string& target) {
    const bool kept = ::msync(bytes_.data(), bytes_.size(), MS_SYNC) == 0 &&
                      std::rename(path_.c_str(), target.c_str()) == 0;
    if (kept) path_.clear();
    return kept;
  }

 private:
  Draft() = default;
  std::string path_;
  std::span<std::byte> bytes_;
};

// Rounds one row to int8; false where a weight or its scale is not finite.
bool quantise_row(std::span<const float> row, std::size_t group_size, std::byte* values,
                  std::byte* scales) {
  for (std::size_t group = 0; group < row.size() / group_size; ++group) {
    const auto weights = row.subspan(group * group_size, group_size);
    float most = 0;
    for (const float weight : weights) {
      if (!std::isfinite(weight)) return false;
      most = std::max(most, std::fabs(weight));
    }
    ggml_fp16_t half = ggml_fp32_to_fp16(most / 127.0F);
    if (ggml_fp16_to_fp32(half) == 0.0F) half = ggml_fp32_to_fp16(1.0F);
    const float scale = ggml_fp16_to_fp32(half);
    if (!std::isfinite(scale)) return false;
    std::memcpy(scales + group * sizeof(half), &half, sizeof(half));
    for (std::size_t i = 0; i < group_size; ++i) {
      const float rounded = std::clamp(std::nearbyint(weights[i] / scale), -127.0F, 127.0F);
      values[group * group_size + i] = static_cast<std::byte>(static_cast<std::int8_t>(rounded));
    }
  }
  return true;
}

// Where row `row` of the result stands in the file: the llama family stores the two halves of a
// rotary pair side by side, the graph wants first halves and second halves apart.
std::size_t source_row(std::size_t row, std::size_t head_size, bool interleaved) {
  if (!interleaved) return row;
  const std::size_t in_head = row % head_size;
  const std::size_t half = head_size / 2;
  return row - in_head + (in_head % half) * 2 + in_head / half;
}

void dequantise(const GgufTensor& tensor, std::size_t row, std::span<float> out) {
  const std::size_t row_bytes = tensor.data.size() / tensor.rows;
  const auto* from = tensor.data.data() + row * row_bytes;
  if (tensor.type == GGML_TYPE_F32) {
    std::memcpy(out.data(), from, row_bytes);
  } else {
    ggml_get_type_traits(static_cast<ggml_type>(tensor.type))
        ->to_float(from, out.data(), static_cast<std::int64_t>(out.size()));
  }
}

bool divides_all(std::size_t group, const GgufFile& gguf) {
  return std::ranges::all_of(gguf.tensors(), [&](const auto& named) {
    return named.second.rows == 1 || named.second.columns % group == 0;
  });
}

bool is_rotary(std::string_view name) {
  return name.find(".attn_q.") != std::string_view::npos ||
         name.find(".attn_k.") != std::string_view::npos;
}

}  // namespace

void PreparedWeights::lay_out(const GgufFile& gguf) {
  group_ = *std::find_if(std::begin(kGroups), std::end(kGroups), [&](std::size_t group) {
    return group == std::end(kGroups)[-1] || divides_all(group, gguf);
  });
  std::size_t offset = 0;
  for (const auto& [name, tensor] : gguf.tensors()) {
    if (name == "rope_freqs.weight") continue;  // Part of ModelShape::rope_frequencies.
    Entry entry{.rows = tensor.rows, .columns = tensor.columns, .values_at = offset};
    if (tensor.rows == 1) {
      offset += aligned(tensor.columns * sizeof(float));
    } else {
      offset += aligned(tensor.rows * tensor.columns);
      entry.scales_at = offset;
      offset += aligned(tensor.rows * (tensor.columns / group_) * sizeof(ggml_fp16_t));
    }
    entries_.emplace(name, entry);
  }
  body_bytes_ = offset;
}

Result<void> PreparedWeights::make(const GgufFile& gguf, const ModelShape& shape,
                                   const std::string& path, std::size_t threads) const {
  INCIPIT_TRY(Draft draft, Draft::create(path, sizeof(Header) + body_bytes_));
  const auto body = draft.bytes().subspan(sizeof(Header));
  std::memset(body.data(), 0, body.size());
  std::string not_finite;
  for (const auto& [name, entry] : entries_) {
    const GgufTensor& tensor = *gguf.tensor(name);
    const bool interleaved = shape.interleaved_rope && is_rotary(name);
    if (entry.rows == 1) {
      std::vector<float> values(entry.columns);
      dequantise(tensor, 0, values);
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (!std::isfinite(values[i])) not_finite = name;
        std::memcpy(body.data() + entry.values_at + i * sizeof(float),
                    &values[source_row(i, shape.head_size, interleaved)], sizeof(float));
      }
      continue;
    }
    std::atomic<bool> all_finite = true;
    const auto work = [&](std::size_t begin, std::size_t end) {
      std::vector<float> row(entry.columns);
      for (std::size_t r = begin; r < end; ++r) {
        dequantise(tensor, source_row(r, shape.head_size, interleaved), row);
        if (!quantise_row(row, group_, body.data() + entry.values_at + r * entry.columns,
                          body.data() + entry.scales_at + r * (entry.columns / group_) * 2)) {
          all_finite = false;
        }
      }
    };
    std::vector<std::jthread> workers;
    for (std::size_t t = 0; t < threads; ++t) {
      workers.emplace_back(work, entry.rows * t / threads, entry.rows * (t + 1) / threads);
    }
    workers.clear();
    if (!all_finite) not_finite = name;
  }
  if (!not_finite.empty()) {
    return failure(ErrorCode::kCorruption,
                   gguf.path() + ": the tensor \"" + not_finite +
                       "\" holds values that are not finite or too large for int8 "
                       "with f16 scales; get the file again");
  }
  Header header;
  header.body_bytes = body_bytes_;
  header.body_hash = XXH3_64bits(body.data(), body.size());
  std::memcpy(draft.bytes().data(), &header, sizeof(header));
  if (!draft.keep_as(path)) {
    return failure(ErrorCode::kResourceExhausted,
                   "cannot write " + path + ": " + std::generic_category().message(errno));
  }
  return {};
}

Result<bool> PreparedWeights::map(const std::string& path) {
  const auto file = File::open_read(path);
  if (!file) return false;
  INCIPIT_TRY(const std::uint64_t size, file->size());
  if (size != sizeof(Header) + body_bytes_) return false;
  void* mapping =
      ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file->descriptor(), 0);
  if (mapping == MAP_FAILED) {
    return failure(ErrorCode::kResourceExhausted, "cannot map " + path + " into memory");
  }
  file_ = {static_cast<const std::byte*>(mapping), size};
  Header header;
  const Header expected;
  std::memcpy(&header, file_.data(), sizeof(header));
  const auto body = file_.subspan(sizeof(Header));
  const bool good = std::memcmp(header.magic, expected.magic, sizeof(header.magic)) == 0 &&
                    header.version == expected.version && header.body_bytes == body.size() &&
                    header.body_hash == XXH3_64bits(body.data(), body.size());
  if (!good) {
    ::munmap(mapping, size);
    file_ = {};
  }
  return good;
}

Result<std::unique_ptr<PreparedWeights>> PreparedWeights::open(
    const GgufFile& gguf, const ModelShape& shape, const std::string& path, std::size_t threads,
    const std::function<void(const std::string&)>& on_event) {
  std::unique_ptr<PreparedWeights> weights(new PreparedWeights());
  weights->lay_out(gguf);
  INCIPIT_TRY(const bool ready, weights->map(path));
  if (ready) return weights;
  const auto begin = std::chrono::steady_clock::now();
  INCIPIT_TRY_VOID(weights->make(gguf, shape, path, threads));
  INCIPIT_TRY(const bool made, weights->map(path));
  if (!made)
    return failure(ErrorCode::kCorruption, path + " does not read back as written; check the disk");
  if (on_event) {
    on_event("prepared the model's weights in " + std::to_string(std::lround(ms_since(begin))) +
             " ms (kept in " + path + ")");
  }
  return weights;
}

PreparedWeights::~PreparedWeights() {
  if (!file_.empty()) ::munmap(const_cast<std::byte*>(file_.data()), file_.size());
}

Int8Matrix PreparedWeights::matrix(std::string_view name) const {
  const auto found = entries_.find(name);
  INCIPIT_CHECK(found != entries_.end() && found->second.scales_at != 0, "a matrix of the model");
  const Entry& entry = found->second;
  const auto body = file_.subspan(sizeof(Header));
  return {.rows = entry.rows,
          .columns = entry.columns,
          .group = group_,
          .values = body.subspan(entry.values_at, entry.rows * entry.columns),
          .scales = body.subspan(entry.scales_at, entry.rows * (entry.columns / group_) * 2)};
}

std::span<const float> PreparedWeights::vector(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return {};
  const auto body = file_.subspan(sizeof(Header));
  return {reinterpret_cast<const float*>(body.data() + found->second.values_at),
          found->second.columns};
}

void PreparedWeights::release_pages() const {
  ::madvise(const_cast<std::byte*>(file_.data()), file_.size(), MADV_DONTNEED);
}

}  // namespace incipit::model
