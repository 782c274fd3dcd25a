// See bind.h. Each size of an input is a symbol, which takes the number, or an expression, which must come out as it.
#include "planner/bind.h"

#include <cstring>

#include "base/text.h"
#include "ir/ops/op_table.h"

namespace slipway::planner {
namespace {

using Values = text::Map<int64_t>;

std::optional<ir::Sym> Lookup(const Values& values, ir::Sym s) {
  auto it = values.find(s.name());
  return it == values.end() ? std::nullopt : std::optional<ir::Sym>(it->second);
}
ir::Sym Bound(const Values& values, ir::Sym s) {
  if (s.is_constant()) return s;
  return ir::Substitute(s, [&](ir::Sym symbol) { return Lookup(values, symbol); });
}

void BindType(const Values& values, ir::Type& t) {
  for (ir::Sym& s : t.sizes) s = Bound(values, s);
  for (ir::Sym& s : t.strides) s = Bound(values, s);
  t.storage_offset = Bound(values, t.storage_offset);
  if (t.is_sym()) t.expr = Bound(values, t.expr);
}
void BindGraph(const Values& values, ir::Graph& g) {
  for (ir::Value* v : g.inputs()) BindType(values, v->mutable_type());
  for (ir::Node* n : g) {
    for (const ir::NamedArg& a : n->args())
      if (auto sub = a.arg.get<ir::SubGraph>()) BindGraph(values, **sub);
    for (ir::Value* v : n->outputs())
      if (v) BindType(values, v->mutable_type());
  }
}

// The sizes of an input, or its value as the one "size" of a symbolic number.
absl::Status Learn(const ir::Program& p, const ir::Value& v, const ir::TensorRef& given, Values& values) {
  auto bad = [&](auto... what) { return absl::InvalidArgumentError(text::StrCat("input %", v.name(), ": ", what...)); };
  const ir::Type& t = v.type();
  ir::Sizes want = t.sizes;
  std::vector<int64_t> have = given.sizes;
  if (t.kind == ir::Type::kSymInt) {
    auto bytes = ir::ReadDense(given);
    if (!bytes.ok()) return bytes.status();
    if (given.dtype != ir::DType::kInt64 || bytes->size() != 8) return bad("not an integer");
    want = {t.expr};
    have.resize(1);
    std::memcpy(have.data(), bytes->data(), 8);
  } else if (!t.is_tensor() || given.dtype != t.dtype || given.sizes.size() != t.sizes.size()) {
    return bad("is ", ir::Name(given.dtype), "[", text::Join(given.sizes, ","), "], the program takes ", t.ToString());
  }
  for (size_t d = 0; d < want.size(); ++d) {
    if (want[d].kind() == ir::SymKind::kSymbol) {
      const ir::SymRange range = p.syms->range(want[d].name());
      // 2 is torch's habitual least, which it does not insist on.
      if (have[d] < (range.min == 2 ? 1 : range.min) || have[d] > range.max) return bad(want[d].name(), " = ", have[d], " is out of range");
      values.try_emplace(want[d].name(), have[d]);
    }
  }
  return absl::OkStatus();
}

absl::Status Check(const ir::Value& v, const ir::TensorRef& given, const Values& values) {
  for (size_t d = 0; d < v.type().sizes.size(); ++d) {
    const ir::Sym bound = Bound(values, v.type().sizes[d]);
    if (bound.constant() && *bound.constant() != given.sizes[d])
      return absl::InvalidArgumentError(text::StrCat("input %", v.name(), ": size ", d, " is ", given.sizes[d],
                                                     ", the program takes ", v.type().sizes[d].ToString()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status BindSymbols(ir::Program& p, absl::Span<const ir::TensorRef> inputs) {
  Values values;
  std::vector<const ir::Value*> users;
  for (size_t i = 0; i < p.input_specs.size(); ++i) {
    const ir::Value* v = p.graph->inputs()[i];
    if (p.input_specs[i].kind == ir::InputSpec::kUser && v->type().kind != ir::Type::kConstant) users.push_back(v);
  }
  if (users.size() != inputs.size())
    return absl::InvalidArgumentError(text::StrCat(inputs.size(), " inputs, the program takes ", users.size()));
  for (size_t i = 0; i < users.size(); ++i)
    if (absl::Status s = Learn(p, *users[i], inputs[i], values); !s.ok()) return s;
  for (size_t i = 0; i < users.size(); ++i)
    if (absl::Status s = Check(*users[i], inputs[i], values); !s.ok()) return s;
  BindGraph(values, *p.graph);
  return absl::OkStatus();
}

}  // namespace slipway::planner
