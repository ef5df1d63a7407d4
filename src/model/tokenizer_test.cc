// SPDX-License-Identifier: Apache-2.0
#include "model/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/file.h"
#include "support/prompt_model.h"
#include "support/temp_dir.h"
#include "support/vocabulary_file.h"

namespace incipit::model {
namespace {

using test::qwen;
using test::smollm;

TEST(Tokenizer, AMissingFileIsNamed) {
  const auto opened = Tokenizer::open("/nowhere/model.gguf");
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(opened.error().message.find("/nowhere/model.gguf"), std::string::npos);
}

TEST(Tokenizer, ADirectoryAndGarbageAreRefused) {
  EXPECT_FALSE(Tokenizer::open("/"));
  const std::string path = test::scratch("garbage.gguf");
  ASSERT_TRUE(write_file(path, "GGUF is not enough"));
  EXPECT_FALSE(Tokenizer::open(path));
  ASSERT_TRUE(write_file(path, ""));
  EXPECT_FALSE(Tokenizer::open(path));
}

TEST(Tokenizer, QwenDeclaresItsTokens) {
  const Tokenizer& tokenizer = *qwen().tokenizer;
  EXPECT_EQ(tokenizer.kind(), VocabularyKind::kBpe);
  EXPECT_EQ(tokenizer.vocabulary(), 151936U);
  EXPECT_FALSE(tokenizer.adds_bos());
  EXPECT_EQ(tokenizer.piece(*tokenizer.end_of_turn()), "<|im_end|>");
  EXPECT_NE(tokenizer.chat_template().find("<|im_start|>"), std::string::npos);
  const auto& special = tokenizer.special_tokens();
  EXPECT_TRUE(std::ranges::any_of(
      special, [](const SpecialToken& token) { return token.surface == "<|im_start|>"; }));
}

TEST(Tokenizer, PlainTextHoldsNoControlTokenAndAWholePromptDoes) {
  const Tokenizer& tokenizer = *qwen().tokenizer;
  EXPECT_EQ(tokenizer.encode_whole("<|im_end|>").value().size(), 1U);
  EXPECT_GT(tokenizer.encode_plain("<|im_end|>").value().size(), 1U);
  EXPECT_TRUE(tokenizer.encode_plain("").value().empty());
}

TEST(Tokenizer, PiecesSpellTheText) {
  for (const auto* model : {&qwen(), &smollm()}) {
    const std::string text("caf\xC3\xA9 \xE4\xB8\xAD\xE6\x96\x87 \xF0\x9F\x98\x80\n\tx\0y", 23);
    EXPECT_EQ(model->spelled(model->tokenizer->encode_plain(text).value()), text);
    EXPECT_EQ(model->tokenizer->piece(-1), "");
    EXPECT_EQ(model->tokenizer->piece(static_cast<Token>(model->tokenizer->vocabulary())), "");
  }
}

TEST(Tokenizer, ASentencePieceFileDeclaresItsRules) {
  const auto tokenizer = test::must(Tokenizer::open(test::sentencepiece_file()));
  EXPECT_EQ(tokenizer->kind(), VocabularyKind::kSpm);
  EXPECT_TRUE(tokenizer->adds_bos());
  EXPECT_EQ(tokenizer->piece(*tokenizer->bos()), "<s>");
  // C37: a space stands before the first plain piece.
  const auto tokens = tokenizer->encode_plain("Refund").value();
  ASSERT_EQ(tokens.size(), 1U);
  EXPECT_EQ(tokenizer->piece(tokens[0]), " Refund");
}

}  // namespace
}  // namespace incipit::model
