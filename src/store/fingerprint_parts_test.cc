// SPDX-License-Identifier: Apache-2.0
#include "store/fingerprint_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace incipit::store {
namespace {

using model::FingerprintPart;

const std::vector<FingerprintPart> kOurs{{"model", "1d96"}, {"precision", "bf16"}, {"law", "8"}};

TEST(FingerprintParts, NamesWhatDiffers) {
  const std::string ours = parts_text(kOurs);
  EXPECT_EQ(ours, "model=1d96;precision=bf16;law=8");
  EXPECT_EQ(difference("model=1d96;precision=f32;law=8", ours),
            "of another precision (f32; here bf16)");
  EXPECT_EQ(difference("model=cc32;precision=f32;law=8", ours),
            "of another model (cc32; here 1d96), another precision (f32; here bf16)");
}

TEST(FingerprintParts, WhereNothingTellsItSpeaksInGeneral) {
  const std::string general = difference("", "");
  EXPECT_NE(general.find("model, precision"), std::string::npos);
  for (const char* theirs : {"", ";;;", "model", "model=1d96", "other=1", "=", "=;="})
    EXPECT_EQ(difference(theirs, parts_text(kOurs)), general) << theirs;
}

TEST(FingerprintParts, HostileTextIsShortAndPrintable) {
  std::string theirs = "model=\x1b[2J\r\n\"\\" + std::string(100'000, 'x') + ";precision=\xff";
  for (int i = 0; i < 10'000; ++i) theirs += ";law=" + std::to_string(i);
  const std::string text = difference(theirs, parts_text(kOurs));
  EXPECT_LT(text.size(), 400U);
  EXPECT_TRUE(std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; })) << text;
}

// It goes into JSON as it is.
TEST(FingerprintParts, WhatIsWrittenNeedsNoEscapes) {
  const std::string text = parts_text(std::vector<FingerprintPart>{
      {"model", "a\"b\\c;d=e\n\x01\xc3\xa4"}, {"precision", std::string(10'000, 'x')}});
  EXPECT_EQ(text.substr(0, 21), "model=a?b?c,d=e????;p");
  EXPECT_LE(text.size(), 2048U);
}

}  // namespace
}  // namespace incipit::store
