// Removes what changes no value. In functional form a copy is its source.
#include <string_view>

#include "absl/container/flat_hash_set.h"
#include "ir/ops/args.h"
#include "ir/ops/op_table.h"
#include "passes/pass.h"

namespace slipway::passes {
namespace {

using ir::Value;

// The argument these pass through unchanged whatever their other arguments are.
struct Passthrough { std::string_view op, argument; };
constexpr Passthrough kPassthrough[] = {
    {"aten.alias.default", "self"},        {"aten.alias_copy.default", "self"},
    {"aten.detach.default", "self"},       {"aten.detach_copy.default", "self"},
    {"aten.clone.default", "self"},        {"aten.contiguous.default", "self"},
    {"aten.lift_fresh.default", "self"},   {"aten.lift_fresh_copy.default", "self"},
    {"aten.lift.default", "self"},         {"aten.positive.default", "self"},
    {"aten.resolve_neg.default", "self"},  {"aten._reshape_alias.default", ""},
};
// Conversions: nothing when the dtype stays.
constexpr std::string_view kConversions[] = {
    "aten.to.dtype", "aten.to.dtype_layout", "aten.to.device", "aten.to.other", "aten.to.prim_Device",
    "aten._to_copy.default", "aten.type_as.default", "aten.cpu.default",
};
// Random only in training; nothing outside it, and with p = 0.
constexpr std::string_view kDropout[] = {
    "aten.dropout.default", "aten.feature_dropout.default", "aten.alpha_dropout.default",
    "aten.feature_alpha_dropout.default",
};
// Statements about values that hold by the program's own word.
constexpr std::string_view kStatements[] = {
    "aten._assert_scalar.default", "aten._assert_tensor_metadata.default", "aten._assert_async.msg",
    "aten._assert_async.default", "aten.sym_constrain_range_for_size.default", "aten.sym_constrain_range.default",
    "aten._print.default", "aten._linalg_check_errors.default",
};

template <typename Table>
bool In(const Table& table, std::string_view name) {
  for (std::string_view s : table)
    if (s == name) return true;
  return false;
}

// The token of a statement wrapped to keep its place among effects: it goes on as it came.
Value* TokenOfStatement(const ir::Node& n) {
  if (n.op_name() != "higher_order.with_effects" || n.args().size() < 2 || !n.output()) return nullptr;
  const auto* op = n.At(1).get<ir::OperatorName>();
  for (size_t i = 1; i < n.outputs().size(); ++i)
    if (n.output(i)) return nullptr;
  return op && In(kStatements, op->name) ? n.At(0).value() : nullptr;
}

Value* SourceOf(const ir::Node& n) {
  for (const Passthrough& p : kPassthrough)
    if (p.op == n.op_name() && !p.argument.empty()) return n.Get(p.argument).value();
  if (In(kConversions, n.op_name())) {
    Value* v = n.Get("self").value();
    return v && n.output() && v->dtype() == n.output()->dtype() ? v : nullptr;
  }
  if (In(kDropout, n.op_name())) {
    ir::ArgReader a(n);
    bool idle = !a.b("train") || a.f("p") == 0;
    return idle && a.ok() ? n.Get("input").value() : nullptr;
  }
  return nullptr;
}

void Clean(ir::Graph& g) {
  for (ir::Node *n = g.first(), *next; n; n = next) {
    next = n->next();
    for (const ir::NamedArg& a : n->args())
      if (auto sub = a.arg.get<ir::SubGraph>()) Clean(**sub);
    if (In(kStatements, n->op_name())) {
      g.Erase(n);
      continue;
    }
    if (Value* token = TokenOfStatement(*n)) {
      g.ReplaceAllUses(n->output(), token);
      g.Erase(n);
      continue;
    }
    Value* source = SourceOf(*n);
    if (!source || !n->output() || !source->type().is_tensor()) continue;
    g.ReplaceAllUses(n->output(), source);
    g.Erase(n);
  }
}

}  // namespace

bool IsNoOp(std::string_view op) {
  for (const Passthrough& p : kPassthrough)
    if (p.op == op) return true;
  return In(kConversions, op) || In(kDropout, op) || In(kStatements, op);
}

absl::Status RemoveNoOps(ir::Program& p) {
  Clean(*p.graph);
  return absl::OkStatus();
}

}  // namespace slipway::passes
