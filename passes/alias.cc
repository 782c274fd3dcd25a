// See alias.h. The op table's alias annotations are the source; the tables here hold what torch leaves out of them.
#include "passes/alias.h"

#include <algorithm>
#include <iterator>
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

template <size_t n>
bool In(const std::string_view (&list)[n], std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

// ---- Does it share?

Sharing SameSizes(const Type& a, const Type& b) {
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
  if (auto f = format.get<ir::MemoryFormat>(); f && *f != ir::MemoryFormat::kContiguous && *f != ir::MemoryFormat::kUnknown)
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

Sharing Always(const Node&, const Value*) { return Sharing::kShares; }
Sharing Idle(const Node& n, const Value*) { return IsIdleDropout(n) ? Sharing::kShares : Sharing::kNone; }
Sharing IfSameSizes(const Node& n, const Value* self) { return SameSizes(self->type(), n.output()->type()); }
Sharing IfAlone(const Node& n, const Value*) {  // einsum of one operand may be a permutation
  const Arg& tensors = n.Get("tensors");
  auto list = tensors.get<Values>();
  return list && list->size() == 1 ? Sharing::kUnknown : Sharing::kNone;
}

// Operators that decide at run time, and those whose sharing the schema does not state.
struct SharingRow {
  std::string_view base, argument;
  Sharing (*decide)(const Node& n, const Value* self);
};
constexpr SharingRow kSharing[] = {
    {"to", "self", Converts},          {"type_as", "self", Converts},
    {"contiguous", "self", MakesContiguous}, {"ravel", "self", MakesContiguous},
    {"reshape", "self", Reshapes},     {"reshape_as", "self", Reshapes}, {"flatten", "self", Reshapes},
    {"dropout", "input", Idle},        {"feature_dropout", "input", Idle},
    {"alpha_dropout", "input", Idle},  {"feature_alpha_dropout", "input", Idle},
    {"unsafe_chunk", "self", Always},  {"unsafe_split", "self", Always}, {"unsafe_split_with_sizes", "self", Always},
    {"_unsafe_view", "self", Always},  {"lift", "self", Always},         {"data", "self", Always},
    {"atleast_1d", "", Always},        {"atleast_2d", "", Always},       {"atleast_3d", "", Always},
    {"broadcast_tensors", "", Always}, {"meshgrid", "", Always},
    {"sum_to_size", "self", IfSameSizes}, {"einsum", "tensors", IfAlone},
};

// ---- Writing through

constexpr std::string_view kSame[] = {
    "_fw_primal", "alias", "alpha_dropout", "conj", "contiguous", "data", "detach", "dropout", "feature_alpha_dropout",
    "feature_dropout", "lift", "lift_fresh", "positive", "real", "resolve_conj", "resolve_neg", "sum_to_size", "to",
    "type_as",
};
constexpr std::string_view kResized[] = {
    "_reshape_alias", "_unsafe_view", "atleast_1d", "atleast_2d", "atleast_3d", "flatten", "ravel", "reshape",
    "reshape_as", "squeeze", "unflatten", "unsqueeze", "view", "view_as",
};
constexpr std::string_view kExpanded[] = {"broadcast_tensors", "broadcast_to", "expand", "expand_as", "meshgrid"};
// Swaps of two dimensions undo themselves.
constexpr std::string_view kSwapped[] = {"adjoint", "mH", "mT", "matrix_H", "numpy_T", "swapaxes", "swapdims", "t", "transpose"};
constexpr std::string_view kSplit[] = {
    "chunk", "dsplit", "hsplit", "split", "split_with_sizes", "tensor_split", "unsafe_chunk", "unsafe_split",
    "unsafe_split_with_sizes", "vsplit",
};

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

bool IsIdleDropout(const Node& n) {
  ir::ArgReader a(n);
  bool idle = !a.b("train") || a.f("p") == 0;
  return idle && a.ok();
}

ir::SymInts SizeArgs(ir::Builder& b, Value* x) {
  ir::SymInts out;
  for (int d = 0; d < x->rank(); ++d) {
    if (auto c = x->sizes()[d].constant()) out.emplace_back(*c);
    else out.emplace_back(b.CallTyped("aten.sym_size.int", {x, d}, {}, {Type::SymInt(x->sizes()[d])})[0]);
  }
  return out;
}

View ViewOf(const Node& n, int i) {
  const ir::OpDef& op = n.op();
  const Value* out = n.output(i);
  if (!op.known || op.variadic || !out || !out->type().is_tensor() || op.mutates()) return {};
  const SharingRow* row = nullptr;
  if (op.ns == "aten")
    for (const SharingRow& r : kSharing)
      if (r.base == op.base) row = &r;
  std::string_view name = row ? row->argument : "";
  if (row && name.empty()) name = op.ArgIndex("tensors") >= 0 ? "tensors" : "self";
  if (!row) {
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
  v.sharing = row ? row->decide(n, v.parent) : Sharing::kShares;
  return v;
}

absl::StatusOr<Value*> WriteThrough(const Node& n, int i, Value* parent, Value* value, ir::Builder& b,
                                    const std::function<absl::StatusOr<Value*>(Value*)>& sibling) {
  std::string_view op = n.op().base;
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

  if (n.op().ns != "aten") return refuse("");
  if (ir::IsComplex(parent->dtype()) || ir::IsComplex(value->dtype())) return refuse(" of complex numbers");
  if (In(kSame, op)) return value;
  if (op == "view" && n.op().overload == "dtype") return call(n.op_name(), {value, Arg(parent->dtype())});
  if (In(kResized, op)) return resize();
  if (In(kExpanded, op)) {
    int extra = value->rank() - rank;
    bool same = extra >= 0;
    for (int d = 0; same && d < value->rank(); ++d)
      same = d < extra ? value->sizes()[d].is(1) : ir::ProvablyEqual(value->sizes()[d], parent->sizes()[d - extra]);
    // meshgrid of one tensor is that tensor; of more, elements repeat.
    return same ? resize() : refuse(", whose elements share memory");
  }
  if (In(kSwapped, op)) {
    std::vector<Arg> args;
    for (const ir::NamedArg& x : n.args()) args.push_back(args.empty() ? Arg(value) : x.arg);
    return call(n.op_name(), std::move(args));
  }
  if (op == "permute") {
    std::vector<int> dims = a.dims("dims", rank);
    ir::Ints back(dims.size());
    for (size_t d = 0; d < dims.size(); ++d) back[dims[d]] = static_cast<int64_t>(d);
    return call("aten.permute.default", {value, Arg(std::move(back))});
  }
  if (op == "movedim" || op == "moveaxis") return call(n.op_name(), {value, n.Get("destination"), n.Get("source")});
  if (op == "slice" && n.op().overload == "Tensor")
    return call("aten.slice_scatter.default", {parent, value, n.Get("dim"), n.Get("start"), n.Get("end"), n.Get("step")});
  if (op == "select" && n.op().overload == "int")
    return call("aten.select_scatter.default", {parent, value, n.Get("dim"), n.Get("index")});
  if (op == "narrow" && n.op().overload == "default") {
    int d = a.dim("dim", rank);
    ir::IntOrValue start = a.sym("start"), length = a.sym("length"), end;
    if (!a.ok()) return a.status();
    if (!start.value && start.constant < 0) {
      auto size = parent->sizes()[d].constant();
      if (!size) return refuse(" from a negative start of a symbolic size");
      start = start.constant + *size;
    }
    if (start.value && ir::RangeOf(ir::ExprOf(start)).min < 0) return refuse(" from a start that may be negative");
    if (!start.value && !length.value) end = start.constant + length.constant;
    else end = b.CallTyped("_operator.add", {Arg(start), Arg(length)}, {}, {Type::SymInt(ir::ExprOf(start) + ir::ExprOf(length))})[0];
    return call("aten.slice_scatter.default", {parent, value, d, Arg(start), Arg(end)});
  }
  if (op == "diagonal" && n.op().overload == "default")
    return call("aten.diagonal_scatter.default", {parent, value, n.Get("offset"), n.Get("dim1"), n.Get("dim2")});
  if (op == "linalg_diagonal")
    return call("aten.diagonal_scatter.default", {parent, value, n.Get("offset"), n.Get("dim1"), n.Get("dim2")});
  if (op == "as_strided")
    return call("aten.as_strided_scatter.default",
                {parent, value, n.Get("size"), n.Get("stride"), n.Get("storage_offset")});
  if (op == "unbind" || In(kSplit, op)) {
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
    int64_t d = op == "hsplit" ? (rank == 1 ? 0 : 1) : op == "vsplit" ? 0 : op == "dsplit" ? 2 : a.i("dim");
    return call(op == "unbind" ? "aten.stack.default" : "aten.cat.default", {Arg(std::move(parts)), d});
  }
  return refuse("");
}

}  // namespace slipway::passes
