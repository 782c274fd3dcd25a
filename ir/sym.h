// Symbolic integers: the sizes, strides and scalars of a program whose shapes are not all known.
//
// A Sym is a small value: either a constant (no table needed) or a pointer to a hash-consed expression node owned by
// a SymTable. Equal expressions of one table are the same node, so `==` on Sym is structural equality after
// simplification and costs one comparison. "Provably equal" is the stronger question and is SymTable-aware:
// ProvablyEqual() also uses ranges.
//
// Semantics follow torch's symbolic shapes (torch/utils/_sympy/functions.py): FloorDiv and Mod round towards minus
// infinity for integers, CeilDiv towards plus infinity, TruncToInt towards zero; ToFloat/FloatTrueDiv/FloatPow work on
// IEEE doubles. Integer arithmetic is over int64; an overflow while folding yields an opaque expression, never a
// wrong constant.
#ifndef SLIPWAY_IR_SYM_H_
#define SLIPWAY_IR_SYM_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace slipway::ir {

enum class SymKind : uint8_t {
  kInteger,  // int64 constant (inline in Sym)
  kFloat,    // double constant
  kBool,     // true/false
  kSymbol,   // a named symbol with a range
  kAdd,      // n-ary, canonical: constant last, like terms merged; a product of sums is not expanded
  kMul,      // n-ary, canonical: constant first
  kPow,      // base, exponent
  kFloorDiv,
  kCeilDiv,
  kMod,
  kMax,
  kMin,  // Max/Min n-ary
  kToFloat,
  kTruncToInt,
  kFloorToInt,
  kCeilToInt,
  kRoundToInt,
  kTruncToFloat,
  kFloatTrueDiv,
  kIntTrueDiv,
  kFloatPow,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kAnd,
  kOr,
  kNot,
  kWhere,
  kCall,  // a function the algebra does not know: kept by name, args simplified, printed back unchanged
};

// Inclusive bounds of an integer expression; the int64 extremes mean unbounded.
struct SymRange {
  int64_t min = std::numeric_limits<int64_t>::min();
  int64_t max = std::numeric_limits<int64_t>::max();
  bool operator==(const SymRange&) const = default;
};

class SymTable;
struct SymNode;  // opaque; lives as long as its SymTable

class Sym {
 public:
  constexpr Sym(int64_t value = 0) : value_(value) {}  // NOLINT: a plain integer is the commonest size
  constexpr Sym(int value) : value_(value) {}          // NOLINT

  bool is_constant() const { return node_ == nullptr; }  // an integer constant
  std::optional<int64_t> constant() const { return node_ ? std::nullopt : std::optional<int64_t>(value_); }
  bool is(int64_t v) const { return node_ == nullptr && value_ == v; }

  SymKind kind() const;
  absl::Span<const Sym> operands() const;  // empty for leaves
  std::string_view name() const;           // kSymbol and kCall: the symbol's or function's name; else empty
  double float_value() const;              // kFloat
  bool bool_value() const;                 // kBool
  bool is_integer_valued() const;          // false for float- and bool-valued expressions
  // An expression is bounded in depth and size (some thousand nodes when written out). What would exceed the bound
  // becomes an opaque value equal only to itself, of unknown range; this tells whether one is inside. Never write such
  // an expression to a file.
  bool is_too_large() const;

  // Human form, infix: "s77 + 1", "(s0 - 1)//2 + 1", "Max(1, s0)". Deterministic; parses back through ParseExpr.
  std::string ToString() const;
  // sympy constructor form as torch >= 2.6 writes it: "Add(Symbol('s77', positive=True, integer=True), Integer(1))".
  std::string ToSrepr() const;

  // The symbols that occur, sorted by name, each once.
  std::vector<Sym> Symbols() const;

  bool operator==(const Sym& o) const { return node_ == o.node_ && value_ == o.value_; }
  template <typename H>
  friend H AbslHashValue(H h, const Sym& s) {
    return H::combine(std::move(h), s.node_, s.value_);
  }

 private:
  friend class SymTable;
  friend struct SymNode;
  int64_t value_ = 0;
  const SymNode* node_ = nullptr;
};

// Arithmetic simplifies as it builds. Operands are constants or belong to one table (mixing two tables aborts).
Sym operator+(Sym a, Sym b);
Sym operator-(Sym a, Sym b);
Sym operator*(Sym a, Sym b);
Sym operator-(Sym a);
Sym FloorDiv(Sym a, Sym b);
Sym CeilDiv(Sym a, Sym b);
Sym Mod(Sym a, Sym b);
Sym Max(Sym a, Sym b);
Sym Min(Sym a, Sym b);
// Relations and booleans: result is bool-valued; a provable one folds to a kBool.
Sym Relation(SymKind kind, Sym a, Sym b);  // kEq … kGe
Sym Not(Sym a);

