// Complex numbers as pairs of reals, for targets that have none: every complex tensor becomes two real tensors of the
// same sizes. Operators that only move elements, and linear ones with real coefficients, run on each part; products,
// quotients and functions have rules; Fourier transforms are in fft.cc.
#include <algorithm>
#include <complex>
#include <iterator>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "ir/ops/op_table.h"
#include "ir/ops/rule.h"
#include "passes/complex/pairs.h"
#include "passes/decompose.h"
#include "passes/node_order.h"
#include "passes/pass.h"

namespace slipway::passes {

using ir::Arg;
using ir::DType;
using ir::Node;
using ir::Type;
using ir::Value;
using ir::Values;

namespace {

const ComplexRule* FindRule(absl::Span<const ComplexRule> rules, const ir::OpDef& op) {
  const std::string base = text::StrCat(op.ns, ".", op.base);
  for (const ComplexRule& r : rules)
    if (r.op == base || r.op == op.name) return &r;
  return nullptr;
}

const ComplexRule* FindRule(const ir::OpDef& op) {
  for (absl::Span<const ComplexRule> rules : {ComplexArithmeticRules(), ComplexFunctionRules(), FourierRules()})
    if (const ComplexRule* rule = FindRule(rules, op)) return rule;
  return nullptr;
}

class Lowering {
 public:
  explicit Lowering(ir::Program& p) : p_(p), g_(*p.graph) {}

  absl::Status Run() {
    for (Node *n = g_.first(), *next; n; n = next) {
      next = n->next();
      if (!Touches(*n)) continue;
      if (const DecomposeRow* row = DecompositionOf(*n)) {
        Node* before = n->prev();
        if (absl::Status s = ApplyDecomposition(n, *row); !s.ok()) return At(*n, s);
        next = before ? before->next() : g_.first();
        continue;
      }
      if (absl::Status s = Rewrite(n); !s.ok()) return At(*n, s);
    }
    for (const Arg& a : g_.outputs)
      if (Value* v = a.value(); v && IsComplex(v))
        return absl::UnimplementedError(
            text::StrCat("output '", v->name(), "' is complex: return torch.view_as_real of it"));
    // Backwards, so that users go before what they use.
    std::reverse(done_.begin(), done_.end());
    for (Node* n : done_) g_.Erase(n);
    return absl::OkStatus();
  }

 private:
  static bool IsComplex(const Value* v) { return v->type().is_tensor() && ir::IsComplex(v->dtype()); }
  static absl::Status At(const Node& n, const absl::Status& s) {
    const std::string place = n.source() ? n.source()->Describe() : "";
    return absl::Status(s.code(), text::StrCat(s.message(), place.empty() ? "" : " in ", place));
  }

  // A product of two is bilinear as it stands; others fall apart into such.
  static const DecomposeRow* DecompositionOf(const Node& n) {
    if (n.op().ns != "aten" || n.op().traits.complex != ir::ComplexClass::kDecomposition) return nullptr;
    if (n.op().base == "einsum")
      if (const Values* operands = n.Get("tensors").get<Values>(); operands && operands->size() == 2) return nullptr;
    return FindDecomposition(n.op_name());
  }
  bool Touches(const Node& n) const {
    bool complex = false;
    for (const ir::NamedArg& a : n.args()) a.arg.ForEachValue([&](Value* v) { complex |= IsComplex(v); });
    for (const Value* v : n.outputs()) complex |= v && IsComplex(v);
    return complex || FindRule(FourierRules(), n.op());  // of real numbers too, by way of complex ones
  }

  absl::Status Rewrite(Node* n) {
    for (const ir::NamedArg& a : n->args()) {
      absl::Status s;
      a.arg.ForEachValue([&](Value* v) {
        if (IsComplex(v) && !pairs_.contains(v)) s.Update(Enter(v));
      });
      if (!s.ok()) return s;
    }
    ir::Builder b(g_, n, n->source());
    ComplexContext c(*n, b, pairs_);
    Node* before = n->prev();
    if (const ComplexRule* rule = FindRule(n->op())) {
      if (absl::Status s = ir::RunRule(*n, [&] { rule->fn(c); }); !s.ok()) return s;
      if (!c.ok()) return c.status();
      if (!b.ok()) return b.status();
      Values parts;
      for (const Value* v : n->outputs())
        if (v) parts.push_back(pairs_[v].re), parts.push_back(pairs_[v].im);
      OrderNodes(g_, before, n, parts);
    } else if (n->op().traits.complex == ir::ComplexClass::kParts) {
      if (absl::Status s = ByParts(n); !s.ok()) return s;
    } else if (std::none_of(n->outputs().begin(), n->outputs().end(), [](Value* v) { return v && IsComplex(v); }) &&
               OnlySizes(*n)) {
      OfRealPart(n);
      return absl::OkStatus();
    } else {
      return absl::UnimplementedError(text::StrCat(n->op_name(), ": of complex numbers"));
    }
    for (Value* v : n->outputs()) {
      if (!v || IsComplex(v)) continue;
      Value* real = pairs_[v].re;
      if (real->dtype() != v->dtype()) real = b.Cast(real, v->dtype());
      g_.ReplaceAllUses(v, real);
    }
    done_.push_back(n);
    return b.status();
  }

