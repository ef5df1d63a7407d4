// SPDX-License-Identifier: Apache-2.0
#include "model/tokenizer.h"

#include <llama.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <utility>

#include "base/file.h"
#include "model/libllama.h"

namespace incipit::model {
namespace {

constexpr auto kTextBytesMax = static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max());

std::optional<Token> optional_token(llama_token token) {
  return token == LLAMA_TOKEN_NULL ? std::nullopt : std::optional<Token>(token);
}

VocabularyKind kind_of(enum llama_vocab_type type) {
  switch (type) {
    case LLAMA_VOCAB_TYPE_SPM:
      return VocabularyKind::kSpm;
    case LLAMA_VOCAB_TYPE_BPE:
      return VocabularyKind::kBpe;
    default:
      return VocabularyKind::kOther;
  }
}

std::optional<SpecialKind> special_kind(unsigned attributes) {
  if ((attributes & LLAMA_TOKEN_ATTR_CONTROL) != 0) return SpecialKind::kControl;
  if ((attributes & LLAMA_TOKEN_ATTR_USER_DEFINED) != 0) return SpecialKind::kUserDefined;
  if ((attributes & LLAMA_TOKEN_ATTR_UNKNOWN) != 0) return SpecialKind::kUnknown;
  return std::nullopt;
}

}  // namespace

// The one owner of the vocabulary. `vocab` belongs to `model`.
struct Tokenizer::Handle {
  llama_model* model = nullptr;
  const llama_vocab* vocab = nullptr;

  explicit Handle(llama_model* loaded) : model(loaded), vocab(llama_model_get_vocab(loaded)) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { llama_model_free(model); }
};

Result<std::unique_ptr<Tokenizer>> Tokenizer::open(const std::string& path) {
  // libllama says only "failed to load"; asking first gives the system's reason.
  INCIPIT_TRY_VOID(File::open_read(path));
  prepare_libllama();
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  llama_model* model = nullptr;
  try {
    model = llama_model_load_from_file(path.c_str(), params);
  } catch (const std::exception& error) {
    return failure(ErrorCode::kInvalidArgument,
                   path + ": the vocabulary cannot be read (" + error.what() +
                       "); check that the file is a complete GGUF model");
  }
  if (model == nullptr) {
    return failure(ErrorCode::kInvalidArgument,
                   path +
                       ": the vocabulary cannot be read; check that the file is a complete GGUF "
                       "model of an architecture that llama.cpp knows");
  }
  auto handle = std::make_unique<Handle>(model);
  if (llama_vocab_type(handle->vocab) == LLAMA_VOCAB_TYPE_NONE) {
    return failure(ErrorCode::kInvalidArgument,
                   path + ": the file has no vocabulary; use a GGUF file with tokenizer.ggml keys");
  }
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(handle), path));
}

Tokenizer::Tokenizer(std::unique_ptr<Handle> handle, std::string path)
    : handle_(std::move(handle)), path_(std::move(path)) {
  const llama_vocab* vocab = handle_->vocab;
  const char* source = llama_model_chat_template(handle_->model, nullptr);
  if (source != nullptr) chat_template_ = source;
  vocabulary_ = static_cast<std::size_t>(llama_vocab_n_tokens(vocab));
  kind_ = kind_of(llama_vocab_type(vocab));
  bos_ = optional_token(llama_vocab_bos(vocab));
  eos_ = optional_token(llama_vocab_eos(vocab));
  end_of_turn_ = optional_token(llama_vocab_eot(vocab));
  if (!end_of_turn_) end_of_turn_ = eos_;
  adds_bos_ = llama_vocab_get_add_bos(vocab) && bos_.has_value();
  list_special_tokens();
}

Tokenizer::~Tokenizer() = default;

void Tokenizer::list_special_tokens() {
  for (Token token = 0; static_cast<std::size_t>(token) < vocabulary_; ++token) {
    const auto attributes = static_cast<unsigned>(llama_vocab_get_attr(handle_->vocab, token));
    const std::string_view surface = llama_vocab_get_text(handle_->vocab, token);
    piece_bytes_max_ = std::max(piece_bytes_max_, surface.size());
    const auto kind = special_kind(attributes);
    if (!kind || surface.empty()) continue;
    special_.push_back({.id = token,
                        .surface = std::string(surface),
                        .kind = *kind,
                        .strips_left = (attributes & LLAMA_TOKEN_ATTR_LSTRIP) != 0,
                        .strips_right = (attributes & LLAMA_TOKEN_ATTR_RSTRIP) != 0});
  }
}

Result<TokenVector> Tokenizer::encode_plain(std::string_view text) const {
  return encode(text, false);
}

Result<TokenVector> Tokenizer::encode_whole(std::string_view text) const {
  return encode(text, true);
}

Result<TokenVector> Tokenizer::encode(std::string_view text, bool parse_special) const {
  if (text.empty()) return TokenVector{};
  if (text.size() > kTextBytesMax) {
    return failure(ErrorCode::kInvalidArgument, "a text of more than 2 GiB cannot be tokenised");
  }
  // One token a byte is nearly an upper bound; a vocabulary that puts a space in front needs more.
  TokenVector tokens(text.size() + 8);
  try {
    for (int attempt = 0; attempt < 2; ++attempt) {
      const std::int32_t count =
          llama_tokenize(handle_->vocab, text.data(), static_cast<std::int32_t>(text.size()),
                         tokens.data(), static_cast<std::int32_t>(tokens.size()),
                         /*add_special=*/false, parse_special);
      if (count >= 0) {
        tokens.resize(static_cast<std::size_t>(count));
        return tokens;
      }
      tokens.resize(static_cast<std::size_t>(-static_cast<std::int64_t>(count)));
    }
  } catch (const std::exception& error) {
    return failure(ErrorCode::kInternal,
                   path_ + ": its tokeniser failed on a text (" + error.what() + ")");
  }
  return failure(ErrorCode::kInternal, path_ + ": its tokeniser gave two lengths for one text");
}

bool Tokenizer::ends_generation(Token token) const {
  return llama_vocab_is_eog(handle_->vocab, token);
}

const llama_vocab* Tokenizer::vocab() const { return handle_->vocab; }

std::string Tokenizer::piece(Token token) const {
  if (token < 0 || static_cast<std::size_t>(token) >= vocabulary_) return {};
  std::string text(64, '\0');
  for (int attempt = 0; attempt < 2; ++attempt) {
    const std::int32_t count =
        llama_token_to_piece(handle_->vocab, token, text.data(),
                             static_cast<std::int32_t>(text.size()), 0, /*special=*/true);
    if (count >= 0) {
      text.resize(static_cast<std::size_t>(count));
      return text;
    }
    text.resize(static_cast<std::size_t>(-static_cast<std::int64_t>(count)));
  }
  return {};
}

}  // namespace incipit::model