// Bounds from the ranges of the symbols inside (interval arithmetic plus linear cancellation); none for integers made
// of floats.
SymRange RangeOf(Sym a);
// True only when a == b (a != b) for every admissible value of the symbols.
bool ProvablyEqual(Sym a, Sym b);
bool ProvablyDifferent(Sym a, Sym b);
bool ProvablyLess(Sym a, Sym b);       // a < b always
bool ProvablyLessEqual(Sym a, Sym b);  // a <= b always

// Value under an assignment of every symbol; nullopt if a symbol is missing, the expression is not integer-valued,
// it overflows, or it divides by zero.
std::optional<int64_t> Evaluate(Sym a, const std::function<std::optional<int64_t>(std::string_view symbol)>& value);
// The same for bool- and float-valued expressions (an integer-valued one has a float value too; NaN is nullopt).
std::optional<bool> EvaluateBool(Sym a, const std::function<std::optional<int64_t>(std::string_view symbol)>& value);
std::optional<double> EvaluateFloat(Sym a, const std::function<std::optional<int64_t>(std::string_view symbol)>& value);
// Replaces symbols; `replace` returns nullopt to keep one. The replacements may be of another table if every symbol of
// `a` is replaced.
Sym Substitute(Sym a, const std::function<std::optional<Sym>(Sym symbol)>& replace);

struct SymbolInfo {
  std::string name;
  SymRange range;
  bool positive = false;        // torch's positive=True assumption (backed sizes); unbacked symbols have it false
  std::optional<int64_t> hint;  // example value seen at export
};

// A table and the expressions of it are for one thread at a time (even RangeOf memoizes); two tables are independent.
class SymTable {
 public:
  SymTable();
  ~SymTable();
  SymTable(const SymTable&) = delete;
  SymTable& operator=(const SymTable&) = delete;

  // The symbol of this name, made on first use with the given assumption: positive gives the range [1, unbounded],
  // else it is unbounded both ways. A later call returns it unchanged. Names that are not identifiers print as
  // Symbol('…') and parse back only if they are printable ASCII.
  Sym Symbol(std::string_view name, bool positive = true);
  std::optional<Sym> FindSymbol(std::string_view name) const;
  Sym Float(double v);
  Sym Bool(bool v);
  // Any operation by kind (kCall takes `name`; a name ParseExpr knows gives what it names), simplified. Arity and
  // operand types are checked: a wrong one is InvalidArgument.
  absl::StatusOr<Sym> Make(SymKind kind, absl::Span<const Sym> operands, std::string_view name = {});

  // Narrows a symbol's range (intersection; an empty intersection is an error naming the symbol and both ranges).
  // A name not seen yet makes a symbol that is not assumed positive; so does SetHint.
  //
  // Simplification uses ranges, so a range is settled before expressions are made of its symbol: a change afterwards is
  // FailedPrecondition. Equality of expressions therefore never depends on when a range was set.
  absl::Status SetRange(std::string_view symbol, SymRange range);
  // Sets a symbol's range to what a file states, in place of what was assumed so far: torch's positive=True comes with
  // ranges from 0 too. InvalidArgument for an empty range.
  absl::Status DeclareRange(std::string_view symbol, SymRange range);
  // The positive=True assumption for an existing or new symbol, and the range [1, unbounded] with it unless a range has
  // been declared.
  absl::Status SetPositive(std::string_view symbol);
  SymRange range(std::string_view symbol) const;  // full range for an unknown name
  void SetHint(std::string_view symbol, int64_t hint);

  // Parses either PT2 spelling: sympy constructor text (torch >= 2.6) or infix (torch 2.5, guards, range keys, and
  // our own ToString). Unknown function names become kCall. Errors give the column. Depth and length are limited
  // (nesting <= 200, 64 KiB): input is hostile. New symbols are made on first sight; `positive=True` in the
  // constructor text sets the assumption, also for a symbol that exists (SetPositive). A plain name makes a symbol
  // that is not assumed positive, as torch does: set the assumption or the range before or after. Infinity, oo and
  // int_oo are the int64 extremes.
  absl::StatusOr<Sym> ParseExpr(std::string_view text);

  std::vector<SymbolInfo> symbols() const;  // in order of creation

 private:
  friend class Sym;
  friend class SymCopier;
  friend struct SymNode;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Copies expressions of one table into another, which must be empty: first all symbols, in order, with ranges and
// hints. Expressions are copied as they are, not simplified again, so that equal ones stay equal and others stay
// different.
class SymCopier {
 public:
  SymCopier(const SymTable& from, SymTable& into);
  ~SymCopier();
  SymCopier(const SymCopier&) = delete;
  SymCopier& operator=(const SymCopier&) = delete;

  Sym operator()(Sym s);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace slipway::ir

#endif  // SLIPWAY_IR_SYM_H_
