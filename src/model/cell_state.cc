// SPDX-License-Identifier: Apache-2.0
#include "model/cell_state.h"

#include <cstdint>
#include <cstring>
#include <string>

#include "base/check.h"
#include "base/hash.h"

namespace incipit::model {
namespace {

constexpr std::size_t kHexBytes = 64;

struct Frame {
  char magic[8] = {'I', 'N', 'C', 'C', 'E', 'L', 'L', '1'};
  char fingerprint[kHexBytes] = {};
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t payload_bytes = 0;
  char checksum[kHexBytes] = {};
};

std::string checksum_of(const Frame& frame, std::span<const std::byte> payload) {
  return Sha256()
      .field(std::string_view(frame.fingerprint, kHexBytes))
      .field(frame.begin)
      .field(frame.end)
      .update(payload)
      .hex();
}

}  // namespace

std::vector<std::byte> cells_frame(std::size_t payload_bytes) {
  return std::vector<std::byte>(sizeof(Frame) + payload_bytes);
}

std::span<std::byte> cells_payload(std::vector<std::byte>& framed) {
  return std::span(framed).subspan(sizeof(Frame));
}

void seal_cells(std::vector<std::byte>& framed, std::string_view fingerprint, std::size_t begin,
                std::size_t end) {
  INCIPIT_CHECK(fingerprint.size() == kHexBytes, "a fingerprint is 64 hexadecimal digits");
  Frame frame;
  fingerprint.copy(frame.fingerprint, kHexBytes);
  frame.begin = begin;
  frame.end = end;
  frame.payload_bytes = framed.size() - sizeof(Frame);
  checksum_of(frame, cells_payload(framed)).copy(frame.checksum, kHexBytes);
  std::memcpy(framed.data(), &frame, sizeof(frame));
}

Result<CellState> open_cells(std::span<const std::byte> framed, std::string_view fingerprint) {
  const auto damaged = [](const char* what) {
    return failure(ErrorCode::kCorruption, std::string("saved cells are damaged: ") + what);
  };
  Frame frame;
  const Frame expected;
  if (framed.size() < sizeof(Frame)) return damaged("cut short");
  std::memcpy(&frame, framed.data(), sizeof(frame));
  if (std::memcmp(frame.magic, expected.magic, sizeof(frame.magic)) != 0)
    return damaged("not a cell state");
  const auto payload = framed.subspan(sizeof(Frame));
  if (frame.payload_bytes != payload.size() || frame.begin > frame.end)
    return damaged("lengths do not fit");
  if (checksum_of(frame, payload) != std::string_view(frame.checksum, kHexBytes))
    return damaged("wrong checksum");
  if (std::string_view(frame.fingerprint, kHexBytes) != fingerprint) {
    return failure(
        ErrorCode::kInvalidArgument,
        "saved cells are of another model, precision, KV type, CPU or version; compute them again");
  }
  return CellState{.begin = frame.begin, .end = frame.end, .payload = payload};
}

}  // namespace incipit::model