  // A complex weight is read as the real numbers it is stored as, two for each element.
  absl::Status Enter(Value* v) {
    if (v->producer()) return absl::InternalError(text::StrCat("complex value %", v->name(), " has no parts"));
    const ir::InputSpec& spec = p_.input_specs[v->index()];
    auto weight = p_.weights.find(spec.target);
    if (v->graph() != &g_ || spec.kind == ir::InputSpec::kUser || weight == p_.weights.end())
      return absl::UnimplementedError(
          text::StrCat("input '", v->name(), "' is complex: pass torch.view_as_real of it"));
    ir::TensorRef t = weight->second;
    t.dtype = ir::ToReal(t.dtype);
    for (int64_t& stride : t.strides) stride *= 2;
    t.sizes.push_back(2);
    t.strides.push_back(1);
    const std::string name = text::StrCat(spec.target, ".real_view");
    ir::Type type = Type::Tensor(t.dtype, ir::Sizes(t.sizes.begin(), t.sizes.end()));
    p_.weights.insert_or_assign(name, std::move(t));
    Value* stored = g_.AddInput(text::StrCat(v->name(), "_real_view"), std::move(type));
    ir::InputSpec own = spec;
    own.target = name;
    p_.input_specs.push_back(std::move(own));
    ir::Builder b(g_, g_.first(), nullptr);
    pairs_[v] = {b.Call("aten.select.int", {stored, -1, 0}), b.Call("aten.select.int", {stored, -1, 1})};
    return b.status();
  }

  // The node on real parts and on imaginary ones.
  absl::Status ByParts(Node* n) {
    bool imaginary = false;
    for (const ir::NamedArg& a : n->args())
      a.arg.ForEachValue([&](Value* v) { imaginary |= IsComplex(v) && pairs_[v].im != nullptr; });
    Node* re = Part(n, /*imaginary=*/false);
    Node* im = imaginary ? Part(n, /*imaginary=*/true) : nullptr;
    for (size_t i = 0; i < n->outputs().size(); ++i)
      if (Value* v = n->output(i)) pairs_[v] = {re->output(i), im ? im->output(i) : nullptr};
    return absl::OkStatus();
  }
  Node* Part(Node* n, bool imaginary) {
    // Real operands among complex ones count in the real part only; indices and masks in both.
    auto part = [&](Value* v) -> Value* {
      if (IsComplex(v)) {
        ir::Builder b(g_, n, n->source());
        const Pair& p = pairs_[v];
        return !imaginary ? p.re : p.im ? p.im : b.Call("aten.zeros_like.default", {p.re});
      }
      if (imaginary && v->type().is_tensor() && ir::IsFloating(v->dtype())) {
        ir::Builder b(g_, n, n->source());
        return b.Call("aten.zeros_like.default", {v});
      }
      return v;
    };
    std::vector<ir::NamedArg> args(n->args().begin(), n->args().end());
    for (ir::NamedArg& a : args) {
      a.arg.ReplaceValues(part);
      if (const DType* d = a.arg.get<DType>(); d && ir::IsComplex(*d)) a.arg = Arg(ir::ToReal(*d));
    }
    Node* m = g_.Insert(n->op(), std::move(args), n);
    m->set_groups(n->groups());
    m->set_source(n->source());
    for (Value* v : n->outputs()) {
      if (!v) {
        g_.AddNoneOutput(m);
        continue;
      }
      g_.AddOutput(m, v->name(), Type::Tensor(ir::ToReal(v->dtype()), v->sizes()));
    }
    return m;
  }

  // Operators that look at sizes only see the real part.
  static bool OnlySizes(const Node& n) {
    return n.op().base.starts_with("sym_") || n.op().base.starts_with("_assert") || n.op().base == "numel";
  }
  void OfRealPart(Node* n) {
    for (size_t i = 0; i < n->args().size(); ++i) {
      Arg a = n->At(i);
      a.ReplaceValues([&](Value* v) { return IsComplex(v) ? pairs_[v].re : v; });
      n->SetArgAt(i, std::move(a));
    }
  }

  ir::Program& p_;
  ir::Graph& g_;
  absl::flat_hash_map<const Value*, Pair> pairs_;
  std::vector<Node*> done_;
};

}  // namespace

bool HasComplexRule(std::string_view op) { return FindRule(ir::GetOp(op)) != nullptr; }

absl::Status LowerComplex(ir::Program& p) { return Lowering(p).Run(); }

}  // namespace slipway::passes
