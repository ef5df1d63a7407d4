// SPDX-License-Identifier: Apache-2.0
//
// A GGUF header is walked with suspicion: whatever it says, the answer is a file or an error that
// names the place, and never a crash or an allocation of the size that the header asks for.
#include "model/gguf_file.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/memory.h"
#include "support/gguf_writer.h"
#include "support/sanitizer.h"
#include "support/temp_dir.h"

namespace incipit::model {
namespace {

using test::ByteWriter;
using test::GgufWriter;

constexpr std::uint32_t kF32Tensor = 0;
constexpr std::uint64_t kHuge = std::uint64_t{1} << 60U;

class GgufFileTest : public testing::Test {
 protected:
  [[nodiscard]] std::string write(const std::string& bytes) const {
    // A new file each time, and no sync: there are thousands of these.
    std::filesystem::remove(path_);
    std::ofstream(path_, std::ios::binary) << bytes;
    return path_;
  }
  [[nodiscard]] Result<std::unique_ptr<GgufFile>> open(const std::string& bytes) const {
    return GgufFile::open(write(bytes));
  }
  // The message that these bytes are refused with; empty if they are not.
  [[nodiscard]] std::string refusal(const std::string& bytes) const {
    const auto opened = open(bytes);
    if (opened) return "";
    EXPECT_EQ(opened.error().code, ErrorCode::kCorruption) << opened.error().message;
    EXPECT_NE(opened.error().message.find(path_), std::string::npos) << opened.error().message;
    return opened.error().message;
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::string path_ = test::scratch("gguf_file_test.gguf");
};

std::string floats(std::size_t count) {
  ByteWriter bytes;
  for (std::size_t i = 0; i < count; ++i) bytes.put(static_cast<float>(i));
  return bytes.bytes();
}

GgufWriter good_file() {
  GgufWriter file;
  file.text("general.architecture", "llama");
  file.number("llama.block_count", 2);
  file.real("llama.epsilon", 0.5F);
  file.flag("tokenizer.add", true);
  const std::vector<std::string> tokens{"a", "", "long token"};
  file.texts("tokenizer.tokens", tokens);
  const std::vector<float> scores{1, 2, 3};
  file.numbers<float>("tokenizer.scores", scores);
  file.tensor("first", kF32Tensor, std::array<std::uint64_t, 2>{3, 2}, floats(6));
  file.tensor("second", kF32Tensor, std::array<std::uint64_t, 1>{5}, floats(5));
  return file;
}

bool mentions(const std::string& message, const std::string& what) {
  return message.find(what) != std::string::npos;
}

TEST_F(GgufFileTest, ReadsValuesAndTensors) {
  const auto file = open(good_file().bytes());
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ((*file)->text("general.architecture"), "llama");
  EXPECT_EQ((*file)->unsigned_value("llama.block_count"), 2U);
  EXPECT_EQ((*file)->number("llama.epsilon"), 0.5);
  EXPECT_EQ((*file)->number("llama.block_count"), 2.0);
  EXPECT_FALSE((*file)->text("llama.block_count"));
  EXPECT_FALSE((*file)->unsigned_value("general.architecture"));
  EXPECT_FALSE((*file)->number("absent"));
  EXPECT_EQ((*file)->value("absent"), nullptr);
  EXPECT_EQ(std::get<GgufArray>(*(*file)->value("tokenizer.tokens")).count, 3U);
  EXPECT_TRUE(std::get<bool>(*(*file)->value("tokenizer.add")));
  const GgufTensor* first = (*file)->tensor("first");
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->columns, 3U);
  EXPECT_EQ(first->rows, 2U);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(first->data.data()), first->data.size()),
            floats(6));
  EXPECT_EQ((*file)->tensor("second")->rows, 1U);
  EXPECT_EQ((*file)->tensor("third"), nullptr);
}

TEST_F(GgufFileTest, ReadsEveryNumberType) {
  GgufWriter file;
  file.value("u8", 0, ByteWriter().put(std::uint8_t{200}).bytes());
  file.value("i8", 1, ByteWriter().put(std::int8_t{-3}).bytes());
  file.value("u16", 2, ByteWriter().put(std::uint16_t{60000}).bytes());
  file.value("i16", 3, ByteWriter().put(std::int16_t{7}).bytes());
  file.value("i32", 5, ByteWriter().put(std::int32_t{-70000}).bytes());
  file.value("u64", 10, ByteWriter().put(kHuge).bytes());
  file.value("i64", 11, ByteWriter().put(std::int64_t{9}).bytes());
  file.value("f64", 12, ByteWriter().put(0.25).bytes());
  const auto read = open(file.bytes());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ((*read)->unsigned_value("u8"), 200U);
  EXPECT_FALSE((*read)->unsigned_value("i8"));
  EXPECT_EQ((*read)->unsigned_value("u16"), 60000U);
  EXPECT_EQ((*read)->unsigned_value("i16"), 7U);
  EXPECT_EQ(std::get<std::int64_t>(*(*read)->value("i32")), -70000);
  EXPECT_EQ((*read)->unsigned_value("u64"), kHuge);
  EXPECT_EQ((*read)->unsigned_value("i64"), 9U);
  EXPECT_EQ((*read)->number("f64"), 0.25);
}

