// One recursive-descent parser for both text forms of expressions: infix, and sympy's constructor calls, which are
// function calls to it. Texts come from files that are not trusted, so length and nesting are limited and every error
// says at which column.
#include <charconv>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "ir/sym.h"
#include "ir/sym/internal.h"

namespace slipway::ir {

namespace {

constexpr size_t kMaxLength = 64 * 1024;
constexpr int kMaxNesting = 200;

class Parser {
 public:
  Parser(SymTable* table, std::string_view text) : table_(table), text_(text) {}

  absl::StatusOr<Sym> ParseAll() {
    if (text_.size() > kMaxLength) {
      return absl::InvalidArgumentError(
          absl::StrCat("expression of ", text_.size(), " bytes is longer than ", kMaxLength));
    }
    for (size_t i = 0; i < text_.size(); ++i) {
      const unsigned char c = static_cast<unsigned char>(text_[i]);
      if (c >= 0x7f || (c < 0x20 && c != '\t' && c != '\n' && c != '\r')) {
        return ErrorAt(i, "a character that is not printable ASCII");
      }
    }
    auto r = ParseOr();
    if (!r.ok()) return r;
    if (SkipSpace(); at_ != text_.size()) return Error("unexpected text after the expression");
    if (r->is_too_large()) return ErrorAt(0, "the expression is too large");
    return r;
  }

 private:
  absl::Status ErrorAt(size_t at, const std::string& message) const {
    constexpr size_t kShown = 80;
    std::string shown;
    for (char c : text_.substr(0, kShown)) shown += absl::ascii_isprint(static_cast<unsigned char>(c)) ? c : '?';
    if (text_.size() > kShown) shown += "...";
    return absl::InvalidArgumentError(absl::StrCat("column ", at + 1, ": ", message, " in expression \"", shown, "\""));
  }
  absl::Status Error(const std::string& message) const { return ErrorAt(at_, message); }

