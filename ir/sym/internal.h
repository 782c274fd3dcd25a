// What the files of the symbolic-integer algebra share, and no other file but ir/equal.cc may include: the node and its
// store (node.cc), sums and products (factors.cc), builders (build.cc, functions.cc), evaluation (evaluate.cc), ranges
// and proofs (range.cc, proof.cc), texts (print.cc, parse.cc).
#ifndef SLIPWAY_IR_SYM_INTERNAL_H_
#define SLIPWAY_IR_SYM_INTERNAL_H_

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/sym.h"

namespace slipway::ir {

using Int128 = __int128;

inline constexpr int64_t kInt64Min = std::numeric_limits<int64_t>::min();
inline constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();

inline bool FitsInt64(Int128 v) { return v >= kInt64Min && v <= kInt64Max; }

// A node is bounded in depth and in the size of the tree it prints as, so every recursive walk is bounded in stack and
// time even when an adversary makes a graph that doubles an expression at each step. An operation that would exceed
// a bound gives a fresh opaque "TooLarge" node: equal to nothing but itself, of unknown value.
inline constexpr uint32_t kMaxSymDepth = 190;
inline constexpr uint32_t kMaxSymTreeSize = 4096;

enum class SymType : uint8_t { kInt, kFloat, kBool, kUnknown };  // kUnknown: a function the algebra does not know

struct SymStore;

struct SymNode {
  SymKind kind;
  SymType type = SymType::kUnknown;
  bool too_large = false;     // it or something inside it is a TooLarge node
  bool plain_linear = true;   // a leaf, or a sum of symbols with constant coefficients: nothing left to expand
  uint32_t depth = 0;         // leaves 0
  uint32_t tree_size = 1;     // nodes when written out as a tree
  uint32_t degree = 1;        // of a monomial; sums order by it
  uint32_t symbol_index = 0;  // kSymbol: index into SymStore::symbols
  double number = 0;          // kFloat: the value; kBool: 0 or 1
  SymStore* store = nullptr;
  std::string name;  // kSymbol, kCall
  absl::InlinedVector<Sym, 2> operands;
  Sym unit;  // integer kMul whose first operand is its coefficient: the product of the others
  // RangeOf's memo, valid while range_epoch equals the store's. Not used by nodes of the shared store.
  mutable SymRange range;
  mutable uint64_t range_epoch = 0;

  static const SymNode* Of(Sym s) { return s.node_; }
  static Sym Wrap(const SymNode* node) {
    Sym s;
    s.node_ = node;
    return s;
  }
};

inline const SymNode* NodeOf(Sym s) { return SymNode::Of(s); }
inline SymType TypeOf(Sym s) { return s.is_constant() ? SymType::kInt : NodeOf(s)->type; }
inline bool IsKind(Sym s, SymKind kind) { return !s.is_constant() && NodeOf(s)->kind == kind; }
inline bool IsIntegerKind(Sym s, SymKind kind) { return IsKind(s, kind) && NodeOf(s)->type == SymType::kInt; }

struct SymKey {
  SymKind kind;
  uint64_t bits;
  std::string_view name;
  absl::Span<const Sym> operands;
};
SymKey KeyOf(const SymNode* node);
struct SymKeyHash {
  using is_transparent = void;
  size_t operator()(const SymKey& key) const;
  size_t operator()(const SymNode* node) const { return (*this)(KeyOf(node)); }
};
struct SymKeyEq {
  using is_transparent = void;
  bool operator()(const SymKey& a, const SymKey& b) const;
  bool operator()(const SymNode* a, const SymNode* b) const { return a == b; }
  bool operator()(const SymNode* a, const SymKey& b) const { return (*this)(KeyOf(a), b); }
  bool operator()(const SymKey& a, const SymNode* b) const { return (*this)(a, KeyOf(b)); }
};

// The arena and hash-consing set of one table. Expressions without symbols (floats, booleans, opaque arithmetic such as
// 1//0) have no table to live in: they go to one process-wide store, which any table may refer to.
struct SymStore {
  std::deque<SymNode> nodes;
  absl::flat_hash_set<const SymNode*, SymKeyHash, SymKeyEq> interned;
  absl::flat_hash_map<std::string_view, const SymNode*> by_name;  // keys are the nodes' own names
  std::vector<SymbolInfo> symbols;
  std::vector<bool> declared, used;  // by symbol: DeclareRange() has been called; expressions have been made of it
  uint64_t range_epoch = 1;
  int64_t too_large_count = 0;
  bool shared = false;
  std::mutex mutex;  // taken only when shared

