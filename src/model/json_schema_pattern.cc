// SPDX-License-Identifier: Apache-2.0
#include "model/json_schema_pattern.h"

#include <cstdint>
#include <optional>

#include "base/utf8.h"

namespace incipit::model {
namespace {

constexpr std::size_t kPatternBytesMax = 1000;
constexpr std::string_view kUnsafe = R"(\"\\\x00-\x1F\x7F)";  // As a class of GBNF names them.

std::unexpected<Error> refused(const std::string& why) {
  return failure(ErrorCode::kInvalidArgument, why);
}

// What stands for \d, \w, \s inside a class.
std::optional<std::string_view> class_escape(char c) {
  if (c == 'd') return "0-9";
  if (c == 'w') return "A-Za-z0-9_";
  if (c == 's') return " ";
  return std::nullopt;
}

bool is_plain(std::string_view character) {
  const auto byte = static_cast<unsigned char>(character[0]);
  return byte >= 0x20 && byte != 0x7F && byte != '"' && byte != '\\';
}

class PatternReader {
 public:
  explicit PatternReader(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> read() {
    if (pattern_.size() < 2 || !pattern_.starts_with('^') || !pattern_.ends_with('$'))
      return refused("a pattern must begin with ^ and end with $, for it is the whole string");
    if (pattern_.size() > kPatternBytesMax) return refused("a pattern has at most 1000 bytes");
    const std::size_t end = pattern_.size() - 1;
    result_ = "^";
    for (position_ = 1; position_ < end;) {
      const char c = pattern_[position_];
      if (c == '[') {
        INCIPIT_TRY_VOID(read_class());
      } else if (c == '\\') {
        INCIPIT_TRY_VOID(read_escape());
      } else if (c == '.') {
        result_ += "[^" + std::string(kUnsafe) + "]";
        ++position_;
      } else if (!is_plain(pattern_.substr(position_))) {
        return refused("a pattern cannot hold quotes or control characters");
      } else {
        result_ += c;
        ++position_;
      }
    }
    if (position_ != end) return refused("the pattern's last $ is escaped");
    return result_ + "$";
  }

 private:
  Result<void> read_escape() {
    const char c = pattern_[position_ + 1];
    position_ += 2;
    if (const auto expanded = class_escape(c)) {
      result_ += "[" + std::string(*expanded) + "]";
      return {};
    }
    if (std::string_view("^$.[]()|{}*+?").contains(c)) {
      result_ += std::string("\\") + c;
      return {};
    }
    if (c == '/' || c == '-') {
      result_ += c;
      return {};
    }
    return refused(std::string("the escape \\") + c +
                   " is not supported; known are \\d \\w \\s and escaped punctuation");
  }

  // Characters among which a range holds no quote and no backslash.
  enum class Kind : std::uint8_t { kOther, kDigit, kSmall, kCapital, kBeyondAscii };

  // One character of a class, or what an escape stands for.
  struct Member {
    std::string text;
    char first = 0;
    Kind kind = Kind::kOther;
  };

  static Member member(std::string_view character) {
    const char c = character[0];
    Kind kind = Kind::kOther;
    if (c >= '0' && c <= '9') kind = Kind::kDigit;
    if (c >= 'a' && c <= 'z') kind = Kind::kSmall;
    if (c >= 'A' && c <= 'Z') kind = Kind::kCapital;
    if ((static_cast<unsigned char>(c) & 0x80U) != 0) kind = Kind::kBeyondAscii;
    return {escaped(character), c, kind};
  }

  Result<Member> read_member() {
    if (position_ >= pattern_.size()) return refused("a class has no closing ]");
    if (pattern_[position_] == '\\') {
      const char c = position_ + 1 < pattern_.size() ? pattern_[position_ + 1] : '\0';
      position_ += 2;
      if (const auto expanded = class_escape(c)) return Member{.text = std::string(*expanded)};
      if (!std::string_view("^$.[]()|{}*+?/-").contains(c) || c == '\0')
        return refused(std::string("the escape \\") + c + " is not supported in a class");
      return member(std::string_view(&c, 1));
    }
    const std::string_view rest = pattern_.substr(position_);
    const std::string_view character = rest.substr(0, utf8_step(rest).bytes);
    if (!is_plain(character)) return refused("a class cannot hold quotes or control characters");
    position_ += character.size();
    return member(character);
  }

  // Written so that nothing has a second meaning.
  static std::string escaped(std::string_view character) {
    if (character == "-") return "\\x2D";
    if (character == "^") return "\\x5E";
    if (character == "[") return "\\[";
    if (character == "]") return "\\]";
    return std::string(character);
  }

  Result<void> read_class() {
    ++position_;
    const bool negated = position_ < pattern_.size() && pattern_[position_] == '^';
    if (negated) ++position_;
    std::string members;
    while (position_ >= pattern_.size() || pattern_[position_] != ']') {
      INCIPIT_TRY(const Member from, read_member());
      members += from.text;
      if (pattern_.substr(position_).starts_with("-") &&
          !pattern_.substr(position_).starts_with("-]")) {
        ++position_;
        INCIPIT_TRY(const Member to, read_member());
        if (from.kind == Kind::kOther || from.kind != to.kind ||
            (from.kind != Kind::kBeyondAscii && from.first > to.first))
          return refused(
              "a range of a class must rise within digits, small letters, capitals, or "
              "characters beyond ASCII");
        members += "-" + to.text;
      }
    }
    ++position_;
    if (members.empty()) return refused("a class is empty");
    result_ += (negated ? "[^" + members + std::string(kUnsafe) : "[" + members) + "]";
    return {};
  }

  std::string_view pattern_;  // The caller's, for the length of read().
  std::size_t position_ = 0;
  std::string result_;
};

}  // namespace

Result<std::string> json_safe_pattern(std::string_view pattern) {
  return PatternReader(pattern).read();
}

}  // namespace incipit::model