  void SkipSpace() {
    while (at_ < text_.size() && absl::ascii_isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  char Peek() {
    SkipSpace();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool StartsWith(std::string_view token) {
    SkipSpace();
    return text_.substr(at_).starts_with(token);
  }
  bool Accept(std::string_view token) {
    if (!StartsWith(token)) return false;
    at_ += token.size();
    return true;
  }
  bool AcceptWord(std::string_view word) {
    if (!StartsWith(word)) return false;
    const size_t end = at_ + word.size();
    if (end < text_.size() && (IsSymbolNameChar(text_[end]) || text_[end] == '.')) return false;
    at_ = end;
    return true;
  }

  class Nesting {
   public:
    explicit Nesting(int* depth) : depth_(depth) { ++*depth_; }
    ~Nesting() { --*depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    bool too_deep() const { return *depth_ > kMaxNesting; }

   private:
    int* depth_;
  };

  absl::StatusOr<Sym> Operation(size_t at, SymKind kind, std::string_view symbol, absl::Span<const Sym> operands) {
    absl::Status status = CheckOperands(kind, operands);
    if (!status.ok()) return ErrorAt(at, absl::StrCat("'", std::string(symbol), "' ", status.message()));
    return Build(kind, operands);
  }

  // operands joined by one associative operator, given as a symbol and as a word (empty: none)
  template <typename Next>
  absl::StatusOr<Sym> ParseJoined(SymKind kind, std::string_view symbol, bool word, Next next) {
    auto first = next();
    if (!first.ok()) return first;
    std::vector<Sym> operands = {*first};
    SkipSpace();
    const size_t at = at_;
    while (word ? AcceptWord(symbol) : Accept(symbol)) {
      auto operand = next();
      if (!operand.ok()) return operand;
      operands.push_back(*operand);
    }
    if (operands.size() == 1) return first;
    return Operation(at, kind, symbol, operands);
  }

  absl::StatusOr<Sym> ParseOr() {
    return ParseJoined(SymKind::kOr, "or", true, [&] { return ParseAnd(); });
  }
  absl::StatusOr<Sym> ParseAnd() {
    return ParseJoined(SymKind::kAnd, "and", true, [&] { return ParseNot(); });
  }
  absl::StatusOr<Sym> ParseNot() {
    SkipSpace();
    const size_t at = at_;
    if (!AcceptWord("not")) return ParseComparison();
    Nesting nesting(&depth_);
    if (nesting.too_deep()) return Error("nested too deeply");
    auto operand = ParseNot();
    if (!operand.ok()) return operand;
    return Operation(at, SymKind::kNot, "not", {*operand});
  }

  std::optional<SymKind> AcceptComparison() {
    if (Accept("==")) return SymKind::kEq;
    if (Accept("!=")) return SymKind::kNe;
    if (Accept("<=")) return SymKind::kLe;
    if (Accept(">=")) return SymKind::kGe;
    if (Accept("<")) return SymKind::kLt;
    if (Accept(">")) return SymKind::kGt;
    return std::nullopt;
  }

  absl::StatusOr<Sym> ParseComparison() {
    auto left = ParseBitOr();
    if (!left.ok()) return left;
    SkipSpace();
    const size_t at = at_;
    const auto kind = AcceptComparison();
    if (!kind) return left;
    const std::string_view symbol = text_.substr(at, at_ - at);
    auto right = ParseBitOr();
    if (!right.ok()) return right;
    if (AcceptComparison()) return Error("a chain of comparisons is not supported");
    return Operation(at, *kind, symbol, {*left, *right});
  }

  absl::StatusOr<Sym> ParseBitOr() {
    return ParseJoined(SymKind::kOr, "|", false, [&] { return ParseBitAnd(); });
  }
  absl::StatusOr<Sym> ParseBitAnd() {
    return ParseJoined(SymKind::kAnd, "&", false, [&] { return ParseSum(); });
  }

  absl::StatusOr<Sym> ParseSum() {
    auto first = ParseTerm();
    if (!first.ok()) return first;
    std::vector<Sym> terms = {*first};
    SkipSpace();
    const size_t at = at_;
    while (Peek() == '+' || Peek() == '-') {
      const bool minus = text_[at_++] == '-';
      const size_t term_at = at_;
      auto term = ParseTerm();
      if (!term.ok()) return term;
      if (minus) {
        term = Operation(term_at, SymKind::kMul, "-", {Sym(-1), *term});
        if (!term.ok()) return term;
      }
      terms.push_back(*term);
    }
    if (terms.size() == 1) return first;
    return Operation(at, SymKind::kAdd, "+", terms);
  }

  absl::StatusOr<Sym> ParseTerm() {
    // A leading minus is one more factor, so that "-(a + b)*c" is one product and not a negated sum times c.
    std::vector<Sym> factors;
    SkipSpace();
    size_t product_at = at_;
    if (Accept("-")) factors.push_back(AcceptNegatedExtreme() ? Sym(kInt64Min) : Sym(-1));
    if (factors.empty() || factors[0].is(-1)) {
      auto first = ParseUnary();
      if (!first.ok()) return first;
      factors.push_back(*first);
    }
    const auto product = [&]() -> absl::StatusOr<Sym> {
      if (factors.size() == 1) return factors[0];
      return Operation(product_at, SymKind::kMul, "*", factors);
    };
    for (;;) {
      SkipSpace();
      const size_t at = at_;
      SymKind kind = SymKind::kMul;
      if (StartsWith("**")) return Error("unexpected '**'");
      if (Accept("*")) {
        if (factors.size() == 1) product_at = at;
      } else if (Accept("//")) {
        kind = SymKind::kFloorDiv;
      } else if (Accept("%")) {
        kind = SymKind::kMod;
      } else if (Accept("/")) {
        kind = SymKind::kIntTrueDiv;
      } else {
        return product();
      }
      const std::string_view symbol = text_.substr(at, at_ - at);
      auto right = ParseUnary();
      if (!right.ok()) return right;
      if (kind == SymKind::kMul) {
        factors.push_back(*right);
        continue;
      }
      auto left = product();
      if (!left.ok()) return left;
      if (kind == SymKind::kIntTrueDiv && !(left->is_integer_valued() && right->is_integer_valued())) {
        kind = SymKind::kFloatTrueDiv;
      }
      auto quotient = Operation(at, kind, symbol, {*left, *right});
      if (!quotient.ok()) return quotient;
      factors = {*quotient};
    }
  }

  absl::StatusOr<Sym> ParseUnary() {
    // Signs are gathered in a loop, so a long run of them needs no stack.
    const size_t start = at_;
    std::string signs;
    for (char c = Peek(); c == '-' || c == '+' || c == '~'; c = Peek()) {
      signs.push_back(c);
      ++at_;
    }
    absl::StatusOr<Sym> operand;
    if (!signs.empty() && signs.back() == '-' && AcceptNegatedExtreme()) {
      signs.pop_back();
      operand = Sym(kInt64Min);
    } else {
      operand = ParsePower();
    }
    for (; operand.ok() && !signs.empty(); signs.pop_back()) {
      if (signs.back() == '-') {
        operand = Operation(start, SymKind::kMul, "-", {Sym(-1), *operand});
      } else if (signs.back() == '~') {
        operand = Operation(start, SymKind::kNot, "~", {*operand});
      } else {
        operand = Operation(start, SymKind::kAdd, "+", {*operand});
      }
    }
    return operand;
  }

  // What follows a minus sign and gives INT64_MIN with it, though its own negation would not: 2^63 and infinity.
  bool AcceptNegatedExtreme() {
    const size_t start = at_;
    if (Accept("9223372036854775808")) {
      const char next = at_ < text_.size() ? text_[at_] : '\0';
      if (!IsSymbolNameChar(next) && next != '.' && !StartsWith("**")) return true;
    } else {
      for (std::string_view word : {"oo", "int_oo", "Infinity", "IntInfinity"}) {
        if (AcceptWord(word) && !StartsWith("**") && !StartsWith("(")) return true;
      }
    }
    at_ = start;
    return false;
  }

  absl::StatusOr<Sym> ParsePower() {
    auto base = ParsePrimary();
    if (!base.ok() || !StartsWith("**")) return base;
    Nesting nesting(&depth_);
    if (nesting.too_deep()) return Error("nested too deeply");
    const size_t at = at_;
    at_ += 2;
    auto exponent = ParseUnary();
    if (!exponent.ok()) return exponent;
    return Operation(at, SymKind::kPow, "**", {*base, *exponent});
  }

  absl::StatusOr<Sym> ParsePrimary() {
    const char c = Peek();
    if (c == '(') {
      Nesting nesting(&depth_);
      if (nesting.too_deep()) return Error("nested too deeply");
      ++at_;
      auto r = ParseOr();
      if (!r.ok()) return r;
      if (!Accept(")")) return Error("expected ')'");
      return r;
    }
    if (absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '.') return ParseNumber();
    if (IsSymbolNameStart(c)) return ParseName();
    if (c == '\0') return Error("the expression ends early");
    return Error("expected a number, a name or '('");
  }

  absl::StatusOr<Sym> ParseNumber() {
    const size_t start = at_;
    bool real = false;
    const auto digits = [&] {
      while (at_ < text_.size() && absl::ascii_isdigit(static_cast<unsigned char>(text_[at_]))) ++at_;
    };
    digits();
    if (at_ < text_.size() && text_[at_] == '.') {
      real = true;
      ++at_;
      digits();
    }
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      real = true;
      ++at_;
      if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
      digits();
    }
    if (at_ < text_.size() && IsSymbolNameChar(text_[at_])) return ErrorAt(start, "a malformed number");
    const std::string_view token = text_.substr(start, at_ - start);
    if (real) {
      auto v = FloatFrom(token);
      if (!v) return ErrorAt(start, "a malformed or too large number");
      return table_->Float(*v);
    }
    int64_t v = 0;
    const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), v);
    if (error != std::errc() || end != token.data() + token.size()) {
      return ErrorAt(start, "an integer beyond 64 bits");
    }
    return Sym(v);
  }

  static std::optional<double> FloatFrom(std::string_view token) {
    double v = 0;
    if (!token.empty() && token[0] == '+') token.remove_prefix(1);
    const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), v);
    if (error != std::errc() || end != token.data() + token.size()) return std::nullopt;
    return v;
  }

