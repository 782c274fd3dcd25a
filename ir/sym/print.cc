// Expressions as text: the infix form people and torch 2.5 write, and the sympy constructor form torch 2.6 and later
// write.
#include <charconv>
#include <cmath>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "ir/sym.h"
#include "ir/sym/internal.h"

namespace slipway::ir {

bool IsSymbolNameStart(char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool IsSymbolNameChar(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; }

std::optional<int64_t> InfinityNamed(std::string_view word) {
  if (word == "oo" || word == "int_oo" || word == "Infinity" || word == "IntInfinity") return kInt64Max;
  if (word == "NegativeInfinity" || word == "NegativeIntInfinity") return kInt64Min;
  return std::nullopt;
}

std::optional<bool> BoolNamed(std::string_view word) {
  if (word == "True" || word == "true") return true;
  if (word == "False" || word == "false") return false;
  return std::nullopt;
}

bool IsOperatorWord(std::string_view word) { return word == "and" || word == "or" || word == "not"; }

bool IsPlainSymbolName(std::string_view name) {
  if (name.empty() || !IsSymbolNameStart(name[0])) return false;
  for (char c : name) {
    if (!IsSymbolNameChar(c)) return false;
  }
  return !IsOperatorWord(name) && !BoolNamed(name) && !InfinityNamed(name) && name != "nan" && name != "inf";
}

namespace {

std::string QuotedName(std::string_view name) {
  std::string out = "'";
  for (char c : name) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out += '\'';
}

std::string FloatDigits(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, v).ptr;
  std::string out(buffer, end);
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

std::string FloatConstructor(double v) { return absl::StrCat("Float('", FloatDigits(v), "', precision=53)"); }

void SymbolConstructor(Sym s, std::string* out) {
  absl::StrAppend(out, "Symbol(", QuotedName(s.name()));
  const SymNode* n = NodeOf(s);
  if (n->store->symbols[n->symbol_index].positive) absl::StrAppend(out, ", positive=True");
  absl::StrAppend(out, ", integer=True)");
}

// torch's Mod is for non-negative dividends and positive divisors; its PythonMod is the general one.
std::string_view ModName(Sym s) {
  const bool plain = RangeOf(s.operands()[0]).min >= 0 && RangeOf(s.operands()[1]).min >= 1;
  return plain ? "Mod" : "PythonMod";
}

bool IsNaturalPower(Sym s) { return s.operands()[1].is_constant() || !s.operands()[1].is_integer_valued(); }

struct KindNames {
  std::string_view infix;  // the operator, or the function's name if `is_function`
  std::string_view constructor;
  bool is_function;
};

KindNames NamesOf(Sym s) {
  switch (s.kind()) {
    case SymKind::kAdd: return {" + ", "Add", false};
    case SymKind::kMul: return {"*", "Mul", false};
    case SymKind::kPow:
      if (IsNaturalPower(s)) return {"**", "Pow", false};
      return {"PowByNatural", "PowByNatural", true};
    case SymKind::kFloorDiv: return {"//", "FloorDiv", false};
    case SymKind::kCeilDiv: return {"CeilDiv", "CeilDiv", true};
    case SymKind::kMod: return {ModName(s), ModName(s), true};
    case SymKind::kMax: return {"Max", "Max", true};
    case SymKind::kMin: return {"Min", "Min", true};
    case SymKind::kToFloat: return {"ToFloat", "ToFloat", true};
    case SymKind::kTruncToInt: return {"TruncToInt", "TruncToInt", true};
    case SymKind::kFloorToInt: return {"FloorToInt", "FloorToInt", true};
    case SymKind::kCeilToInt: return {"CeilToInt", "CeilToInt", true};
    case SymKind::kRoundToInt: return {"RoundToInt", "RoundToInt", true};
    case SymKind::kTruncToFloat: return {"TruncToFloat", "TruncToFloat", true};
    case SymKind::kFloatTrueDiv: return {"FloatTrueDiv", "FloatTrueDiv", true};
    case SymKind::kIntTrueDiv: return {"IntTrueDiv", "IntTrueDiv", true};
    case SymKind::kFloatPow: return {"FloatPow", "FloatPow", true};
    case SymKind::kEq: return {"Eq", "Equality", true};
    case SymKind::kNe: return {"Ne", "Unequality", true};
    case SymKind::kLt: return {" < ", "StrictLessThan", false};
    case SymKind::kLe: return {" <= ", "LessThan", false};
    case SymKind::kGt: return {" > ", "StrictGreaterThan", false};
    case SymKind::kGe: return {" >= ", "GreaterThan", false};
    case SymKind::kAnd: return {" & ", "And", false};
    case SymKind::kOr: return {" | ", "Or", false};
    case SymKind::kNot: return {"Not", "Not", true};
    case SymKind::kWhere: return {"Where", "Where", true};
    case SymKind::kCall: return {s.name(), s.name(), true};
    case SymKind::kInteger:
    case SymKind::kFloat:
    case SymKind::kBool:
    case SymKind::kSymbol: break;
  }
  return {};
}

void PrintConstructor(Sym s, std::string* out) {
  switch (s.kind()) {
    case SymKind::kInteger: absl::StrAppend(out, "Integer(", *s.constant(), ")"); return;
    case SymKind::kFloat: out->append(FloatConstructor(s.float_value())); return;
    case SymKind::kBool: out->append(s.bool_value() ? "true" : "false"); return;
    case SymKind::kSymbol: SymbolConstructor(s, out); return;
    default: break;
  }
  out->append(NamesOf(s).constructor);
  out->push_back('(');
  bool first = true;
  for (Sym o : s.operands()) {
    if (!first) out->append(", ");
    first = false;
    PrintConstructor(o, out);
  }
  out->push_back(')');
}

// How tightly what is printed holds together; a part that binds less tightly than its place asks goes in parentheses.
enum Binding { kLoosest, kComparison, kSum, kProduct, kPower, kAtom };

bool IsNegativeNumber(Sym s) {
  if (s.is_constant()) return *s.constant() < 0;
  return s.kind() == SymKind::kFloat && std::isfinite(s.float_value()) && std::signbit(s.float_value());
}

Binding BindingOf(Sym s) {
  if (IsNegativeNumber(s)) return kProduct;
  if (s.operands().empty() || NamesOf(s).is_function) return kAtom;
  switch (s.kind()) {
    case SymKind::kAdd: return kSum;
    case SymKind::kMul:
    case SymKind::kFloorDiv: return kProduct;
    case SymKind::kPow: return kPower;
    case SymKind::kAnd:
    case SymKind::kOr: return kLoosest;
    default: return kComparison;
  }
}

void PrintInfix(Sym s, Binding place, std::string* out);

// A sum's term after the first, with its sign as the operator. INT64_MIN has no positive counterpart to print, and a
// product of doubles
// keeps its sign: "a - 0.5*x" reads back as a negated product.
void PrintLaterTerm(Sym s, std::string* out) {
  const Sym lead = IsKind(s, SymKind::kMul) ? s.operands()[0] : s;
  std::string text;
  PrintInfix(s, kProduct, &text);
  const bool of_doubles = IsKind(s, SymKind::kMul) && IsKind(lead, SymKind::kFloat);
  if (IsNegativeNumber(lead) && !lead.is(kInt64Min) && !of_doubles && text[0] == '-') {
    out->append(" - ").append(text, 1);
  } else {
    out->append(" + ").append(text);
  }
}

void PrintProduct(Sym s, std::string* out) {
  const auto ops = s.operands();
  size_t from = 0;
  if (ops[0].is(-1)) {  // "-a*b" reads back as (-1)*a*b, of doubles too
    out->push_back('-');
    from = 1;
  }
  for (size_t i = from; i < ops.size(); ++i) {
    if (i > from) out->push_back('*');
    // A leading number or product is read first anyway; later parts must not be torn apart.
    const bool leads = i == 0 && (IsNegativeNumber(ops[0]) || IsIntegerKind(ops[0], SymKind::kMul));
    PrintInfix(ops[i], leads ? kProduct : kPower, out);
  }
}

void PrintInfix(Sym s, Binding place, std::string* out) {
  switch (s.kind()) {
    case SymKind::kInteger:
    case SymKind::kFloat: {
      std::string text = s.is_constant()                  ? absl::StrCat(*s.constant())
                         : std::isfinite(s.float_value()) ? FloatDigits(s.float_value())
                                                          : FloatConstructor(s.float_value());
      const bool parentheses = IsNegativeNumber(s) && place > kProduct;
      absl::StrAppend(out, parentheses ? "(" : "", text, parentheses ? ")" : "");
      return;
    }
    case SymKind::kBool: out->append(s.bool_value() ? "True" : "False"); return;
    case SymKind::kSymbol:
      if (IsPlainSymbolName(s.name())) {
        out->append(s.name());
      } else {
        SymbolConstructor(s, out);
      }
      return;
    default: break;
  }
  const KindNames names = NamesOf(s);
  const auto ops = s.operands();
  if (names.is_function) {
    out->append(names.infix);
    out->push_back('(');
    for (size_t i = 0; i < ops.size(); ++i) {
      if (i > 0) out->append(", ");
      PrintInfix(ops[i], kLoosest, out);
    }
    out->push_back(')');
    return;
  }
  const Binding binding = BindingOf(s);
  const bool parentheses = binding < place;
  if (parentheses) out->push_back('(');
  if (ops.size() == 1) {  // an operation of many operands kept for one of unknown type
    out->append(names.constructor);
    out->push_back('(');
    PrintInfix(ops[0], kLoosest, out);
    out->push_back(')');
  } else if (s.kind() == SymKind::kAdd) {
    PrintInfix(ops[0], ops[0].is_integer_valued() && !s.is_integer_valued() ? kSum : kProduct, out);
    for (Sym o : ops.subspan(1)) PrintLaterTerm(o, out);
  } else if (s.kind() == SymKind::kMul) {
    PrintProduct(s, out);
  } else {
    const Binding part = binding == kLoosest ? kAtom : binding == kComparison ? kSum : kAtom;
    for (size_t i = 0; i < ops.size(); ++i) {
      if (i > 0) out->append(names.infix);
      PrintInfix(ops[i], part, out);
    }
  }
  if (parentheses) out->push_back(')');
}

}  // namespace

std::string Sym::ToString() const {
  std::string out;
  PrintInfix(*this, kLoosest, &out);
  return out;
}

std::string Sym::ToSrepr() const {
  std::string out;
  PrintConstructor(*this, &out);
  return out;
}

}  // namespace slipway::ir
