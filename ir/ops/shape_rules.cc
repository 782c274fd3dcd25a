// Expansion of families of operators into rows, and the size arithmetic that many shape functions share.
#include "ir/ops/shape_rules.h"

#include <deque>
#include <mutex>

#include "base/text.h"

namespace slipway::ir {

absl::Span<const ShapeRow> ExpandFamilies(absl::Span<const ShapeFamily> families) {
  struct Expanded {
    std::deque<std::string> names;
    std::vector<ShapeRow> rows;
  };
  static std::mutex& mutex = *new std::mutex;
  static auto& all = *new std::deque<Expanded>;
  std::lock_guard lock(mutex);
  auto& [names, rows] = all.emplace_back();
  auto is_space = [](char ch) { return ch == ' ' || ch == '\n'; };
  for (const ShapeFamily& f : families) {
    for (size_t at = 0; at < f.ops.size();) {
      if (is_space(f.ops[at])) {
        ++at;
        continue;
      }
      size_t end = at;
      while (end < f.ops.size() && !is_space(f.ops[end])) ++end;
      std::string_view name = f.ops.substr(at, end - at);
      at = end;
      if (name[0] == '/')
        names.emplace_back(name.substr(1));
      else
        names.push_back(text::StrCat("aten.", name, text::Contains(name, ".") ? "" : ".default"));
      rows.push_back({names.back(), f.fn});
    }
  }
  return rows;
}

Value* TensorAt(InferContext& c, size_t i) {
  const OpDef& op = c.node().op();
  return c.tensor(i < op.args.size() ? std::string_view(op.args[i].name) : std::string_view("?"));
}

Operands OperandsAt(InferContext& c, std::initializer_list<size_t> positions) {
  Operands out;
  for (size_t i : positions) {
    const std::string& name = c.node().op().args[i].name;
    const Arg& a = c.node().Get(name);
    if (a.is_none()) continue;
    if (Value* v = a.value(); v && v->type().is_tensor()) {
      out.tensors.push_back(v);
      out.shapes.push_back(v->sizes());
    } else {
      out.scalars.push_back(c.scalar(name));
    }
  }
  return out;
}

Sym Product(absl::Span<const Sym> sizes) {
  Sym n = 1;
  for (Sym s : sizes) n = n * s;
  return n;
}
Sym SmallerOf(Sym a, Sym b) {
  if (a == b || ProvablyLessEqual(a, b)) return a;
  return ProvablyLessEqual(b, a) ? b : Min(a, b);
}
Sym LargerOf(Sym a, Sym b) {
  if (a == b || ProvablyLessEqual(a, b)) return b;
  return ProvablyLessEqual(b, a) ? a : Max(a, b);
}

DType FloatOf(DType t) { return IsIntegral(t) || IsBool(t) ? DType::kFloat32 : t; }
DType SumDType(DType t) { return IsIntegral(t) || IsBool(t) ? DType::kInt64 : t; }
Sizes WithDim(Sizes sizes, int dim, Sym size) {
  if (dim < static_cast<int>(sizes.size())) sizes[dim] = size;
  return sizes;
}

Sym SliceLength(Sym size, std::optional<Sym> start, std::optional<Sym> end, Sym step) {
  // A bound counts from the end when it is negative; one of unknown sign is taken as it stands, which is what torch
  // guards on.
  auto wrap = [&](Sym bound) { return ProvablyLess(bound, 0) ? bound + size : bound; };
  auto clamp = [](Sym x, Sym low, Sym high) { return SmallerOf(LargerOf(x, low), high); };
  Sym first = start ? clamp(wrap(*start), 0, size) : Sym(0);
  Sym last = end ? clamp(wrap(*end), first, size) : size;
  const Sym length = FloorDiv(last - first + step - 1, step);
  // x[i:i + k] has k elements at most, which the bounds above do not show where i is of unknown sign.
  const auto most = start && !start->is_constant() && end && step.is(1) ? (*end - *start).constant() : std::nullopt;
  return most && *most >= 0 && RangeOf(length).max > *most ? Min(length, *most) : length;
}

void NeedSameDType(InferContext& c, std::initializer_list<Value*> tensors) {
  Value* first = nullptr;
  for (Value* v : tensors) {
    if (!v) continue;
    if (!first) first = v;
    if (v->dtype() != first->dtype())
      c.Fail(
          text::StrCat("'", first->name(), "' is ", Name(first->dtype()), " and '", v->name(), "' ", Name(v->dtype())));
  }
}
void NeedParameterDType(InferContext& c, Value* x, std::initializer_list<Value*> parameters) {
  NeedSameDType(c, parameters);
  for (Value* v : parameters)
    if (v && !(IsLowPrecision(x->dtype()) && v->dtype() == DType::kFloat32)) NeedSameDType(c, {x, v});
}
void NeedDType(InferContext& c, Value* x, bool (*is)(DType), std::string_view what) {
  if (!is(x->dtype())) c.Fail(text::StrCat("'", x->name(), "' is ", Name(x->dtype()), ", not ", what));
}
void NeedRank(InferContext& c, Value* x, int rank) {
  if (x->rank() != rank) c.Fail(text::StrCat("'", x->name(), "' has ", x->rank(), " dimensions, not ", rank));
}
void NeedRankAtLeast(InferContext& c, Value* x, int rank) {
  if (x->rank() < rank) c.Fail(text::StrCat("'", x->name(), "' has fewer than ", rank, " dimensions"));
}
void NeedSameSizes(InferContext& c, const Sizes& a, const Sizes& b, std::string_view what) {
  if (a.size() != b.size()) return c.Fail(text::StrCat(what, ": ", a.size(), " and ", b.size(), " dimensions"));
  for (size_t i = 0; i < a.size(); ++i) c.RequireEqual(a[i], b[i], what);
}
void NeedExpands(InferContext& c, const Sizes& from, const Sizes& to, std::string_view what) {
  if (from.size() > to.size())
    return c.Fail(text::StrCat(what, ": ", from.size(), " dimensions do not expand to ", to.size()));
  for (size_t i = 0; i < from.size(); ++i)
    if (!from[i].is(1)) c.RequireEqual(from[i], to[to.size() - from.size() + i], what);
}
void NeedNotNegative(InferContext& c, const Sizes& numbers, std::string_view what) {
  for (Sym n : numbers)
    if (ProvablyLess(n, 0)) c.Fail(text::StrCat(what, " is negative"));
}

void SameAsSelf(InferContext& c) {
  Value* x = Self(c);
  c.Out(x->dtype(), x->sizes());
}
void FloatLikeSelf(InferContext& c) {
  Value* x = Self(c);
  c.Out(FloatOf(x->dtype()), x->sizes());
}
void BoolLikeSelf(InferContext& c) { c.Out(DType::kBool, Self(c)->sizes()); }
void BroadcastFirstTwo(InferContext& c) {
  Operands o = OperandsAt(c, {0, 1});
  c.Out(c.ResultType(o.tensors, o.scalars), c.Broadcast(o.shapes));
}

}  // namespace slipway::ir
