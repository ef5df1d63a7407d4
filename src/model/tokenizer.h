// SPDX-License-Identifier: Apache-2.0
//
// Text to tokens and back, by the vocabulary of a GGUF file.
//
// There are two ways to read a text. encode_plain() takes it as a person's words: "<|im_end|>"
// typed by a user stays ten ordinary characters (USER_DEFINED tokens excepted, which libllama
// matches in any text; prompt/special_text.h deals with them). encode_whole() takes it as a
// finished prompt, where every special surface is its token. Neither adds a BOS: what a prompt
// begins with is decided in one place, prompt/prompt_text.h.
//
// Only the vocabulary is loaded, no weights: about 0.35 s for 150,000 tokens.
// Immutable, hence thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "incipit/result.h"
#include "incipit/types.h"

struct llama_vocab;

namespace incipit::model {

enum class VocabularyKind {
  kSpm,    // SentencePiece: merges over the whole text, often with a space before the first piece.
  kBpe,    // Byte-level BPE behind a pre-tokeniser, which bounds how far a merge can reach.
  kOther,  // WordPiece, unigram and others: nothing is known about how far a change reaches.
};

enum class SpecialKind { kControl, kUserDefined, kUnknown };

// A token whose surface is matched as a whole, before any merging.
struct SpecialToken {
  Token id = 0;
  std::string surface;
  SpecialKind kind = SpecialKind::kControl;
  bool strips_left = false;   // White space before it disappears (Phi-3, some BERT models).
  bool strips_right = false;  // White space after it disappears.
};

class Tokenizer {
 public:
  // Errors: kInvalidArgument for a missing file, or one whose vocabulary libllama cannot read.
  static Result<std::unique_ptr<Tokenizer>> open(const std::string& path);
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;
  ~Tokenizer();

  // Requires: `text` is valid UTF-8.
  // Errors:   kInternal if the vocabulary's pre-tokeniser gives up on the text.
  [[nodiscard]] Result<TokenVector> encode_plain(std::string_view text) const;
  [[nodiscard]] Result<TokenVector> encode_whole(std::string_view text) const;

  // The bytes that `token` stands for, the surface for a special token; not always whole
  // characters. Empty outside the vocabulary.
  [[nodiscard]] std::string piece(Token token) const;

  [[nodiscard]] std::size_t vocabulary() const { return vocabulary_; }
  [[nodiscard]] VocabularyKind kind() const { return kind_; }
  [[nodiscard]] const std::vector<SpecialToken>& special_tokens() const { return special_; }
  // No token spells more bytes than this; at least 1.
  [[nodiscard]] std::size_t piece_bytes_max() const { return piece_bytes_max_; }

  [[nodiscard]] std::optional<Token> bos() const { return bos_; }
  [[nodiscard]] std::optional<Token> eos() const { return eos_; }
  // What the vocabulary declares as the end of a turn, else the end of the text.
  [[nodiscard]] std::optional<Token> end_of_turn() const { return end_of_turn_; }
  // The model was trained with a BOS at the start of every text.
  [[nodiscard]] bool adds_bos() const { return adds_bos_; }

  // Whether an answer is over with this token.
  [[nodiscard]] bool ends_generation(Token token) const;
  // libllama's own, for its samplers.
  [[nodiscard]] const llama_vocab* vocab() const;

  // The Jinja source that the file carries; empty if it carries none.
  [[nodiscard]] const std::string& chat_template() const { return chat_template_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  struct Handle;
  Tokenizer(std::unique_ptr<Handle> handle, std::string path);
  [[nodiscard]] Result<TokenVector> encode(std::string_view text, bool parse_special) const;
  void list_special_tokens();

  std::unique_ptr<Handle> handle_;
  std::string path_;
  std::string chat_template_;
  std::size_t vocabulary_ = 0;
  std::size_t piece_bytes_max_ = 1;
  VocabularyKind kind_ = VocabularyKind::kOther;
  std::vector<SpecialToken> special_;
  std::optional<Token> bos_;
  std::optional<Token> eos_;
  std::optional<Token> end_of_turn_;
  bool adds_bos_ = false;
};

}  // namespace incipit::model
