// Functions by the names that PT2 files spell them with, their arities and operand types.
#include "absl/strings/str_cat.h"
#include "ir/sym.h"
#include "ir/sym/internal.h"

namespace slipway::ir {

namespace {

constexpr int kMany = 1 << 30;
struct FunctionInfo {
  std::string_view name;
  SymKind kind;
};

constexpr FunctionInfo kFunctions[] = {
    {"Add", SymKind::kAdd},
    {"Mul", SymKind::kMul},
    {"Pow", SymKind::kPow},
    {"PowByNatural", SymKind::kPow},
    {"FloorDiv", SymKind::kFloorDiv},
    {"CleanDiv", SymKind::kFloorDiv},
    {"CeilDiv", SymKind::kCeilDiv},
    {"Mod", SymKind::kMod},
    {"PythonMod", SymKind::kMod},
    {"Max", SymKind::kMax},
    {"Min", SymKind::kMin},
    {"max", SymKind::kMax},
    {"min", SymKind::kMin},
    {"ToFloat", SymKind::kToFloat},
    {"torch.sym_float", SymKind::kToFloat},
    {"TruncToInt", SymKind::kTruncToInt},
    {"math.trunc", SymKind::kTruncToInt},
    {"FloorToInt", SymKind::kFloorToInt},
    {"math.floor", SymKind::kFloorToInt},
    {"CeilToInt", SymKind::kCeilToInt},
    {"math.ceil", SymKind::kCeilToInt},
    {"RoundToInt", SymKind::kRoundToInt},
    {"TruncToFloat", SymKind::kTruncToFloat},
    {"FloatTrueDiv", SymKind::kFloatTrueDiv},
    {"IntTrueDiv", SymKind::kIntTrueDiv},
    {"FloatPow", SymKind::kFloatPow},
    {"Eq", SymKind::kEq},
    {"Equality", SymKind::kEq},
    {"Ne", SymKind::kNe},
    {"Unequality", SymKind::kNe},
    {"Lt", SymKind::kLt},
    {"StrictLessThan", SymKind::kLt},
    {"Le", SymKind::kLe},
    {"LessThan", SymKind::kLe},
    {"Gt", SymKind::kGt},
    {"StrictGreaterThan", SymKind::kGt},
    {"Ge", SymKind::kGe},
    {"GreaterThan", SymKind::kGe},
    {"And", SymKind::kAnd},
    {"Or", SymKind::kOr},
    {"Not", SymKind::kNot},
    {"Where", SymKind::kWhere},
};

std::pair<int, int> ArityOf(SymKind kind) {
  switch (kind) {
    case SymKind::kInteger:
    case SymKind::kFloat:
    case SymKind::kBool:
    case SymKind::kSymbol: return {0, 0};
    case SymKind::kAdd:
    case SymKind::kMul:
    case SymKind::kMax:
    case SymKind::kMin:
    case SymKind::kAnd:
    case SymKind::kOr: return {1, kMany};
    case SymKind::kToFloat:
    case SymKind::kTruncToInt:
    case SymKind::kFloorToInt:
    case SymKind::kCeilToInt:
    case SymKind::kRoundToInt:
    case SymKind::kTruncToFloat:
    case SymKind::kNot: return {1, 1};
    case SymKind::kWhere: return {3, 3};
    case SymKind::kCall: return {0, kMany};
    default: return {2, 2};
  }
}

// Identifiers joined by dots.
bool IsFunctionName(std::string_view name) {
  bool starts = true;
  for (char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    if (c == '.' ? starts : starts ? !letter : !letter && !(c >= '0' && c <= '9')) return false;
    starts = c == '.';
  }
  return !starts;
}

}  // namespace

absl::Status CheckOperands(SymKind kind, absl::Span<const Sym> operands) {
  const auto [min, max] = ArityOf(kind);
  if (max == 0) return absl::InvalidArgumentError("a constant or symbol is not an operation");
  const auto n = static_cast<int64_t>(operands.size());
  if (n < min || n > max) {
    const std::string wanted = max == kMany ? absl::StrCat("at least ", min) : absl::StrCat(min);
    return absl::InvalidArgumentError(absl::StrCat("takes ", wanted, " operands, got ", n));
  }
  const auto reject = [&](SymType type, size_t from, size_t to, const char* what) -> absl::Status {
    for (size_t i = from; i < to; ++i) {
      if (TypeOf(operands[i]) == type) {
        return absl::InvalidArgumentError(absl::StrCat("operand ", i + 1, " is ", what));
      }
    }
    return absl::OkStatus();
  };
  const auto numbers = [&](size_t from, size_t to) { return reject(SymType::kBool, from, to, "a truth value"); };
  const auto truths = [&](size_t from, size_t to) {
    absl::Status status = reject(SymType::kInt, from, to, "a number");
    return status.ok() ? reject(SymType::kFloat, from, to, "a number") : status;
  };
  switch (kind) {
    case SymKind::kCall: return absl::OkStatus();
    case SymKind::kWhere: return truths(0, 1);
    case SymKind::kAnd:
    case SymKind::kOr:
    case SymKind::kNot: return truths(0, operands.size());
    case SymKind::kEq:
    case SymKind::kNe:
      if (TypeOf(operands[0]) == SymType::kBool) return truths(1, 2);
      if (TypeOf(operands[1]) == SymType::kBool) return truths(0, 1);
      return absl::OkStatus();
    default: return numbers(0, operands.size());
  }
}

absl::StatusOr<Sym> BuildNamed(std::string_view name, absl::Span<const Sym> operands) {
  const auto checked = [&](SymKind kind, absl::Span<const Sym> ops) -> absl::StatusOr<Sym> {
    absl::Status status = CheckOperands(kind, ops);
    if (!status.ok()) return absl::InvalidArgumentError(absl::StrCat(std::string(name), " ", status.message()));
    return Build(kind, ops);
  };
  const auto arity = [&](size_t n) -> absl::Status {
    if (operands.size() == n) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(name), " takes ", n, " operands, got ", operands.size()));
  };
  static const auto* by_name = [] {
    auto* map = new absl::flat_hash_map<std::string_view, SymKind>;
    for (const FunctionInfo& f : kFunctions) map->emplace(f.name, f.kind);
    return map;
  }();
  if (auto it = by_name->find(name); it != by_name->end()) return checked(it->second, operands);
  if (name == "Identity") {
    if (auto status = arity(1); !status.ok()) return status;
    return operands[0];
  }
  if (name == "ModularIndexing") {
    if (auto status = arity(3); !status.ok()) return status;
    auto quotient = checked(SymKind::kFloorDiv, operands.subspan(0, 2));
    if (!quotient.ok()) return quotient;
    return checked(SymKind::kMod, {*quotient, operands[2]});
  }
  if (name == "LShift" || name == "RShift") {
    if (auto status = arity(2); !status.ok()) return status;
    auto power = checked(SymKind::kPow, {Sym(2), operands[1]});
    if (!power.ok()) return power;
    return checked(name == "LShift" ? SymKind::kMul : SymKind::kFloorDiv, {operands[0], *power});
  }
  // Leaves have their own spelling.
  const bool leaf = name == "Symbol" || name == "Integer" || name == "Float";
  if (leaf || !IsFunctionName(name))
    return absl::InvalidArgumentError(absl::StrCat("'", std::string(name), "' is not a function name"));
  return Build(SymKind::kCall, operands, name);
}

}  // namespace slipway::ir
