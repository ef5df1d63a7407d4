// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/file.h"
#include "support/temp_dir.h"

namespace incipit {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(Sha256, GivesThePublishedDigests) {
  EXPECT_EQ(sha256_hex({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex(bytes_of("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, PiecesHashAsTheWhole) {
  EXPECT_EQ(Sha256().update(bytes_of("ab")).update(bytes_of("c")).hex(),
            sha256_hex(bytes_of("abc")));
}

TEST(Sha256, ListsOfFieldsNeverMeet) {
  EXPECT_NE(Sha256().field("ab").field("c").hex(), Sha256().field("a").field("bc").hex());
  EXPECT_NE(Sha256().field("").field("a").hex(), Sha256().field("a").field("").hex());
  EXPECT_NE(Sha256().field("a").hex(), sha256_hex(bytes_of("a")));
  EXPECT_NE(Sha256().field(std::uint64_t{1}).hex(), Sha256().field(std::uint64_t{2}).hex());
}

TEST(Sha256, FileLongerThanTheBufferHashesAsItsBytes) {
  const std::string path = test::scratch("long");
  const std::string content((std::size_t{2} << 20U) + 17, 'x');
  ASSERT_TRUE(write_file(path, content));
  const auto hash = sha256_of_file(path);
  ASSERT_TRUE(hash);
  EXPECT_EQ(*hash, sha256_hex(bytes_of(content)));
}

TEST(Sha256, MissingFileIsNamed) {
  const auto hash = sha256_of_file("/nowhere/model.gguf");
  ASSERT_FALSE(hash);
  EXPECT_EQ(hash.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(hash.error().message.contains("/nowhere/model.gguf"));
}

}  // namespace
}  // namespace incipit
