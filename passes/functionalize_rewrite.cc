// The rewriting of a graph whose writes and views are known: each value becomes the one that stands for it at a node.
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "ir/builder.h"
#include "ir/ops/args.h"
#include "ir/ops/functional.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_table.h"
#include "passes/alias.h"
#include "passes/functionalizer.h"
#include "passes/pass.h"

namespace slipway::passes {

using ir::Arg;
using ir::NamedArg;
using ir::Node;
using ir::OpDef;
using ir::Type;
using ir::Value;
using ir::Values;

namespace {

// Views repeated for hostile graphs (long chains, many writes) stop here.
constexpr int64_t kMaxNewNodes = int64_t{1} << 20;

}  // namespace

bool Functionalizer::Tracked(const Value* v) const {
  auto it = alias_.find(v);
  return written_.contains(it == alias_.end() ? v : it->second.root);
}

absl::Status Functionalizer::Count(int64_t n) {
  made_ += n;
  if (made_ > kMaxNewNodes) return absl::ResourceExhaustedError("functionalization would repeat too many views");
  return absl::OkStatus();
}

// The value of `v` now, made before at_ where it is stale.
absl::StatusOr<Value*> Functionalizer::Current(Value* v) {
  Value* root = RootOf(v);
  if (!written_.contains(root)) return v;
  const int64_t version = VersionOf(root);
  std::vector<Value*> chain;
  Value* x = v;
  for (;; x = alias_[x].parent) {
    auto it = state_.find(x);
    if (it != state_.end() && it->second.version == version) break;
    if (x == root) {
      state_[root] = {root, version};
      break;
    }
    chain.push_back(x);
  }
  if (absl::Status s = Count(static_cast<int64_t>(chain.size())); !s.ok()) return s;
  for (auto it = chain.rbegin(); it != chain.rend(); ++it) {
    const Alias& a = alias_[*it];
    Value* parent = state_[a.parent].value;
    if (!a.via) {
      state_[*it] = {parent, version};
      continue;
    }
    std::vector<NamedArg> args(a.via->args().begin(), a.via->args().end());
    if (a.element < 0) {
      args[a.arg].arg = Arg(parent);
    } else {
      Values list = *args[a.arg].arg.get<Values>();
      list[a.element] = parent;
      args[a.arg].arg = Arg(std::move(list));
    }
    Node* m = g_.Insert(a.via->op(), std::move(args), at_);
    m->set_groups(a.via->groups());
    m->set_source(a.via->source());
    for (size_t k = 0; k < a.via->outputs().size(); ++k) {
      Value* old = a.via->output(k);
      if (!old) {
        g_.AddNoneOutput(m);
        continue;
      }
      Value* now = g_.AddOutput(m, old->name(), old->type());
      if (a.element < 0 || static_cast<int>(k) == a.out) state_[old] = {now, version};
    }
  }
  return state_[v].value;
}

// `v` is now `value`: for itself and all it views.
absl::Status Functionalizer::WriteTo(Value* v, Value* value, const std::shared_ptr<const ir::Source>& source) {
  Value* root = RootOf(v);
  std::vector<std::pair<Value*, Value*>> now;
  for (;;) {
    now.emplace_back(v, value);
    if (v == root) break;
    const Alias a = alias_[v];
    if (a.via) {
      auto parent = Current(a.parent);
      if (!parent.ok()) return parent.status();
      ir::Builder b(g_, at_, source);
      auto written = WriteThrough(*a.via, a.out, *parent, value, b, [&](Value* s) { return Current(s); });
      if (!written.ok()) return written.status();
      value = *written;
    }
    v = a.parent;
  }
  if (absl::Status s = Count(static_cast<int64_t>(now.size())); !s.ok()) return s;
  int64_t version = ++VersionOf(root);
  for (auto& [x, y] : now) state_[x] = {y, version};
  return absl::OkStatus();
}

// What an in-place node would have stored into `self`, whose value is `before`.
absl::StatusOr<Value*> Functionalizer::Compute(Node* n, Value* before) {
  ir::Builder b(g_, at_, n->source());
  ir::ArgReader a(*n);
  const Type type = [&] {
    Type t = before->type();
    t.strides_known = false;
    return t;
  }();
  auto cast = [&](Value* x) {
    if (x->dtype() == type.dtype) return x;
    return b.CallTyped("aten._to_copy.default", {x}, {{"dtype", type.dtype}},
                       {Type::Tensor(type.dtype, x->sizes())})[0];
  };
  auto expand = [&](Value* x) {
    bool same = x->rank() == type.rank();
    for (int d = 0; same && d < x->rank(); ++d) same = ir::ProvablyEqual(x->sizes()[d], type.sizes[d]);
    if (same) return x;
    return b.CallTyped("aten.expand.default", {x, Arg(SizeArgs(b, before))}, {}, {type})[0];
  };
  auto full = [&](Value* like, Arg number) {
    return b.CallTyped("aten.full_like.default", {like, std::move(number)}, {},
                       {Type::Tensor(type.dtype, like->sizes())})[0];
  };
  Value* result = nullptr;
  std::string_view op = n->op_name();
  if (op == "aten.copy_.default" || op == "aten.copy_.Tensor") {
    Value* src = a.tensor(op == "aten.copy_.Tensor" ? "other" : "src");
    if (a.ok()) result = expand(cast(src));
  } else if (op == "aten.copy_.int" || op == "aten.copy_.float") {
    result = full(before, n->Get("other"));
  } else if (op == "aten.zero_.default") {
    result = full(before, Arg(0));
  } else if (op == "aten.fill_.Scalar") {
    result = full(before, n->Get("value"));
  } else if (op == "aten.fill_.Tensor") {
    Value* value = a.tensor("value");
    if (a.ok()) result = expand(cast(value));
  } else if (op == "aten.fill_diagonal_.default") {
    if (before->rank() != 2 || a.b("wrap")) return RefuseMutation(*n, "of other than matrices, or wrapped");
    ir::Sym m = before->sizes()[0], k = before->sizes()[1];
    Type line = Type::Tensor(type.dtype, {ir::Min(m, k)});
    Value* diagonal = b.CallTyped("aten.diagonal.default", {before}, {}, {line})[0];
    diagonal = full(diagonal, n->Get("fill_value"));
    result = b.CallTyped("aten.diagonal_scatter.default", {before, diagonal}, {}, {type})[0];
  } else {
    const OpDef* f = ir::FunctionalOf(n->op());
    if (!f || f->returns.size() != 1 || f->returns[0].is_list)
      return RefuseMutation(*n, "no functional counterpart of this in-place operator");
    std::vector<NamedArg> args;
    for (const NamedArg& x : n->args()) {
      if (f->ArgIndex(x.name) >= 0) {
        args.push_back(x);
        continue;
      }
      int k = n->op().ArgIndex(x.name);
      if (k < 0 || !n->op().args[k].written)
        return RefuseMutation(*n, text::StrCat("argument '", x.name, "' of the in-place operator"));
    }
    Node* m = g_.Insert(*f, std::move(args), at_);
    m->set_source(n->source());
    auto types = ir::InferTypes(*m);
    Type out = type;
    if (types.ok() && types->size() == 1 && (*types)[0].is_tensor()) {
      out.dtype = (*types)[0].dtype;
      bool fits = (*types)[0].rank() == type.rank();
      for (int d = 0; fits && d < type.rank(); ++d) fits = !ir::ProvablyDifferent((*types)[0].sizes[d], type.sizes[d]);
      if (!fits) return RefuseMutation(*n, text::StrCat("stores ", (*types)[0].ToString(), " into ", type.ToString()));
    } else if (!types.ok() && !absl::IsUnimplemented(types.status())) {
      return types.status();
    }
    result = cast(g_.AddOutput(m, std::string(f->base), out));
  }
  if (!a.ok()) return a.status();
  if (!b.ok()) return b.status();
  return result;
}

// What training does to running statistics: (1 - momentum) * old + momentum * of this batch, variances unbiased.
absl::Status Functionalizer::UpdateStatistics(Node* n) {
  ir::ArgReader a(*n);
  Value* x = a.tensor("input");
  double momentum = a.f("momentum");
  if (!a.ok()) return a.status();
  if (x->rank() < 2) return RefuseMutation(*n, "training statistics of a tensor of fewer than two dimensions");
  const bool instance = n->op().base == "instance_norm";
  ir::Ints dims;
  for (int d = instance ? 2 : 0; d < x->rank(); ++d)
    if (d != 1) dims.push_back(d);
  ir::Builder b(g_, at_, n->source());
  Value* originals[2] = {nullptr, nullptr};
  Value* updated[2] = {nullptr, nullptr};
  for (int k = 0; k < 2; ++k) {
    Value* before = n->Get(k == 0 ? "running_mean" : "running_var").value();
    originals[k] = statistics_[k];
    if (!before) continue;
    Type t = Type::Tensor(before->dtype(), {});
    Value* y = x;
    if (y->dtype() != t.dtype)
      y = b.CallTyped("aten._to_copy.default", {y}, {{"dtype", t.dtype}}, {Type::Tensor(t.dtype, y->sizes())})[0];
    t.sizes = instance ? ir::Sizes{x->sizes()[0], x->sizes()[1]} : ir::Sizes{x->sizes()[1]};
    if (k == 0)
      y = b.CallTyped("aten.mean.dim", {y, Arg(dims)}, {}, {t})[0];
    else
      y = b.CallTyped("aten.var.correction", {y, Arg(dims)}, {{"correction", Arg(1)}}, {t})[0];
    t.sizes = {x->sizes()[1]};
    if (instance) y = b.CallTyped("aten.mean.dim", {y, Arg(ir::Ints{0})}, {}, {t})[0];
    t.sizes = before->sizes();
    Value* kept = b.CallTyped("aten.mul.Scalar", {before, 1.0 - momentum}, {}, {t})[0];
    Value* added = b.CallTyped("aten.mul.Scalar", {y, momentum}, {}, {t})[0];
    updated[k] = b.CallTyped("aten.add.Tensor", {kept, added}, {}, {t})[0];
  }
  if (!b.ok()) return b.status();
  at_ = n->next();
  for (int k = 0; k < 2; ++k)
    if (updated[k])
      if (absl::Status s = WriteTo(originals[k], updated[k], n->source()); !s.ok()) return s;
  return absl::OkStatus();
}

absl::Status Functionalizer::RewriteNode(Node* n) {
  at_ = n;
  const bool writes = WritesOperands(*n);
  Values targets = writes ? WrittenBy(*n) : Values{};
  for (int k = 0; k < 2; ++k) statistics_[k] = n->Get(k == 0 ? "running_mean" : "running_var").value();
  for (size_t i = 0; i < n->args().size(); ++i) {
    bool stale = false;
    n->At(i).ForEachValue([&](Value* v) { stale |= v->type().is_tensor() && Tracked(v); });
    if (!stale) continue;
    Arg a = n->At(i);
    if (absl::Status s = Refresh(a); !s.ok()) return s;
    n->SetArgAt(i, std::move(a));
  }
  if (!writes) {
    for (Value* v : n->outputs())
      if (v && alias_.contains(v) && Tracked(v)) state_[v] = {v, VersionOf(RootOf(v))};
    return absl::OkStatus();
  }
  if (UpdatesStatistics(*n)) return UpdateStatistics(n);
  if (targets.size() != 1) return RefuseMutation(*n, "an operator that writes several tensors");
  auto before = Current(targets[0]);
  if (!before.ok()) return before.status();
  auto value = Compute(n, *before);
  if (!value.ok()) return value.status();
  return WriteTo(targets[0], *value, n->source());
}

absl::Status Functionalizer::Rewrite() {
  for (Value* v : g_.inputs())
    if (written_.contains(v) && !root_)
      return absl::UnimplementedError(text::StrCat("a nested graph that writes to its operand '", v->name(), "'"));
  if (absl::Status s = CheckTied(); !s.ok()) return s;
  for (Node* n : nodes_)
    if (absl::Status s = RewriteNode(n); !s.ok()) return s;
  at_ = nullptr;
  for (Arg& a : g_.outputs)
    if (absl::Status s = Refresh(a); !s.ok()) return s;
  if (root_) AddMutations();
  for (auto it = nodes_.rbegin(); it != nodes_.rend(); ++it) {
    Node* n = *it;
    if (!n->op().mutates()) continue;
    for (Value* v : n->outputs())
      if (v && (!v->users().empty() || g_.IsOutput(v)))
        return absl::InternalError(text::StrCat(n->op_name(), ": a result of an in-place node is still in use"));
    g_.Erase(n);
  }
  return absl::OkStatus();
}

}  // namespace slipway::passes
