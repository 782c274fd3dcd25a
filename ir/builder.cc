// A call is placed in three steps: arguments are put into schema order, the node is inserted, and its results get the
// types that the operator's shape function infers. A failed step is remembered and harmless values are returned.
#include "ir/builder.h"

#include "base/text.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_table.h"
#include "ir/ops/rule.h"

namespace slipway::ir {

Value* Builder::Poison() {
  if (!ok()) LeaveRule(status_);
  // Users are noted at it: one for each thread.
  static thread_local Graph graph(nullptr);
  static thread_local Value* value = graph.AddInput("poison", Type::Tensor(DType::kFloat32, {}));
  return value;
}

Value* Builder::Call(std::string_view op, std::vector<Arg> args, std::vector<std::pair<std::string_view, Arg>> named) {
  Values out = CallMulti(op, std::move(args), std::move(named));
  return out.empty() || !out[0] ? Poison() : out[0];
}

Values Builder::CallMulti(std::string_view op, std::vector<Arg> args,
                          std::vector<std::pair<std::string_view, Arg>> named) {
  return CallTyped(op, std::move(args), std::move(named), {});
}

Values Builder::CallTyped(std::string_view op_name, std::vector<Arg> args,
                          std::vector<std::pair<std::string_view, Arg>> named, std::vector<Type> types) {
  const OpDef& op = GetOp(op_name);
  auto poison = [this] { return Values(8, Poison()); };
  if (!ok()) return poison();
  if (!op.known || (!op.variadic && args.size() > op.args.size())) {
    SetStatus(absl::InternalError(text::StrCat("builder: bad call of ", op_name)));
    return poison();
  }
  std::vector<NamedArg> list;
  for (size_t i = 0; i < args.size(); ++i) {
    bool absent_default =
        !op.variadic && args[i].is_none() && op.args[i].has_default && op.args[i].default_value.is_none();
    if (absent_default) continue;
    list.push_back({op.variadic ? "" : op.args[i].name, std::move(args[i]),
                    static_cast<int8_t>(!op.variadic && op.args[i].keyword_only ? 2 : 1)});
  }
  for (auto& [name, arg] : named) {
    if (!op.variadic && op.ArgIndex(name) < 0) {
      SetStatus(absl::InternalError(text::StrCat("builder: ", op_name, " has no argument '", name, "'")));
      return poison();
    }
    list.push_back({std::string(name), std::move(arg), 2});
  }
  Node* n = graph_.Insert(op, std::move(list), before_);
  n->set_source(source_);
  if (types.empty()) {
    absl::StatusOr<std::vector<Type>> inferred = InferTypes(*n);
    if (!inferred.ok()) {
      SetStatus(inferred.status());
      graph_.Erase(n);
      return poison();
    }
    types = *std::move(inferred);
  }
  // Bodies that are built here give lists, of one result too, which torch tells from a result alone.
  if (op_name.starts_with("higher_order.") && types.size() == 1) n->hop_single_return = false;
  std::vector<int> groups;
  bool grouped = false;
  for (const ReturnDef& r : op.returns) grouped |= r.is_list && r.type == "Tensor";
  if (grouped && op.returns.size() == 1) n->set_groups({static_cast<int>(types.size())});
  Values out;
  for (Type& t : types) {
    if (t.kind == Type::kNone) {
      graph_.AddNoneOutput(n);
      out.push_back(nullptr);
    } else {
      out.push_back(graph_.AddOutput(n, std::string(op.base), std::move(t)));
    }
  }
  return out;
}

Value* Builder::Cast(Value* x, DType dtype) {
  return x->dtype() == dtype ? x : Call("aten._to_copy.default", {x}, {{"dtype", dtype}});
}
Value* Builder::Full(SymInts sizes, Arg value, DType dtype) {
  return Call("aten.full.default", {Arg(std::move(sizes)), std::move(value)}, {{"dtype", dtype}});
}
IntOrValue Builder::Size(Value* x, int dim) {
  if (dim < 0) dim += x->rank();
  if (dim < 0 || dim >= x->rank()) {
    SetStatus(absl::InvalidArgumentError("the size of a dimension that a tensor lacks"));
    LeaveRule(status_);
    return 1;
  }
  if (auto c = x->sizes()[dim].constant()) return *c;
  return Call("aten.sym_size.int", {x, dim});
}
SymInts Builder::SizesOf(Value* x) {
  SymInts out;
  for (int d = 0; d < x->rank(); ++d) out.push_back(Size(x, d));
  return out;
}
IntOrValue Builder::Arith(std::string_view op, IntOrValue a, IntOrValue b) {
  Value* v = Call(op, {Arg(a), Arg(b)});
  if (auto c = v->type().expr.constant(); c && v->type().kind == Type::kSymInt) return *c;
  return v;
}
IntOrValue Builder::Add(IntOrValue a, IntOrValue b) {
  if (!a.value && !b.value) return a.constant + b.constant;
  if (!a.value && a.constant == 0) return b;
  if (!b.value && b.constant == 0) return a;
  return Arith("_operator.add", a, b);
}
IntOrValue Builder::Sub(IntOrValue a, IntOrValue b) {
  if (!a.value && !b.value) return a.constant - b.constant;
  if (!b.value && b.constant == 0) return a;
  return Arith("_operator.sub", a, b);
}
IntOrValue Builder::Mul(IntOrValue a, IntOrValue b) {
  if (!a.value && !b.value) return a.constant * b.constant;
  if (!a.value && a.constant == 1) return b;
  if (!b.value && b.constant == 1) return a;
  return Arith("_operator.mul", a, b);
}
IntOrValue Builder::FloorDiv(IntOrValue a, IntOrValue b) {
  if (!b.value && b.constant == 1) return a;
  if (!a.value && !b.value && b.constant != 0) {
    int64_t q = a.constant / b.constant;
    if (a.constant % b.constant != 0 && (a.constant < 0) != (b.constant < 0)) --q;
    return q;
  }
  return Arith("_operator.floordiv", a, b);
}
IntOrValue Builder::Numel(Value* x) {
  IntOrValue n = 1;
  for (int d = 0; d < x->rank(); ++d) n = Mul(n, Size(x, d));
  return n;
}

}  // namespace slipway::ir