TEST_F(GgufFileTest, RefusesWhatIsNoFile) {
  const auto missing = GgufFile::open("/nonexistent/model.gguf");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(mentions(missing.error().message, "/nonexistent/model.gguf"));
  const auto directory = GgufFile::open(test::scratch(""));
  ASSERT_FALSE(directory);
  EXPECT_EQ(directory.error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(mentions(directory.error().message, "directory")) << directory.error().message;
}

TEST_F(GgufFileTest, RefusesEveryTruncation) {
  const std::string good = good_file().bytes();
  // Padding behind the last tensor is nobody's data.
  const std::size_t needed = good.size() - (32 - 5 * sizeof(float));
  ASSERT_TRUE(open(good.substr(0, needed)));
  for (std::size_t size = 0; size < needed; ++size) {
    EXPECT_NE(refusal(good.substr(0, size)), "") << size;
  }
}

TEST_F(GgufFileTest, SaysWhatKindOfFileItIsNot) {
  EXPECT_TRUE(mentions(refusal(std::string(100, 'x')), "does not begin with \"GGUF\""));
  GgufWriter old = good_file();
  old.header_version(1);
  EXPECT_TRUE(mentions(refusal(old.bytes()), "version 1 is not supported"));
  GgufWriter future = good_file();
  future.header_version(4);
  EXPECT_TRUE(mentions(refusal(future.bytes()), "version 4"));
  GgufWriter big_endian = good_file();
  big_endian.header_version(0x03000000);
  EXPECT_TRUE(mentions(refusal(big_endian.bytes()), "big-endian")) << refusal(big_endian.bytes());
}

TEST_F(GgufFileTest, RefusesCountsBeyondTheFile) {
  for (const std::uint64_t count : {kHuge, ~std::uint64_t{0}, std::uint64_t{1000}}) {
    GgufWriter values = good_file();
    values.header_value_count(count);
    EXPECT_NE(refusal(values.bytes()), "") << count;
    GgufWriter tensors = good_file();
    tensors.header_tensor_count(count);
    EXPECT_NE(refusal(tensors.bytes()), "") << count;
  }
}

TEST_F(GgufFileTest, RefusesLengthsBeyondTheFile) {
  for (const std::uint64_t length : {kHuge, ~std::uint64_t{0}, std::uint64_t{100000}}) {
    const std::string lie = ByteWriter().put(length).bytes();
    GgufWriter text;
    text.value("key", 8, lie + "abc");
    EXPECT_NE(refusal(text.bytes()), "") << "text of " << length;
    GgufWriter list;
    list.value("key", 9, ByteWriter().put(std::uint32_t{6}).bytes() + lie + "abc");
    EXPECT_NE(refusal(list.bytes()), "") << "list of " << length;
    GgufWriter texts;
    texts.value("key", 9, ByteWriter().put(std::uint32_t{8}).bytes() + lie + "abc");
    EXPECT_NE(refusal(texts.bytes()), "") << "list of texts, " << length;
    GgufWriter inner;
    inner.value("key", 9, ByteWriter().put(std::uint32_t{8}).put(std::uint64_t{1}).bytes() + lie);
    EXPECT_NE(refusal(inner.bytes()), "") << "text in a list, " << length;
    ByteWriter key;
    key.raw("GGUF").put(std::uint32_t{3}).put(std::uint64_t{0}).put(std::uint64_t{1});
    key.put(length).raw("key and some more bytes");
    EXPECT_NE(refusal(key.bytes()), "") << "key of " << length;
  }
}

TEST_F(GgufFileTest, RefusesNestedListsAndUnknownTypes) {
  GgufWriter nested;
  nested.value("key", 9,
               ByteWriter()
                   .put(std::uint32_t{9})
                   .put(std::uint64_t{1})
                   .put(std::uint32_t{4})
                   .put(std::uint64_t{0})
                   .bytes());
  EXPECT_TRUE(mentions(refusal(nested.bytes()), "array of type 9")) << refusal(nested.bytes());
  GgufWriter unknown;
  unknown.value("key", 13, std::string(16, '\0'));
  EXPECT_TRUE(mentions(refusal(unknown.bytes()), "unknown value type 13"));
}

TEST_F(GgufFileTest, RefusesOddAlignments) {
  for (const std::uint32_t alignment : {0U, 3U, 1U << 31U, 0xffffffffU}) {
    GgufWriter file = good_file();
    file.number("general.alignment", alignment);
    EXPECT_TRUE(mentions(refusal(file.bytes()), "alignment")) << alignment;
  }
  GgufWriter text = good_file();
  text.text("general.alignment", "32");
  EXPECT_TRUE(mentions(refusal(text.bytes()), "alignment"));
  GgufWriter usual = good_file();
  usual.number("general.alignment", 32);
  EXPECT_TRUE(open(usual.bytes()));
}

TEST_F(GgufFileTest, RefusesDimensionsThatTheFileCannotHold) {
  const std::vector<std::vector<std::uint64_t>> shapes{
      {},
      {0},
      {4, 0},
      {std::uint64_t{1} << 62U},
      {4, std::uint64_t{1} << 62U},
      {1U << 11U, 1U << 11U, 1U << 11U, 1U << 11U},
      {std::uint64_t{1} << 32U, std::uint64_t{1} << 32U},
      {1, 1, 1, 1, 1},
      std::vector<std::uint64_t>(100, 1)};
  for (const auto& shape : shapes) {
    GgufWriter file = good_file();
    file.header_tensor("bad", kF32Tensor, shape, 0);
    EXPECT_NE(refusal(file.bytes()), "") << testing::PrintToString(shape);
  }
}

TEST_F(GgufFileTest, RefusesUnknownTensorTypesAndHalfBlocks) {
  for (const std::uint32_t type : {4U /* retired */, 36U /* retired */, 1000U, 0xffffffffU}) {
    GgufWriter file = good_file();
    file.header_tensor("bad", type, std::array<std::uint64_t, 1>{32}, 0);
    EXPECT_TRUE(mentions(refusal(file.bytes()), "\"bad\"")) << type;
  }
  GgufWriter half;
  half.tensor("half", 8 /* Q8_0, blocks of 32 */, std::array<std::uint64_t, 1>{33},
              std::string(100, 'x'));
  EXPECT_TRUE(mentions(refusal(half.bytes()), "\"half\""));
}

TEST_F(GgufFileTest, RefusesOffsetsBeyondTheFileOrMisaligned) {
  for (const std::uint64_t offset : {kHuge, ~std::uint64_t{31}, std::uint64_t{64}}) {
    GgufWriter file = good_file();
    file.header_tensor("beyond", kF32Tensor, std::array<std::uint64_t, 1>{8}, offset);
    EXPECT_TRUE(mentions(refusal(file.bytes()), "\"beyond\"")) << offset;
  }
  GgufWriter crooked = good_file();
  crooked.header_tensor("crooked", kF32Tensor, std::array<std::uint64_t, 1>{1}, 4);
  EXPECT_TRUE(mentions(refusal(crooked.bytes()), "\"crooked\""));
}

TEST_F(GgufFileTest, RefusesDuplicates) {
  GgufWriter key = good_file();
  key.number("llama.block_count", 3);
  EXPECT_TRUE(mentions(refusal(key.bytes()), "\"llama.block_count\" occurs twice"));
  GgufWriter tensor = good_file();
  tensor.tensor("first", kF32Tensor, std::array<std::uint64_t, 1>{1}, floats(1));
  EXPECT_TRUE(mentions(refusal(tensor.bytes()), "\"first\"")) << refusal(tensor.bytes());
  EXPECT_TRUE(mentions(refusal(tensor.bytes()), "occurs twice"));
}

// Whatever the damage, memory stays with the size of the file.
class GgufFileDamage : public GgufFileTest {
 protected:
  void SetUp() override { peak_ = peak_memory_bytes(); }
  void TearDown() override {
    if (!test::kIsSanitized) {
      EXPECT_LE(peak_memory_bytes() - peak_, std::size_t{8} << 20U)
          << "memory of the header's size";
    }
    GgufFileTest::TearDown();
  }
  std::size_t peak_ = 0;
};

TEST_F(GgufFileDamage, AnyFlippedBitGivesAFileOrAnError) {
  const std::string good = good_file().bytes();
  std::size_t refused = 0;
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = good;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      const auto opened = open(flipped);
      if (!opened) {
        ++refused;
        continue;
      }
      for (const auto& [name, tensor] : (*opened)->tensors()) {
        unsigned sum = 0;  // All of it can be read.
        for (const std::byte each : tensor.data) sum += std::to_integer<unsigned>(each);
        EXPECT_LE(sum, 255 * tensor.data.size());
      }
    }
  }
  EXPECT_GT(refused, good.size());
}

}  // namespace
}  // namespace incipit::model
