// Characters, words and numbers of the text form.
#include <charconv>
#include <limits>

#include "base/status_macros.h"
#include "base/text.h"
#include "io/mapped_file.h"
#include "ir/text/internal.h"
#include "ir/text/parser.h"

namespace slipway::ir::text_form {

namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = std::numeric_limits<int64_t>::max();

}  // namespace

absl::Status TextParser::ErrorAt(size_t at, std::string_view message, absl::StatusCode code) const {
  size_t line = 1, begin = 0;
  for (size_t i = 0; i < at && i < text_.size(); ++i)
    if (text_[i] == '\n') {
      ++line;
      begin = i + 1;
    }
  return absl::Status(code, text::StrCat(options_.name, ":", line, ":", at - begin + 1, ": ", message));
}

void TextParser::Blank() {
  while (Peek() == ' ' || Peek() == '\t') ++at_;
}

// Past spaces, line ends and remarks.
void TextParser::Space() {
  for (;;) {
    while (Peek() == ' ' || Peek() == '\t' || Peek() == '\n' || Peek() == '\r') ++at_;
    if (Peek() != ';') return;
    while (!AtEnd() && Peek() != '\n') ++at_;
  }
}

bool TextParser::Eat(std::string_view token) {
  Space();
  if (!text_.substr(at_).starts_with(token)) return false;
  at_ += token.size();
  return true;
}

absl::Status TextParser::Expect(std::string_view token) {
  if (Eat(token)) return absl::OkStatus();
  return Error(text::StrCat("'", token, "' is expected"));
}

// The plain word here, "" where there is none. Does not move.
std::string_view TextParser::PeekWord() {
  Space();
  size_t end = at_;
  while (end < text_.size() && IsNameChar(text_[end])) ++end;
  return text_.substr(at_, end - at_);
}

bool TextParser::EatWord(std::string_view word) {
  if (PeekWord() != word) return false;
  at_ += word.size();
  return true;
}

absl::StatusOr<std::string> TextParser::String() {
  Space();
  if (Peek() != '"') return Error("a string in double quotes is expected");
  std::string out;
  for (++at_; Peek() != '"'; ++at_) {
    if (AtEnd() || Peek() == '\n') return Error("the string does not end");
    if (Peek() != '\\') {
      out += Peek();
      continue;
    }
    switch (Peek(1)) {
      case 'n': out += '\n'; break;
      case 't': out += '\t'; break;
      case '"':
      case '\\': out += Peek(1); break;
      case 'x': {
        int value = 0;
        auto [end, error] =
            std::from_chars(text_.data() + at_ + 2, text_.data() + std::min(at_ + 4, text_.size()), value, 16);
        if (error != std::errc() || end != text_.data() + at_ + 4 || value < 0)
          return Error("\\x wants two hexadecimal digits");
        out += static_cast<char>(value);
        at_ += 2;
        break;
      }
      default: return Error("unknown escape");
    }
    ++at_;
  }
  ++at_;
  return out;
}

// A plain or quoted word.
absl::StatusOr<std::string> TextParser::Word() {
  Space();
  if (Peek() == '"') return String();
  std::string_view w = PeekWord();
  if (w.empty()) return Error("a word is expected");
  at_ += w.size();
  return std::string(w);
}

absl::StatusOr<std::string> TextParser::Name(char sigil) {
  Space();
  if (Peek() != sigil) return Error(text::StrCat("'", std::string(1, sigil), "' and a name are expected"));
  ++at_;
  if (Peek() != '"' && !IsNameChar(Peek())) return Error("a name is expected");
  return Word();
}

absl::StatusOr<double> TextParser::Real() {
  Space();
  double value;
  auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
  if (error == std::errc::result_out_of_range) return Error("the number is too large");
  if (error != std::errc()) return Error("a number is expected");
  at_ = end - text_.data();
  return value;
}

absl::StatusOr<TextParser::Bounds> TextParser::Range() {
  Bounds b;
  for (std::optional<int64_t>* bound : {&b.min, &b.max}) {
    if (bound == &b.max) RETURN_IF_ERROR(Expect(".."));
    if (Eat("?")) continue;
    if (Eat("-inf"))
      *bound = kMin;
    else if (Eat("inf"))
      *bound = kMax;
    else {
      ASSIGN_OR_RETURN(*bound, Integer<int64_t>());
    }
  }
  return b;
}

}  // namespace slipway::ir::text_form
