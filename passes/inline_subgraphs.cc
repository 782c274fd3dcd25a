// Inlines the higher-order operators that only set a mode around their body: gradients on or off, autocast, activation
// checkpointing, and calls of a named body. It runs before functionalization, because such a body works on the very
// tensors it is given: what it mutates or aliases belongs to the graph around it.
//
// Autocast is the one mode that changes numbers. Exported bodies name the operators as written and leave the casts to
// the dispatcher, so they are put in here: the trait autocast(CLASS) says what an operator's floating arguments become.
#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "ir/builder.h"
#include "ir/clone.h"
#include "ir/ops/higher_order.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_table.h"
#include "passes/pass.h"

namespace slipway::passes {
namespace {

using ir::Arg;
using ir::AutocastClass;
using ir::DType;
using ir::Graph;
using ir::NamedArg;
using ir::Node;
using ir::SubGraph;
using ir::Value;
using ir::Values;

// ---- Autocast

// Autocast leaves doubles and what is not floating alone.
bool Eligible(const Value* v) {
  return v && v->type().is_tensor() && (v->dtype() == DType::kFloat32 || ir::IsLowPrecision(v->dtype()));
}

absl::Status CastInputs(Graph& g, DType low) {
  for (Node* n : g) {
    // A nested autocast region has its own mode; other bodies run under this one.
    if (n->op_name() != "higher_order.wrap_with_autocast")
      for (const NamedArg& a : n->args())
        if (auto sub = a.arg.get<SubGraph>())
          if (absl::Status s = CastInputs(**sub, low); !s.ok()) return s;
    if (n->op().variadic) continue;
    if (const AutocastClass rule = n->op().traits.autocast; rule != AutocastClass::kNone) {
      DType to = rule == AutocastClass::kFloat32 ? DType::kFloat32 : low;
      if (rule == AutocastClass::kWidest)
        for (const NamedArg& a : n->args())
          a.arg.ForEachValue([&](Value* v) {
            if (Eligible(v) && v->dtype() == DType::kFloat32) to = DType::kFloat32;
          });
      // The file's types know better where a double among the arguments rules the result.
      bool lowers = rule != AutocastClass::kLower || (n->output() && n->output()->dtype() == low);
      if (lowers) {
        ir::Builder b(g, n, n->source());
        for (size_t i = 0; i < n->args().size(); ++i) {
          Arg a = n->At(i);
          a.ReplaceValues([&](Value* v) -> Value* {
            if (!Eligible(v) || v->dtype() == to) return v;
            return b.CallTyped("aten._to_copy.default", {v}, {{"dtype", to}}, {ir::Type::Tensor(to, v->sizes())})[0];
          });
          n->SetArgAt(i, std::move(a));
        }
        if (!b.ok()) return b.status();
      }
    }
    auto types = ir::InferTypes(*n);
    if (!types.ok()) continue;  // no shape function; what is wrong with the node is reported where it is lowered
    for (size_t i = 0; i < types->size() && i < n->outputs().size(); ++i) {
      const Value* v = n->output(i);
      if (v && v->type().is_tensor() && (*types)[i].is_tensor() && (*types)[i].dtype != v->dtype())
        return absl::UnimplementedError(text::StrCat(n->op_name(), " under autocast: gives ",
                                                     ir::Name((*types)[i].dtype), ", the program says ",
                                                     ir::Name(v->dtype())));
    }
  }
  return absl::OkStatus();
}

// Puts the casts of wrap_with_autocast(device type, dtype, enabled, cache_enabled, body, ...) into its body.
absl::Status ApplyAutocast(const Node& n, Graph& body) {
  if (n.args().size() < 3) return absl::InvalidArgumentError("higher_order.wrap_with_autocast: too few arguments");
  auto device = n.At(0).get<std::string>();
  auto enabled = n.At(2).get<bool>();
  if (!device || !enabled) return absl::InvalidArgumentError("higher_order.wrap_with_autocast: malformed arguments");
  if (!*enabled) return absl::OkStatus();
  auto dtype = n.At(1).get<DType>();
  DType low = dtype ? *dtype : *device == "cuda" ? DType::kFloat16 : DType::kBFloat16;
  if (*device != "cpu") {
    // Only tensors of that device are cast.
    bool touches = false;
    auto look = [&](const Value* v) {
      touches |= v && v->type().is_tensor() && v->type().device && v->type().device->type == *device;
    };
    for (const Value* v : body.inputs()) look(v);
    for (const Node* m : body)
      for (const Value* v : m->outputs()) look(v);
    if (!touches) return absl::OkStatus();
    return absl::UnimplementedError(text::StrCat("autocast regions of device '", *device, "'"));
  }
  if (!ir::IsLowPrecision(low)) return absl::UnimplementedError(text::StrCat("autocast to ", ir::Name(low)));
  return CastInputs(body, low);
}

// ---- Inlining

// Every use of the symbolic number `v` becomes the constant.
absl::Status ReplaceByConstant(Graph& g, Value* v, const Arg& constant) {
  auto refuse = [&] {
    return absl::UnimplementedError(text::StrCat("a constant operand of a nested graph used as '", v->name(), "'"));
  };
  while (!v->users().empty()) {
    Node* n = v->users().back();
    for (size_t i = 0; i < n->args().size(); ++i) {
      bool mentions = false;
      n->At(i).ForEachValue([&](Value* x) { mentions |= x == v; });
      if (!mentions) continue;
      if (n->At(i).value() == v) {
        n->SetArgAt(i, constant);
      } else if (auto list = n->At(i).get<ir::SymInts>(); list && constant.is<int64_t>()) {
        ir::SymInts now = *list;
        for (ir::IntOrValue& x : now)
          if (x.value == v) x = *constant.get<int64_t>();
        n->SetArgAt(i, Arg(std::move(now)));
      } else {
        return refuse();
      }
    }
  }
  for (Arg& a : g.outputs)
    if (a.value() == v) a = constant;
  return absl::OkStatus();
}

absl::Status Inline(Node* n, const SubGraph& body, const std::vector<Arg>& operands) {
  auto bad = [&](auto... what) { return absl::InvalidArgumentError(text::StrCat(n->op_name(), ": ", what...)); };
  Values inputs;
  for (size_t i = 0; i < operands.size(); ++i) {
    Value *want = body->inputs()[i], *given = operands[i].value();
    inputs.push_back(given);
    if (given) {
      if (given->type().kind != want->type().kind)
        return bad("operand ", i, " is ", given->type().ToString(), ", the body takes ", want->type().ToString());
    } else if (want->type().kind != ir::Type::kConstant) {
      if (want->type().is_tensor() && !operands[i].is_none()) return bad("operand ", i, " is no tensor");
      if (absl::Status s = ReplaceByConstant(*body, want, operands[i]); !s.ok()) return s;
    }
  }
  Graph& g = *n->graph();
  ir::GraphCopier copier(g.program());
  for (size_t i = 0; i < inputs.size(); ++i) copier.values[body->inputs()[i]] = inputs[i];
  for (const Node* m : *body) copier.CopyNode(*m, g, n);
  std::vector<Arg> results;
  for (const Arg& a : body->outputs) results.push_back(copier.CopyArg(a));
  for (size_t i = 0; i < results.size(); ++i) {
    Value *old = n->output(i), *now = results[i].value();
    if (!old) continue;
    if (!now || now->type().kind != old->type().kind) return bad("result ", i, " is not what the body returns");
    std::string name = old->name();
    g.ReplaceAllUses(old, now);
  }
  g.Erase(n);
  return absl::OkStatus();
}

// Whether a node's graphs only compute: a call of such a body can stay one.
bool OnlyComputes(const Graph& g) {
  for (const Node* n : g) {
    if (n->op().mutates()) return false;
    for (const NamedArg& a : n->args())
      if (auto sub = a.arg.get<SubGraph>(); sub && !OnlyComputes(**sub)) return false;
  }
  for (const Arg& a : g.outputs)
    if (!a.value()) return false;
  return true;
}
// Whether a call (invoke_subgraph) can stay one: of a body that only computes, on tensors and symbolic numbers.
bool Callable(const Node& n, const ir::HigherOrder& call) {
  auto value = [](const Arg& a) { return a.value() != nullptr; };
  return OnlyComputes(*call.bodies[0]) && std::all_of(call.captured.begin(), call.captured.end(), value) &&
         std::all_of(n.outputs().begin(), n.outputs().end(), [](const Value* v) { return v != nullptr; });
}

// The branch of a cond whose predicate is known; -1 where it is not.
int KnownBranch(const Arg& predicate) {
  if (auto p = predicate.get<bool>()) return *p ? 0 : 1;
  const Value* v = predicate.value();
  if (!v || v->type().kind != ir::Type::kSymBool || v->type().expr.kind() != ir::SymKind::kBool) return -1;
  return v->type().expr.bool_value() ? 0 : 1;
}

// The body that takes the node's place with its operands: a mode's, a call's that cannot stay one, a known branch.
absl::StatusOr<std::optional<ir::HigherOrder>> ToInline(const Node& n) {
  if (n.op().traits.body < 0 && n.op_name() != "higher_order.cond") return std::nullopt;
  auto h = ir::DecodeHigherOrder(n);
  if (!h.ok()) return h.status();
  if (h->kind == ir::HigherOrder::kCond) {
    const int branch = KnownBranch(h->predicate);
    if (branch < 0) return std::nullopt;
    h->bodies = {h->bodies[branch]};
  } else if (n.op_name() == "higher_order.invoke_subgraph" && Callable(n, *h)) {
    return std::nullopt;
  } else if (n.op_name() == "higher_order.wrap_with_autocast") {
    if (absl::Status s = ApplyAutocast(n, *h->bodies[0]); !s.ok()) return s;
  }
  return *std::move(h);
}

bool HasAutocast(const Graph& g) {
  for (const Node* n : g) {
    if (n->op_name() == "higher_order.wrap_with_autocast") return true;
    for (const NamedArg& a : n->args())
      if (auto sub = a.arg.get<SubGraph>(); sub && HasAutocast(**sub)) return true;
  }
  return false;
}

absl::Status InlineIn(Graph& g) {
  for (Node* n = g.first(); n;) {
    Node* before = n->prev();
    auto h = ToInline(*n);
    if (!h.ok()) return h.status();
    if (*h) {
      if (absl::Status s = Inline(n, (*h)->bodies[0], (*h)->captured); !s.ok()) return s;
      n = before ? before->next() : g.first();  // what was inlined may hold more of the kind
      continue;
    }
    for (const NamedArg& a : n->args())
      if (auto sub = a.arg.get<SubGraph>())
        if (absl::Status s = InlineIn(**sub); !s.ok()) return s;
    n = n->next();
  }
  return absl::OkStatus();
}

}  // namespace

// What an autocast region declares follows from its casts, and could not be checked until they are there.
absl::Status InlineSubgraphs(ir::Program& p) {
  const bool check = HasAutocast(*p.graph);
  if (absl::Status s = InlineIn(*p.graph); !s.ok()) return s;
  return check ? InferShapes(p) : absl::OkStatus();
}

}  // namespace slipway::passes
