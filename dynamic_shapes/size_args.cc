// The roles are those of the op table (ir/ops/op_numbers.h).
#include "dynamic_shapes/size_args.h"

#include <algorithm>

#include "ir/ops/op_table.h"

namespace slipway::dynamic_shapes {

using ir::NumberRole;

std::vector<SizeArg> SizeArgsOf(ir::Node& n) {
  std::vector<SizeArg> out;
  const ir::OpDef& op = n.op();
  if (!op.known || op.variadic) return out;
  for (const ir::ArgDef& def : op.args) {
    const NumberRole role = ir::RoleOfNumber(op, def);
    const ir::Arg* a = n.Find(def.name);
    if (!a || role == NumberRole::kNone || role == NumberRole::kFixed) continue;
    const bool frozen = def.type == "int" || def.type == "float";
    const auto add = [&](size_t element, int64_t value) {
      out.push_back({&n, def.name, static_cast<int>(element), role, value, frozen});
    };
    if (auto i = a->get<int64_t>()) {
      out.push_back({&n, def.name, -1, role, *i, frozen});
    } else if (auto ints = a->get<ir::Ints>()) {
      for (size_t k = 0; k < ints->size(); ++k) add(k, (*ints)[k]);
    } else if (auto some = a->get<ir::SymInts>()) {
      for (size_t k = 0; k < some->size(); ++k)
        if (!(*some)[k].value) add(k, (*some)[k].constant);
    }
  }
  return out;
}

void SetSizeArg(const SizeArg& a, ir::IntOrValue to) {
  if (a.element < 0) {
    a.node->SetArg(a.arg, ir::Arg(to));
    return;
  }
  const ir::Arg& now = a.node->Get(a.arg);
  ir::SymInts all;
  if (auto ints = now.get<ir::Ints>())
    for (int64_t i : *ints) all.emplace_back(i);
  else if (auto some = now.get<ir::SymInts>())
    all = *some;
  if (static_cast<size_t>(a.element) < all.size()) all[a.element] = to;
  a.node->SetArg(a.arg, ir::Arg(std::move(all)));
}

ir::Value* FirstTensor(const ir::Node& n) {
  for (const ir::NamedArg& a : n.args())
    if (ir::Value* v = a.arg.value(); v && v->type().is_tensor()) return v;
  return nullptr;
}

namespace {

// The argument of a role; null without.
const ir::ArgDef* ArgOfRole(const ir::OpDef& op, NumberRole role) {
  for (const ir::ArgDef& a : op.args)
    if (ir::RoleOfNumber(op, a) == role) return &a;
  return nullptr;
}

}  // namespace

Viewed ViewedSizes(const ir::Node& n) {
  const ir::Value* x = FirstTensor(n);
  const ir::ArgDef* sizes = x ? ArgOfRole(n.op(), NumberRole::kView) : nullptr;
  if (!sizes) return {};
  if (n.op().ArgIndex("dim") < 0) return {sizes->name, x->sizes()};
  auto dim = n.Get("dim").get<int64_t>();
  const int64_t d = dim ? (*dim < 0 ? *dim + x->rank() : *dim) : -1;
  if (d < 0 || d >= x->rank()) return {};
  return {sizes->name, {x->sizes()[d]}};
}

std::string_view ExpandSizesArg(const ir::Node& n) {
  const ir::ArgDef* sizes = ArgOfRole(n.op(), NumberRole::kExpand);
  return sizes ? std::string_view(sizes->name) : "";
}

}  // namespace slipway::dynamic_shapes
