// What a view shares follows from the declaration's alias annotations and, where torch leaves them out, from the traits
// view(ARG,CONDITION); how a write reaches the base, from the trait inverse(HOW). The functions behind those words are
// here.
#include "passes/alias.h"

#include <string_view>
#include <vector>

#include "base/text.h"
#include "ir/ops/args.h"
#include "ir/ops/op_table.h"

namespace slipway::passes {
namespace {

using ir::Arg;
using ir::Node;
using ir::Sizes;
using ir::Sym;
using ir::Type;
using ir::Value;
using ir::Values;

// ---- Does it share?

Sharing SharingBySizes(const Type& a, const Type& b) {
  if (a.rank() != b.rank()) return Sharing::kNone;
  Sharing all = Sharing::kShares;
  for (int d = 0; d < a.rank(); ++d) {
    if (ir::ProvablyDifferent(a.sizes[d], b.sizes[d])) return Sharing::kNone;
    if (!ir::ProvablyEqual(a.sizes[d], b.sizes[d])) all = Sharing::kUnknown;
  }
  return all;
}

// torch's computeStride: whether memory of these sizes and strides can be seen with other sizes.
Sharing ViewsAs(const Type& from, const Sizes& to) {
  if (IsContiguous(from) == Sharing::kShares) return Sharing::kShares;
  if (!from.strides_known) return Sharing::kUnknown;
  auto undecided = [](Sym a, Sym b) { return !ir::ProvablyEqual(a, b) && !ir::ProvablyDifferent(a, b); };
  Sym step = from.strides.back(), numel = 1, view = 1;
  int v = static_cast<int>(to.size()) - 1;
  for (int d = from.rank() - 1; d >= 0; --d) {
    numel = numel * from.sizes[d];
    bool ends = d == 0;
    if (!ends) {
      if (undecided(from.sizes[d - 1], 1)) return Sharing::kUnknown;
      if (!from.sizes[d - 1].is(1)) {
        if (undecided(from.strides[d - 1], numel * step)) return Sharing::kUnknown;
        ends = !ir::ProvablyEqual(from.strides[d - 1], numel * step);
      }
    }
    if (!ends) continue;
    for (; v >= 0; --v) {
      if (!to[v].is(1)) {
        if (ir::ProvablyEqual(view, numel)) {
          if (undecided(to[v], 1)) return Sharing::kUnknown;
          break;
        }
        if (!ir::ProvablyLess(view, numel)) return undecided(view, numel) ? Sharing::kUnknown : Sharing::kNone;
      }
      view = view * to[v];
    }
    if (!ir::ProvablyEqual(view, numel)) return undecided(view, numel) ? Sharing::kUnknown : Sharing::kNone;
    if (d > 0) step = from.strides[d - 1], numel = 1, view = 1;
  }
  return v < 0 ? Sharing::kShares : Sharing::kNone;
}

Sharing Reshapes(const Node& n, const Value* self) {
  if (self->rank() == 0 || n.output()->rank() == 0) return Sharing::kShares;
  return ViewsAs(self->type(), n.output()->sizes());
}

// contiguous(), ravel(): themselves when they are already so.
Sharing MakesContiguous(const Node& n, const Value* self) {
  const Arg& format = n.Get("memory_format");
  if (auto f = format.get<ir::MemoryFormat>();
      f && *f != ir::MemoryFormat::kContiguous && *f != ir::MemoryFormat::kUnknown)
    return *f == ir::MemoryFormat::kPreserve ? Sharing::kShares : Sharing::kUnknown;
  return IsContiguous(self->type());
}

// to(), type_as(): the tensor itself when nothing changes.
Sharing Converts(const Node& n, const Value* self) {
  if (n.output()->dtype() != self->dtype()) return Sharing::kNone;
  const Arg& copy = n.Get("copy");
  if (auto c = copy.get<bool>(); c && *c) return Sharing::kNone;
  if (self->type().layout != n.output()->type().layout) return Sharing::kNone;
  const Arg& format = n.Get("memory_format");
  auto f = format.get<ir::MemoryFormat>();
  if (!f || *f == ir::MemoryFormat::kPreserve) return Sharing::kShares;
  const Type &a = self->type(), &b = n.output()->type();
  if (!a.strides_known || !b.strides_known) return Sharing::kUnknown;
  Sharing all = Sharing::kShares;
  for (int d = 0; d < a.rank(); ++d) {
    if (ir::ProvablyDifferent(a.strides[d], b.strides[d])) return Sharing::kNone;
    if (!ir::ProvablyEqual(a.strides[d], b.strides[d])) all = Sharing::kUnknown;
  }
  return all;
}

// Whether the view that a trait states exists at this node.
Sharing Decide(ir::ViewCondition condition, const Node& n, const Value* self) {
  switch (condition) {
    case ir::ViewCondition::kNone: return Sharing::kNone;
    case ir::ViewCondition::kAlways: return Sharing::kShares;
    case ir::ViewCondition::kIfViewable: return Reshapes(n, self);
    case ir::ViewCondition::kIfContiguous: return MakesContiguous(n, self);
    case ir::ViewCondition::kIfSameSizes: return SharingBySizes(self->type(), n.output()->type());
    case ir::ViewCondition::kIfUnchanged: return Converts(n, self);
    case ir::ViewCondition::kIfIdle: return ir::IsRandom(n) ? Sharing::kNone : Sharing::kShares;
    case ir::ViewCondition::kIfSingle: {  // einsum of one operand may be a permutation
      auto list = n.Get("tensors").get<Values>();
      return list && list->size() == 1 ? Sharing::kUnknown : Sharing::kNone;
    }
  }
  return Sharing::kUnknown;
}

}  // namespace

Sharing IsContiguous(const Type& t) {
  if (t.rank() == 0) return Sharing::kShares;
  if (!t.strides_known) return Sharing::kUnknown;
  Sharing all = Sharing::kShares;
  Sym expected = 1;
  for (int d = t.rank() - 1; d >= 0; --d) {
    if (t.sizes[d].is(0)) return Sharing::kShares;
    if (t.sizes[d].is(1)) continue;
    if (!ir::ProvablyEqual(t.strides[d], expected)) {
      if (ir::ProvablyDifferent(t.strides[d], expected) && ir::ProvablyLess(1, t.sizes[d])) return Sharing::kNone;
      all = Sharing::kUnknown;
    }
    expected = expected * t.sizes[d];
  }
  return all;
}

ir::SymInts SizeArgs(ir::Builder& b, Value* x) {
  ir::SymInts out;
  for (int d = 0; d < x->rank(); ++d) {
    if (auto c = x->sizes()[d].constant())
      out.emplace_back(*c);
    else
      out.emplace_back(b.CallTyped("aten.sym_size.int", {x, d}, {}, {Type::SymInt(x->sizes()[d])})[0]);
  }
  return out;
}

View ViewOf(const Node& n, int i) {
  const ir::OpDef& op = n.op();
  const Value* out = n.output(i);
  if (!op.known || op.variadic || !out || !out->type().is_tensor() || op.mutates()) return {};
  std::string_view name = op.traits.view_of;
  if (name.empty()) {
    size_t which = static_cast<size_t>(i);
    if (!n.groups().empty()) {
      int left = i;
      for (which = 0; which < n.groups().size(); ++which) {
        int count = n.groups()[which] < 0 ? 1 : n.groups()[which];
        if (left < count) break;
        left -= count;
      }
    }
    if (which >= op.returns.size()) which = op.returns.empty() ? 0 : op.returns.size() - 1;
    char alias = op.returns.empty() ? 0 : op.returns[which].alias;
    if (!alias) return {};
    for (const ir::ArgDef& a : op.args)
      if (a.alias == alias) name = a.name;
    if (name.empty()) return {};
  }
  View v;
  for (size_t k = 0; k < n.args().size(); ++k) {
    if (n.args()[k].name != name) continue;
    v.arg = static_cast<int>(k);
    if (auto list = n.At(k).get<Values>()) {
      v.element = list->size() == 1 ? 0 : i;
      if (v.element < static_cast<int>(list->size())) v.parent = (*list)[v.element];
    } else {
      v.parent = n.At(k).value();
    }
  }
  if (!v.parent || !v.parent->type().is_tensor()) return {};
  v.sharing = op.traits.view_of.empty() ? Sharing::kShares : Decide(op.traits.view, n, v.parent);
  return v;
}

absl::StatusOr<Value*> WriteThrough(const Node& n, int i, Value* parent, Value* value, ir::Builder& b,
                                    const std::function<absl::StatusOr<Value*>(Value*)>& sibling) {
  Type type = parent->type();
  type.strides_known = false;
  ir::ArgReader a(n);
  auto refuse = [&](std::string_view why) {
    return absl::UnimplementedError(text::StrCat(n.op_name(), ": a write through this view", why));
  };
  auto call = [&](std::string_view name, std::vector<Arg> args) -> absl::StatusOr<Value*> {
    if (!a.ok()) return a.status();
    Value* v = b.CallTyped(name, std::move(args), {}, {type})[0];
    if (!b.ok()) return b.status();
    return v;
  };
  auto resize = [&] { return call("aten.reshape.default", {value, Arg(SizeArgs(b, parent))}); };
  const int rank = parent->rank();

  // The results of a split, with `value` in the place of the one that is written.
  auto join = [&](std::string_view name, int64_t dim) -> absl::StatusOr<Value*> {
    Values parts;
    for (size_t k = 0; k < n.outputs().size(); ++k) {
      if (static_cast<int>(k) == i) {
        parts.push_back(value);
        continue;
      }
      if (!n.output(k)) return refuse("");
      auto part = sibling(n.output(k));
      if (!part.ok()) return part.status();
      parts.push_back(*part);
    }
    return call(name, {Arg(std::move(parts)), dim});
  };

  const ir::ViewInverse inverse = n.op().traits.inverse;
  if (inverse == ir::ViewInverse::kNone) return refuse("");
  if (ir::IsComplex(parent->dtype()) || ir::IsComplex(value->dtype())) return refuse(" of complex numbers");
  switch (inverse) {
    case ir::ViewInverse::kNone: break;
    case ir::ViewInverse::kSame: return value;
    case ir::ViewInverse::kReinterpret: return call(n.op_name(), {value, Arg(parent->dtype())});
    case ir::ViewInverse::kReshape: return resize();
    case ir::ViewInverse::kUnexpand: {
      int extra = value->rank() - rank;
      bool same = extra >= 0;
      for (int d = 0; same && d < value->rank(); ++d)
        same = d < extra ? value->sizes()[d].is(1) : ir::ProvablyEqual(value->sizes()[d], parent->sizes()[d - extra]);
      // meshgrid of one tensor is that tensor; of more, elements repeat.
      return same ? resize() : refuse(", whose elements share memory");
    }
    case ir::ViewInverse::kItself: {  // a swap of two dimensions
      std::vector<Arg> args;
      for (const ir::NamedArg& x : n.args()) args.push_back(args.empty() ? Arg(value) : x.arg);
      return call(n.op_name(), std::move(args));
    }
    case ir::ViewInverse::kPermute: {
      std::vector<int> dims = a.dims("dims", rank);
      ir::Ints back(dims.size());
      for (size_t d = 0; d < dims.size(); ++d) back[dims[d]] = static_cast<int64_t>(d);
      return call("aten.permute.default", {value, Arg(std::move(back))});
    }
    case ir::ViewInverse::kMovedim: return call(n.op_name(), {value, n.Get("destination"), n.Get("source")});
    case ir::ViewInverse::kSlice:
      return call("aten.slice_scatter.default",
                  {parent, value, n.Get("dim"), n.Get("start"), n.Get("end"), n.Get("step")});
    case ir::ViewInverse::kSelect:
      return call("aten.select_scatter.default", {parent, value, n.Get("dim"), n.Get("index")});
    case ir::ViewInverse::kNarrow: {
      int d = a.dim("dim", rank);
      ir::IntOrValue start = a.sym("start"), length = a.sym("length"), end;
      if (!a.ok()) return a.status();
      if (!start.value && start.constant < 0) {
        auto size = parent->sizes()[d].constant();
        if (!size) return refuse(" from a negative start of a symbolic size");
        start = start.constant + *size;
      }
      if (start.value && ir::RangeOf(ir::ExprOf(start)).min < 0) return refuse(" from a start that may be negative");
      if (!start.value && !length.value)
        end = start.constant + length.constant;
      else
        end = b.CallTyped("_operator.add", {Arg(start), Arg(length)}, {},
                          {Type::SymInt(ir::ExprOf(start) + ir::ExprOf(length))})[0];
      return call("aten.slice_scatter.default", {parent, value, d, Arg(start), Arg(end)});
    }
    case ir::ViewInverse::kDiagonal:
      return call("aten.diagonal_scatter.default", {parent, value, n.Get("offset"), n.Get("dim1"), n.Get("dim2")});
    case ir::ViewInverse::kStrided:
      return call("aten.as_strided_scatter.default",
                  {parent, value, n.Get("size"), n.Get("stride"), n.Get("storage_offset")});
    case ir::ViewInverse::kStack: return join("aten.stack.default", a.i("dim"));
    case ir::ViewInverse::kConcatenate: return join("aten.cat.default", a.i("dim"));
    case ir::ViewInverse::kHsplit: return join("aten.cat.default", rank == 1 ? 0 : 1);
    case ir::ViewInverse::kVsplit: return join("aten.cat.default", 0);
    case ir::ViewInverse::kDsplit: return join("aten.cat.default", 2);
  }
  return refuse("");
}

}  // namespace slipway::passes
