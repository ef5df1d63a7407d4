// SPDX-License-Identifier: Apache-2.0
#include "model/openvino_machine.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <openvino/openvino.hpp>
#include <openvino/runtime/intel_cpu/properties.hpp>
#include <utility>

#include "base/memory.h"
#include "model/graph_builder.h"
#include "model/key_rotation.h"
#include "model/prepared_weights.h"

namespace incipit::model {

struct OpenVinoMachine::Parts {
  ov::Core core;
  ov::CompiledModel compiled;
  ov::InferRequest request;
  ov::Tensor logits;
};

namespace {

ov::element::Type element_of(KvType type) {
  switch (type) {
    case KvType::kInt8:
      return ov::element::u8;
    case KvType::kBf16:
      return ov::element::bf16;
    default:
      return ov::element::f32;
  }
}

ov::AnyMap compile_properties(const MachineOptions& options, std::size_t weight_group) {
  ov::AnyMap properties{
      ov::hint::inference_precision(options.precision == Precision::kBf16 ? ov::element::bf16
                                                                          : ov::element::f32),
      ov::hint::kv_cache_precision(element_of(options.kv_type)),
      ov::inference_num_threads(static_cast<std::int32_t>(options.threads)),
      ov::num_streams(1),
      ov::hint::enable_cpu_pinning(false),
      // Rows are rounded to int8 in the same groups, so that a group has one product of scales.
      ov::hint::dynamic_quantization_group_size(weight_group),
  };
  if (options.kv_type == KvType::kInt8) {
    properties["KEY_CACHE_QUANT_MODE"] =
        std::string(options.int8_by_token ? "BY_TOKEN" : "BY_CHANNEL");
  }
  return properties;
}

template <typename T>
void set(ov::InferRequest& request, const char* name, std::vector<T>& values) {
  request.set_tensor(name, ov::Tensor(ov::element::from<T>(), {values.size()}, values.data()));
}

}  // namespace

void PassInputs::clear() {
  input_ids.clear();
  position_ids.clear();
  attention_rows.clear();
  own_rows.clear();
  past_lens.clear();
  subsequence_begins.assign(1, 0);
  block_indices.clear();
  block_indices_begins.assign(1, 0);
  logits_rows.clear();
  max_context_len = 0;
}

OpenVinoMachine::OpenVinoMachine() : parts_(std::make_unique<Parts>()) {}

OpenVinoMachine::~OpenVinoMachine() {
  parts_.reset();  // Before the memory that its tensors point to.
  if (memory_ != nullptr) ::munmap(memory_, memory_bytes_);
}

Result<std::unique_ptr<OpenVinoMachine>> OpenVinoMachine::open(const ModelShape& shape,
                                                               const PreparedWeights& weights,
                                                               const MachineOptions& options) {
  INCIPIT_TRY(auto model, build_graph(shape, weights,
                                      {.shows_queries = options.shows_queries,
                                       .even_channels = options.kv_type == KvType::kInt8}));
  try {
    std::unique_ptr<OpenVinoMachine> machine(new OpenVinoMachine());
    machine->parts_->compiled = machine->parts_->core.compile_model(
        model, "CPU", compile_properties(options, weights.group()));
    machine->parts_->request = machine->parts_->compiled.create_infer_request();
    INCIPIT_TRY_VOID(machine->allocate(options));
    return machine;
  } catch (const std::exception& problem) {
    return failure(ErrorCode::kInternal,
                   std::string("OpenVINO cannot compile this model: ") + problem.what());
  }
}

Result<void> OpenVinoMachine::allocate(const MachineOptions& options) {
  std::vector<std::pair<std::string, ov::PartialShape>> inputs;
  for (const auto& input : parts_->compiled.inputs()) {
    const std::string name = input.get_any_name();
    if (name.find("_cache.") == std::string::npos) continue;
    const auto& shape = input.get_partial_shape();
    const auto heads = static_cast<std::size_t>(shape[1].get_length());
    const auto rows = static_cast<std::size_t>(shape[2].get_length());
    const std::size_t row_bytes =
        static_cast<std::size_t>(shape[3].get_length()) * input.get_element_type().size();
    planes_.push_back({.memory = nullptr,
                       .block_bytes = heads * rows * row_bytes,
                       .heads = heads,
                       .row_bytes = row_bytes,
                       .holds_keys = name.starts_with("key_cache.")});
    if (name.starts_with("key_cache.")) key_planes_.push_back(planes_.size() - 1);
    inputs.emplace_back(name, shape);
    cell_bytes_ += heads * row_bytes;
  }
  block_count_ = (options.cells + kBlockCells - 1) / kBlockCells + 1;  // One more for fillers.
  std::size_t block_bytes = 0;
  for (const Plane& plane : planes_) block_bytes += plane.block_bytes;
  memory_bytes_ = block_bytes * block_count_;
  const std::size_t available = available_memory_bytes();
  if (memory_bytes_ > available) {
    const std::size_t fit = available / block_bytes;
    return failure(ErrorCode::kResourceExhausted,
                   "--ctx-size " + std::to_string(options.cells) + ": the KV cells need " +
                       std::to_string(memory_bytes_ >> 20U) + " MiB, but only " +
                       std::to_string(available >> 20U) + " MiB is free; at most " +
                       std::to_string(fit < 2 ? 0 : (fit - 1) * kBlockCells) +
                       " cells would fit (--ctx-size)");
  }
  void* mapping = ::mmap(nullptr, memory_bytes_, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    return failure(ErrorCode::kResourceExhausted,
                   "the system refuses " + std::to_string(memory_bytes_ >> 20U) +
                       " MiB for KV cells; ask for fewer (--ctx-size)");
  }
  memory_ = static_cast<std::byte*>(mapping);
  // Attention walks through all cells of a prefix, and a new block lies on a page of its own in
  // each plane: with small pages, up to a tenth of a hit's time was faults and misses. Without
  // large pages it works the same.
  ::madvise(memory_, memory_bytes_, MADV_HUGEPAGE);
  std::byte* next = memory_;
  for (std::size_t i = 0; i < planes_.size(); ++i) {
    planes_[i].memory = next;
    const auto input = parts_->compiled.input(inputs[i].first);
    const ov::PartialShape& shape = inputs[i].second;
    parts_->request.set_tensor(
        inputs[i].first,
        ov::Tensor(input.get_element_type(),
                   {block_count_, planes_[i].heads, static_cast<std::size_t>(shape[2].get_length()),
                    static_cast<std::size_t>(shape[3].get_length())},
                   next));
    next += planes_[i].block_bytes * block_count_;
  }
  return {};
}

Result<std::span<const float>> OpenVinoMachine::infer(PassInputs& inputs) {
  try {
    ov::InferRequest& request = parts_->request;
    set(request, "input_ids", inputs.input_ids);
    set(request, "position_ids", inputs.position_ids);
    set(request, "past_lens", inputs.past_lens);
    set(request, "subsequence_begins", inputs.subsequence_begins);
    set(request, "block_indices", inputs.block_indices);
    set(request, "block_indices_begins", inputs.block_indices_begins);
    set(request, kAttentionRows, inputs.attention_rows);
    set(request, kOwnRows, inputs.own_rows);
    set(request, kLogitsRows, inputs.logits_rows);
    request.set_tensor("max_context_len",
                       ov::Tensor(ov::element::i32, {}, &inputs.max_context_len));
    request.infer();
    parts_->logits = request.get_tensor("logits");
    return std::span<const float>(parts_->logits.data<float>(), parts_->logits.get_size());
  } catch (const std::exception& problem) {
    return failure(ErrorCode::kInternal,
                   std::string("OpenVINO failed in a pass: ") + problem.what());
  }
}

Result<std::span<const float>> OpenVinoMachine::queries(std::size_t layer) const {
  try {
    const ov::Tensor tensor = parts_->request.get_tensor(queries_name(layer));
    return std::span<const float>(tensor.data<float>(), tensor.get_size());
  } catch (const std::exception& problem) {
    return failure(ErrorCode::kInternal,
                   std::string("OpenVINO shows no queries: ") + problem.what());
  }
}

void OpenVinoMachine::copy_block(BlockIndex from, BlockIndex to) {
  // Whole blocks, so that the scales of INT8 cells travel with them.
  for (const Plane& plane : planes_) {
    std::memcpy(plane.memory + static_cast<std::size_t>(to) * plane.block_bytes,
                plane.memory + static_cast<std::size_t>(from) * plane.block_bytes,
                plane.block_bytes);
  }
}

template <typename Visit>
void OpenVinoMachine::visit_cells(BlockIndex block, std::size_t first, std::size_t count,
                                  Visit visit) const {
  std::size_t packed = 0;
  for (const Plane& plane : planes_) {
    const std::size_t head_bytes = plane.block_bytes / plane.heads;
    std::byte* base = plane.memory + static_cast<std::size_t>(block) * plane.block_bytes;
    for (std::size_t head = 0; head < plane.heads; ++head) {
      visit(base + head * head_bytes + first * plane.row_bytes, packed, count * plane.row_bytes);
      packed += count * plane.row_bytes;
    }
  }
}

void OpenVinoMachine::read_cells(BlockIndex block, std::size_t first, std::size_t count,
                                 std::byte* to) const {
  visit_cells(block, first, count,
              [&](const std::byte* cells, std::size_t packed, std::size_t bytes) {
                std::memcpy(to + packed, cells, bytes);
              });
}

void OpenVinoMachine::write_cells(BlockIndex block, std::size_t first, std::size_t count,
                                  const std::byte* from) {
  visit_cells(block, first, count, [&](std::byte* cells, std::size_t packed, std::size_t bytes) {
    std::memcpy(cells, from + packed, bytes);
  });
}

void OpenVinoMachine::turn_keys(std::byte* packed, std::size_t count, KeyRotation& rotation) const {
  for (const Plane& plane : planes_) {
    const std::size_t rows = plane.heads * count;
    if (plane.holds_keys) rotation.turn(packed, rows);
    packed += rows * plane.row_bytes;
  }
}

std::size_t OpenVinoMachine::key_row_bytes() const {
  const auto keys = std::ranges::find(planes_, true, &Plane::holds_keys);
  return keys == planes_.end() ? 0 : keys->row_bytes;
}

const std::byte* OpenVinoMachine::key_row(std::size_t layer, BlockIndex block, std::size_t head,
                                          std::size_t cell) const {
  const Plane& plane = planes_[key_planes_[layer]];
  return plane.memory + static_cast<std::size_t>(block) * plane.block_bytes +
         head * (plane.block_bytes / plane.heads) + cell * plane.row_bytes;
}

std::string OpenVinoMachine::library_version() {
  return std::string("OpenVINO ") + ov::get_openvino_version().buildNumber;
}

bool OpenVinoMachine::has_bf16() {
  try {
    ov::Core core;
    const auto capabilities = core.get_property("CPU", ov::device::capabilities);
    return std::find(capabilities.begin(), capabilities.end(), "BF16") != capabilities.end();
  } catch (const std::exception&) {
    return false;  // A plugin that cannot be asked cannot be relied on either.
  }
}

}  // namespace incipit::model
