// The tables of the plan being made: buffers, views, steps, and symbolic numbers as the expressions of kernels/.
#include <bit>

#include "base/text.h"
#include "ir/ops/op_table.h"
#include "planner/lowering/rules.h"

namespace slipway::planner {

using ir::SymKind;
using kernels::Expr;

int PlanBuilder::AddBuffer(kernels::Buffer::Kind kind, Dim bytes, int slot, const void* constant) {
  out_.plan.buffers.push_back({kind, Expr(bytes), constant, slot});
  return static_cast<int>(out_.plan.buffers.size()) - 1;
}
void PlanBuilder::AddView(const Operand& x) {
  kernels::View v{x.buffer, *NativeType(x.dtype), x.rank(), Expr(x.offset), 0};
  std::vector<int32_t> dims;
  for (Dim d : x.sizes) dims.push_back(Expr(d));
  for (Dim d : x.strides) dims.push_back(Expr(d));
  v.first_dim = static_cast<int>(out_.plan.dims.size());
  out_.plan.dims.insert(out_.plan.dims.end(), dims.begin(), dims.end());
  out_.plan.views.push_back(v);
}
int PlanBuilder::AddStep(kernels::Step step) {
  if (out_.plan.exprs.empty()) Expr(Dim(0));  // what steps without an expression name
  step.origin = origin;
  out_.plan.steps.push_back(step);
  return static_cast<int>(out_.plan.steps.size()) - 1;
}

int PlanBuilder::Symbol(Dim symbol, bool real) {
  auto [it, added] = symbols_.try_emplace(symbol, static_cast<int>(out_.plan.symbols.size()));
  if (added) {
    used_.push_back(symbol);
    const ir::SymRange range = syms().range(symbol.name());
    out_.plan.symbols.push_back({std::string(symbol.name()), range.min, range.max, real});
  }
  return it->second;
}
bool PlanBuilder::IsGiven(Dim e) const {
  for (Dim s : e.Symbols())
    if (!given_.contains(s)) return false;
  return true;
}
Dim PlanBuilder::NewSymbol(ir::SymRange range) {
  for (int k = 0;; ++k) {
    std::string name = text::StrCat("_p", k);
    if (syms().FindSymbol(name)) continue;
    const Dim s = syms().Symbol(name, false);
    (void)syms().SetRange(name, range);
    return s;
  }
}
void PlanBuilder::Require(Dim condition, std::string_view otherwise) {
  if (condition.kind() == SymKind::kBool && condition.bool_value()) return;
  const int e = Expr(condition);
  if (depth_ == 0) {
    out_.plan.checks.push_back({e, std::string(otherwise)});
    return;
  }
  kernels::Step step;
  step.kind = kernels::Step::kCheck;
  step.expr = e;
  step.target = static_cast<int>(out_.plan.texts.size());
  out_.plan.texts.emplace_back(otherwise);
  AddStep(step);
}
void PlanBuilder::Publish(Dim symbol, const Operand& x) {
  kernels::Step step;
  step.kind = kernels::Step::kPublish;
  step.symbol = Symbol(symbol);
  step.first_view = static_cast<int>(out_.plan.views.size());
  step.inputs = 1;
  AddView(x);
  AddStep(step);
  Give(symbol);
}
void PlanBuilder::Set(Dim symbol, Dim value) {
  kernels::Step step;
  step.kind = kernels::Step::kSet;
  step.symbol = Symbol(symbol);
  step.expr = Expr(value);
  AddStep(step);
  Give(symbol);
}

int PlanBuilder::Intern(const kernels::Expr& e) {
  auto [it, added] = interned_.try_emplace({e.op, e.a, e.b, e.c, e.value}, static_cast<int>(out_.plan.exprs.size()));
  if (added) out_.plan.exprs.push_back(e);
  return it->second;
}
int PlanBuilder::Expr(const Real& r) {
  if (!r.expr) return Intern({.op = Expr::kReal, .value = std::bit_cast<int64_t>(r.value)});
  bool real = false;
  const int e = Compile(*r.expr, &real);
  return real ? e : Intern({.op = Expr::kToReal, .a = e});
}
int PlanBuilder::Expr(Dim e) {
  bool real = false;
  const int i = Compile(e, &real);
  if (real) SetStatus(absl::UnimplementedError(text::StrCat(e.ToString(), " as an integer")));
  return i;
}

// A table: one case a kind of expression, over what its operands compile to. *real: whether the result is one.
int PlanBuilder::Compile(Dim e, bool* real) {
  if (const auto c = e.constant()) {
    *real = false;
    return Intern({.op = Expr::kInt, .value = *c});
  }
  if (auto it = compiled_.find(e); it != compiled_.end()) {
    *real = it->second.second;
    return it->second.first;
  }
  auto refuse = [&] {
    SetStatus(absl::UnimplementedError(text::StrCat("the number ", e.is_too_large() ? "is too long" : e.ToString())));
    *real = false;
    return Intern({.op = Expr::kInt});
  };
  if (e.is_too_large()) return refuse();
  std::vector<int> operands;
  std::vector<char> reals;
  bool any_real = false;
  for (Dim o : e.operands()) {
    bool r = false;
    operands.push_back(Compile(o, &r));
    reals.push_back(r);
    any_real |= r;
  }
  auto as_real = [&](size_t i) { return reals[i] ? operands[i] : Intern({.op = Expr::kToReal, .a = operands[i]}); };
  // Two or more operands, from the left, all reals where one is.
  auto fold = [&](Expr::Op ints, Expr::Op of_reals) {
    *real = any_real;
    int acc = any_real ? as_real(0) : operands[0];
    for (size_t i = 1; i < operands.size(); ++i)
      acc = any_real ? Intern({.op = of_reals, .a = acc, .b = as_real(i)})
                     : Intern({.op = ints, .a = acc, .b = operands[i]});
    return acc;
  };
  auto reals_of = [&](Expr::Op op) {
    *real = true;
    return operands.size() == 1 ? Intern({.op = op, .a = as_real(0)})
                                : Intern({.op = op, .a = as_real(0), .b = as_real(1)});
  };
  auto to_int = [&](Expr::Op op) {
    *real = false;
    return reals[0] ? Intern({.op = op, .a = operands[0]}) : operands[0];
  };
  auto negate = [&](int i) { return Intern({.op = Expr::kNot, .a = i}); };
  auto compare = [&](Expr::Op ints, Expr::Op of_reals, bool exchange) {
    const int a = any_real ? as_real(exchange) : operands[exchange],
              b = any_real ? as_real(!exchange) : operands[!exchange];
    *real = false;
    return Intern({.op = any_real ? of_reals : ints, .a = a, .b = b});
  };
  int made = -1;
  switch (e.kind()) {
    case SymKind::kInteger: break;
    case SymKind::kFloat:
      *real = true;
      made = Intern({.op = Expr::kReal, .value = std::bit_cast<int64_t>(e.float_value())});
      break;
    case SymKind::kBool:
      *real = false;
      made = Intern({.op = Expr::kInt, .value = e.bool_value()});
      break;
    case SymKind::kSymbol: {
      const int s = Symbol(e);
      *real = out_.plan.symbols[s].real;
      made = Intern({.op = Expr::kSymbol, .value = s});
      break;
    }
    case SymKind::kAdd: made = fold(Expr::kAdd, Expr::kAddReal); break;
    case SymKind::kMul: made = fold(Expr::kMul, Expr::kMulReal); break;
    case SymKind::kPow: made = fold(Expr::kPow, Expr::kPowReal); break;
    case SymKind::kFloorDiv:
      if (any_real) return refuse();
      made = fold(Expr::kFloorDiv, Expr::kFloorDiv);
      break;
    case SymKind::kCeilDiv:
      if (any_real) return refuse();
      made = fold(Expr::kCeilDiv, Expr::kCeilDiv);
      break;
    case SymKind::kMod: made = fold(Expr::kMod, Expr::kModReal); break;
    case SymKind::kMax: made = fold(Expr::kMax, Expr::kMaxReal); break;
    case SymKind::kMin: made = fold(Expr::kMin, Expr::kMinReal); break;
    case SymKind::kToFloat:
      *real = true;
      made = as_real(0);
      break;
    case SymKind::kTruncToInt: made = to_int(Expr::kTruncToInt); break;
    case SymKind::kFloorToInt: made = to_int(Expr::kFloorToInt); break;
    case SymKind::kCeilToInt: made = to_int(Expr::kCeilToInt); break;
    case SymKind::kRoundToInt: made = to_int(Expr::kRoundToInt); break;
    case SymKind::kTruncToFloat: made = reals_of(Expr::kTruncReal); break;
    case SymKind::kFloatTrueDiv: made = reals_of(Expr::kDivReal); break;
    case SymKind::kIntTrueDiv:
      if (any_real) {
        made = reals_of(Expr::kDivReal);
      } else {
        *real = true;
        made = Intern({.op = Expr::kDivInts, .a = operands[0], .b = operands[1]});
      }
      break;
    case SymKind::kFloatPow: made = reals_of(Expr::kPowReal); break;
    case SymKind::kEq: made = compare(Expr::kEq, Expr::kEqReal, false); break;
    case SymKind::kNe: made = negate(compare(Expr::kEq, Expr::kEqReal, false)); break;
    case SymKind::kLt: made = compare(Expr::kLt, Expr::kLtReal, false); break;
    case SymKind::kLe: made = compare(Expr::kLe, Expr::kLeReal, false); break;
    case SymKind::kGt: made = compare(Expr::kLt, Expr::kLtReal, true); break;
    case SymKind::kGe: made = compare(Expr::kLe, Expr::kLeReal, true); break;
    case SymKind::kAnd: made = fold(Expr::kAnd, Expr::kAnd); break;
    case SymKind::kOr: made = fold(Expr::kOr, Expr::kOr); break;
    case SymKind::kNot:
      *real = false;
      made = negate(operands[0]);
      break;
    case SymKind::kWhere:
      *real = reals[1] || reals[2];
      made = Intern({.op = Expr::kSelect,
                     .a = operands[0],
                     .b = *real ? as_real(1) : operands[1],
                     .c = *real ? as_real(2) : operands[2]});
      break;
    case SymKind::kCall: {
      const std::string_view name = e.name();
      const bool two = operands.size() == 2 && !any_real;
      if (name == "OpaqueUnaryFn_sqrt" && operands.size() == 1)
        made = reals_of(Expr::kSqrt);
      else if (two && name == "BitwiseFn_bitwise_and")
        made = fold(Expr::kBitAnd, Expr::kBitAnd);
      else if (two && name == "BitwiseFn_bitwise_or")
        made = fold(Expr::kBitOr, Expr::kBitOr);
      else if (two && name == "BitwiseFn_bitwise_xor")
        made = fold(Expr::kBitXor, Expr::kBitXor);
      else
        return refuse();
      break;
    }
  }
  if (made < 0) return refuse();
  compiled_[e] = {made, *real};
  return made;
}

}  // namespace slipway::planner