  absl::StatusOr<Sym> ParseName() {
    const size_t start = at_;
    while (at_ < text_.size() && (IsSymbolNameChar(text_[at_]) || text_[at_] == '.')) ++at_;
    const std::string_view name = text_.substr(start, at_ - start);
    if (Peek() == '(') return ParseCall(name, start);
    if (IsOperatorWord(name)) return ErrorAt(start, absl::StrCat("unexpected '", std::string(name), "'"));
    if (auto v = BoolNamed(name)) return table_->Bool(*v);
    if (auto v = InfinityNamed(name)) return Sym(*v);
    if (!IsPlainSymbolName(name)) return ErrorAt(start, absl::StrCat("'", std::string(name), "' is not a symbol"));
    return table_->Symbol(name, /*positive=*/false);
  }

  absl::StatusOr<Sym> ParseCall(std::string_view name, size_t start) {
    Nesting nesting(&depth_);
    if (nesting.too_deep()) return Error("nested too deeply");
    ++at_;  // (
    if (name == "Symbol") return ParseSymbol(start);
    if (name == "Float") return ParseFloat(start);
    std::vector<Sym> operands;
    if (!Accept(")")) {
      do {
        auto operand = ParseOr();
        if (!operand.ok()) return operand;
        operands.push_back(*operand);
      } while (Accept(","));
      if (!Accept(")")) return Error("expected ',' or ')'");
    }
    if (name == "Integer") {
      if (operands.size() != 1 || !operands[0].is_constant())
        return ErrorAt(start, "Integer takes one integer literal");
      return operands[0];
    }
    if (IsOperatorWord(name)) return ErrorAt(start, absl::StrCat("unexpected '", std::string(name), "'"));
    auto r = BuildNamed(name, operands);
    if (!r.ok()) return ErrorAt(start, std::string(r.status().message()));
    return r;
  }

