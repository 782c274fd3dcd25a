// Operators that plugins compute (kernels/executor/plugin.h): their arguments become numbers of the step, in the order
// of the node.
#include <cstring>
#include <limits>
#include <string>

#include "base/text.h"
#include "ir/ops/op_table.h"
#include "kernels/executor/plugin.h"
#include "planner/lowering/rules.h"

namespace slipway::planner {
namespace {

using ir::Arg;
using kernels::PluginArg;

// What the step gets.
struct Encoded {
  Dims ints;
  Reals floats;
  std::vector<Operand> in;
};

void AddText(Encoded& e, std::string_view text) {
  for (int64_t word : kernels::PackText(text)) e.ints.push_back(word);
}

void AddKind(Encoded& e, PluginArg kind) { e.ints.push_back(static_cast<int64_t>(kind)); }

void AddTensor(PlanContext& c, Encoded& e, const ir::Value* v) { e.in.push_back(c.Dense(c.of(v))); }

// A list as how many there are and they.
template <typename T, typename F>
void AddList(Encoded& e, const std::vector<T>& list, F add) {
  e.ints.push_back(static_cast<int64_t>(list.size()));
  for (const auto& x : list) add(x);
}

void AddArg(PlanContext& c, Encoded& e, const Arg& a, std::string_view name) {
  auto ints = [&](const auto& list) {
    AddKind(e, PluginArg::kInts);
    AddList(e, list, [&](auto x) { e.ints.push_back(static_cast<int64_t>(x)); });
  };
  if (a.is_none()) return AddKind(e, PluginArg::kNone);
  if (const ir::Value* v = a.value()) {
    if (v->type().is_tensor()) {
      AddKind(e, PluginArg::kTensor);
      return AddTensor(c, e, v);
    }
    if (v->type().kind == ir::Type::kSymFloat) {
      AddKind(e, PluginArg::kFloat);
      return e.floats.push_back(Real(v->type().expr));
    }
    if (v->type().is_sym()) {
      AddKind(e, v->type().kind == ir::Type::kSymBool ? PluginArg::kBool : PluginArg::kInt);
      return e.ints.push_back(v->type().expr);
    }
  }
  if (auto i = a.get<int64_t>()) {
    AddKind(e, PluginArg::kInt);
    return e.ints.push_back(*i);
  }
  if (auto d = a.get<double>()) {
    AddKind(e, PluginArg::kFloat);
    return e.floats.push_back(*d);
  }
  if (auto t = a.get<bool>()) {
    AddKind(e, PluginArg::kBool);
    return e.ints.push_back(*t);
  }
  if (auto s = a.get<std::string>()) {
    AddKind(e, PluginArg::kString);
    return AddText(e, *s);
  }
  if (auto d = a.get<ir::Device>()) {
    AddKind(e, PluginArg::kString);
    return AddText(e, d->type);
  }
  if (auto d = a.get<DType>(); d && NativeType(*d)) {
    AddKind(e, PluginArg::kDType);
    return e.ints.push_back(static_cast<int64_t>(*NativeType(*d)));
  }
  if (auto list = a.get<Ints>()) return ints(*list);
  if (auto list = a.get<std::vector<bool>>()) return ints(std::vector<int>(list->begin(), list->end()));
  if (auto list = a.get<ir::SymInts>()) {
    AddKind(e, PluginArg::kInts);
    return AddList(e, *list, [&](const ir::IntOrValue& x) { e.ints.push_back(ir::ExprOf(x)); });
  }
  if (auto list = a.get<std::vector<double>>()) {
    AddKind(e, PluginArg::kFloats);
    return AddList(e, *list, [&](double x) { e.floats.push_back(x); });
  }
  if (auto list = a.get<ir::Values>()) {
    AddKind(e, PluginArg::kTensors);
    return AddList(e, *list, [&](const ir::Value* v) {
      e.ints.push_back(v != nullptr);
      if (v) AddTensor(c, e, v);
    });
  }
  c.Unsupported(text::StrCat("argument '", name, "' is of a kind that plugins are not handed"));
}

}  // namespace

std::string PluginKernelName(const ir::Node& n) {
  const ir::OpDef& op = n.op();
  return text::StrCat(op.ns, "::", op.base, ".", op.overload.empty() ? "default" : op.overload);
}

const kernels::Kernel* PlanBuilder::PluginKernel(const ir::Node& n, bool sizes) const {
  if (!options_.plugins) return nullptr;
  return options_.plugins(PluginKernelName(n) + (sizes ? "/sizes" : ""));
}

void PlanPlugin(PlanContext& c, const kernels::Kernel& kernel) {
  Encoded e;
  const auto args = c.node().args();
  e.ints.push_back(static_cast<int64_t>(args.size()));
  for (const ir::NamedArg& a : args) {
    AddText(e, a.name);
    AddArg(c, e, a.arg, a.name);
    if (!c.ok()) return;
  }
  const size_t results = c.node().outputs().size();
  // Sizes that only the data tells are what the plugin says.
  Dims ints = e.ints;
  int64_t dims = 0;
  bool given = true;
  ints.push_back(static_cast<int64_t>(results));
  for (size_t i = 0; i < results; ++i) {
    const ir::Value* v = c.node().output(i);
    if (!v || !v->type().is_tensor() || !NativeType(v->dtype()))
      return c.Unsupported(text::StrCat("result ", i, " is ", v ? v->type().ToString() : "None"));
    ints.push_back(static_cast<int64_t>(*NativeType(v->dtype())));
    ints.push_back(v->type().rank());
    dims += v->type().rank();
    for (Dim s : v->sizes()) given = given && c.builder().IsGiven(s);
  }
  if (!given) {
    const kernels::Kernel* sizes = c.builder().PluginKernel(c.node(), true);
    if (!sizes)
      return c.Unsupported("a result's size is known to the operator only, and its plugin has no function for sizes");
    Operand found = c.Temp(DType::kInt64, {dims});
    c.EmitNumbers(*sizes, e.in, {found}, DType::kUInt8, ints, e.floats);
    int64_t at = 0;
    for (size_t i = 0; i < results && c.ok(); ++i)
      for (int d = 0; d < c.node().output(i)->rank() && c.ok(); ++d, ++at)
        if (!c.builder().IsGiven(c.out_sizes(i)[d])) c.PublishSize(i, d, Select(found, 0, at));
  }
  std::vector<Operand> out;
  for (size_t i = 0; i < results && c.ok(); ++i) out.push_back(c.Result(i));
  c.EmitNumbers(kernel, std::move(e.in), out, DType::kUInt8, std::move(e.ints), std::move(e.floats));
  c.Return(std::move(out));
}

}  // namespace slipway::planner