  static SymStore& Shared();
};

struct SymTable::Impl : SymStore {};

// ---- nodes (node.cc) ----

// A value of unknown size and bounds that equals only itself; not interned.
const SymNode* NewTooLarge(SymStore* store, SymType type);
const SymNode* InternIn(SymStore* store, SymKind kind, absl::Span<const Sym> operands, std::string_view name,
                        double number, Sym unit);
std::pair<Sym, int64_t> BaseAndExponent(Sym s);
absl::Span<const Sym> FactorsOfUnit(const Sym& unit);
// Terms of a sum: the higher degree first, then by their factors.
int CompareUnits(const Sym& a, const Sym& b);

// ---- builders (build.cc, functions.cc): each simplifies and hash-conses; operands of the wrong type give an opaque
// node ----

// The node as it is, without simplification (but bounded in size: see kMaxSymTreeSize).
Sym Intern(SymKind kind, absl::Span<const Sym> operands, std::string_view name = {});
Sym MakeFloat(double v);
Sym MakeBool(bool v);
Sym BuildAdd(absl::Span<const Sym> operands);
Sym BuildMul(absl::Span<const Sym> operands);
Sym BuildPow(Sym base, Sym exponent);
Sym BuildFloorDiv(Sym a, Sym b);
Sym BuildCeilDiv(Sym a, Sym b);
Sym BuildMod(Sym a, Sym b);
bool AllIntegers(absl::Span<const Sym> operands);
Sym BuildMinMax(SymKind kind, absl::Span<const Sym> operands);
bool IsRelation(SymKind kind);
Sym BuildNot(Sym a);
Sym BuildRelation(SymKind kind, Sym a, Sym b);
// Any non-leaf kind; the arity must have been checked.
Sym Build(SymKind kind, absl::Span<const Sym> operands, std::string_view name = {});
// A function by the name a PT2 file spells it with (FloorDiv, PythonMod, GreaterThan, torch.sym_float, …); a name that
// is not known becomes a kCall. InvalidArgument for a wrong arity or operand type.
absl::StatusOr<Sym> BuildNamed(std::string_view name, absl::Span<const Sym> operands);
// Arity and operand types of `kind`; the message does not name a place.
absl::Status CheckOperands(SymKind kind, absl::Span<const Sym> operands);

// Total order by structure alone (never by address or age), the same in every table.
int CompareSyms(Sym a, Sym b);

// ---- sums as lists of terms ----

struct SymTerm {
  Sym unit;  // no constant coefficient inside
  Int128 coefficient;
};
struct LinearForm {
  std::vector<SymTerm> terms;  // possibly unmerged until Canonicalize
  Int128 constant = 0;

  void Append(Sym s, Int128 scale = 1);  // s integer-valued; sums are flattened one level (they are flat)
  void Canonicalize();                   // sorts, merges like terms, drops zeros
};
// The sum as an expression. Totals beyond int64 are kept as several like terms, so the value stays exact.
Sym FromLinear(LinearForm form);
// The product, expanded; nullopt beyond `limit` terms or on 128-bit overflow.
std::optional<LinearForm> MultiplyLinear(const LinearForm& a, const LinearForm& b, size_t limit);

inline constexpr size_t kMaxExpandedTerms = 256;

// ---- products as lists of factors, and what sums have in common (factors.cc) ----

uint64_t Magnitude(Int128 v);
struct Factor {
  Sym base;
  int64_t exponent;
};
// Exponents stay small enough that adding and multiplying them cannot overflow.
inline constexpr int64_t kMaxExponent = int64_t{1} << 31;
Sym InternPower(const Factor& f);
// Greatest common divisor of all the coefficients of a sum, with the sign of its first term. Only the sign for a sum
// with a total beyond int64 (kept as several like terms): divided, those could merge into something else than a sum.
int64_t ContentOf(Sym sum);
Sym DivideExactly(Sym sum, int64_t divisor);
void SortAndMergeFactors(std::vector<Factor>* factors);
// Divides a and b by what they share. The shared part `common` is never 0 where b is not.
bool CancelCommon(Sym* a, Sym* b, Sym* common);
// Splits a sum into the part that b divides exactly (already divided) and the remainder.
struct SplitSum {
  Sym quotient;
  Sym rest;
};
std::optional<SplitSum> SplitMultiples(Sym a, Sym b);
// The gcd of c and of all the non-constant coefficients of a, when that is not 1 (a's constant term does not divide).
int64_t CommonCoefficient(const LinearForm& a, int64_t c);
Int128 FloorDiv128(Int128 a, Int128 b);
std::optional<int64_t> FloorDivConstants(int64_t a, int64_t b);
bool LeadsNegative(Sym s);

// ---- evaluation of one operation on values (evaluate.cc) ----

struct SymValue {
  SymType type = SymType::kInt;
  Int128 integer = 0;  // kInt, kBool
  double real = 0;     // kFloat
  double AsDouble() const { return type == SymType::kFloat ? real : static_cast<double>(integer); }
};
// nullopt: not defined (division by zero, overflow of 128 bits, NaN) or not known (kCall).
std::optional<SymValue> EvaluateOperation(SymKind kind, absl::Span<const SymValue> operands);
std::optional<SymValue> ConstantValue(Sym s);

std::optional<SymValue> PowValue(Int128 base, Int128 exponent);

// ---- ranges and proofs (range.cc, proof.cc) ----

SymRange FloorDivRange(SymRange a, SymRange b);

// The form proofs are made in: products expanded, Mod and CeilDiv written with FloorDiv, and FloorDiv by a constant
// with its dividend reduced. `a` itself when it is too large to expand.
Sym ProofForm(Sym a);

// ---- words of both text forms (print.cc) ----

bool IsSymbolNameStart(char c);
bool IsSymbolNameChar(char c);
std::optional<int64_t> InfinityNamed(std::string_view word);
std::optional<bool> BoolNamed(std::string_view word);
bool IsOperatorWord(std::string_view word);
bool IsPlainSymbolName(std::string_view name);

}  // namespace slipway::ir

#endif  // SLIPWAY_IR_SYM_INTERNAL_H_