  absl::StatusOr<std::string> ParseString() {
    const char quote = Peek();
    if (quote != '\'' && quote != '"') return Error("expected a quoted string");
    ++at_;
    std::string out;
    while (at_ < text_.size() && text_[at_] != quote) {
      if (text_[at_] == '\\') {
        ++at_;
        if (at_ == text_.size() || (text_[at_] != '\\' && text_[at_] != '\'' && text_[at_] != '"')) {
          return Error("an unknown escape");
        }
      }
      out += text_[at_++];
    }
    if (at_ == text_.size()) return Error("a string that does not end");
    ++at_;
    return out;
  }

  struct Keyword {
    std::string_view name;
    std::string_view value;
    size_t at;
  };
  // ", name=value" up to and with the closing parenthesis
  absl::StatusOr<std::vector<Keyword>> ParseKeywords() {
    std::vector<Keyword> out;
    const auto word = [&] {
      SkipSpace();
      const size_t from = at_;
      while (at_ < text_.size() && IsSymbolNameChar(text_[at_])) ++at_;
      return text_.substr(from, at_ - from);
    };
    while (Accept(",")) {
      SkipSpace();
      Keyword k{.at = at_};
      k.name = word();
      if (k.name.empty() || !Accept("=")) return Error("expected name=value");
      k.value = word();
      if (k.value.empty()) return Error("expected a value");
      out.push_back(k);
    }
    if (!Accept(")")) return Error("expected ',' or ')'");
    return out;
  }

  absl::StatusOr<Sym> ParseSymbol(size_t start) {
    auto name = ParseString();
    if (!name.ok()) return name.status();
    if (name->empty()) return ErrorAt(start, "a symbol without a name");
    auto keywords = ParseKeywords();
    if (!keywords.ok()) return keywords.status();
    bool positive = false;
    bool non_negative = false;
    bool integer = keywords->empty();
    for (const Keyword& k : *keywords) {
      const auto value = BoolNamed(k.value);
      if (!value) return ErrorAt(k.at, absl::StrCat("assumption ", std::string(k.name), " is neither True nor False"));
      if (k.name == "positive") {
        positive = *value;
      } else if (k.name == "integer") {
        integer = *value;
      } else if (k.name == "nonnegative") {
        non_negative = *value;
      } else if (k.name == "real" || k.name == "finite" || k.name == "commutative") {
        if (!*value) return ErrorAt(k.at, absl::StrCat("a symbol that is not ", std::string(k.name)));
      } else {
        return ErrorAt(k.at, absl::StrCat("unknown assumption ", std::string(k.name)));
      }
    }
    if (!integer) {
      return absl::UnimplementedError(
          ErrorAt(start, absl::StrCat("symbol ", *name, " is not an integer; only integer symbols are supported"))
              .message());
    }
    const Sym symbol = table_->Symbol(*name, positive);
    absl::Status status;
    if (positive) status = table_->SetPositive(*name);
    if (non_negative && status.ok()) status = table_->SetRange(*name, {0, kInt64Max});
    if (!status.ok()) return ErrorAt(start, std::string(status.message()));
    return symbol;
  }

  absl::StatusOr<Sym> ParseFloat(size_t start) {
    auto digits = ParseString();
    if (!digits.ok()) return digits.status();
    auto keywords = ParseKeywords();
    if (!keywords.ok()) return keywords.status();
    for (const Keyword& k : *keywords) {
      if (k.name != "precision" || k.value != "53") {
        return ErrorAt(k.at, absl::StrCat("Float with ", std::string(k.name), "=", std::string(k.value),
                                          "; only precision=53 is supported"));
      }
    }
    auto v = FloatFrom(*digits);
    if (!v) return ErrorAt(start, "a malformed or too large Float");
    return table_->Float(*v);
  }

  SymTable* table_;
  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

absl::StatusOr<Sym> SymTable::ParseExpr(std::string_view text) { return Parser(this, text).ParseAll(); }

}  // namespace slipway::ir
