// Functionalization: in-place nodes and views become pure SSA.
//
// Each tensor value of the as-exported graph belongs to a base (a graph input, or what some operator made) through a
// chain of view nodes. A base has a version, which a write raises. A write to a view makes new values for the view, for
// what it views, and so on up to the base. A value read later is made anew from its base when it is older than that:
// view nodes are repeated where they are needed, not where the write was. Graphs without in-place nodes are left alone.
#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
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
using ir::Graph;
using ir::NamedArg;
using ir::Node;
using ir::OpDef;
using ir::SubGraph;
using ir::Type;
using ir::Value;
using ir::Values;

absl::Status RefuseMutation(const Node& n, std::string_view why) {
  std::string place = n.source() ? n.source()->Describe() : "";
  return absl::UnimplementedError(
      text::StrCat(n.op_name(), ": ", why, place.empty() ? "" : text::StrCat(" (in ", place, ")")));
}

bool UpdatesStatistics(const Node& n) {
  const std::string_view training = n.op().traits.updates_statistics;
  if (training.empty()) return false;
  ir::ArgReader a(n);
  return a.b(training) && (n.Get("running_mean").value() || n.Get("running_var").value());
}

bool WritesOperands(const Node& n) { return n.op().mutates() || UpdatesStatistics(n); }

Values WrittenBy(const Node& n) {
  Values out;
  if (UpdatesStatistics(n)) {
    for (const char* name : {"running_mean", "running_var"})
      if (Value* v = n.Get(name).value()) out.push_back(v);
    return out;
  }
  for (const ir::ArgDef& a : n.op().args)
    if (a.written)
      if (Value* v = n.Get(a.name).value()) out.push_back(v);
  return out;
}

namespace {

// A number can stand for a tensor that is read, not for one that is written.
absl::Status CheckWritten(const Node& n) {
  for (const ir::ArgDef& a : n.op().args) {
    if (!a.written || a.is_list) continue;
    const Arg& arg = n.Get(a.name);
    if (!arg.is_none() && !arg.value())
      return absl::InvalidArgumentError(
          text::StrCat(n.op_name(), ": argument '", a.name, "' is written and is no tensor"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Functionalizer::Run() {
  bool work = false;
  for (Node* n : g_) {
    for (const NamedArg& a : n->args())
      if (auto sub = a.arg.get<SubGraph>())
        if (absl::Status s = Functionalizer(**sub).Run(); !s.ok()) return s;
    if (absl::Status s = CheckWritten(*n); !s.ok()) return s;
    work |= WritesOperands(*n) || IsStrided(*n);
    if (absl::Status s = Separate(n); !s.ok()) return s;
  }
  if (!work) return absl::OkStatus();
  if (absl::Status s = Normalize(); !s.ok()) return s;
  if (absl::Status s = Analyze(); !s.ok()) return s;
  if (written_.empty()) return absl::OkStatus();
  if (absl::Status s = CheckUndecided(); !s.ok()) return s;
  return Rewrite();
}

// An operator that writes several tensors beside its results (training batch normalization) becomes its twin
// "…_functional", which also returns what it would write, and a copy for each. A result that is a tensor it writes is
// that tensor.
absl::Status Functionalizer::Separate(Node* n) {
  Values targets;
  for (const ir::ArgDef& a : n->op().args)
    if (a.written && !a.keyword_only) targets.push_back(n->Get(a.name).value());
  const OpDef* twin =
      targets.size() < 2 ? nullptr : ir::FindOp(text::StrCat(n->op().ns, ".", n->op().base, "_functional.default"));
  if (!twin || n->outputs().size() > n->op().returns.size()) return absl::OkStatus();
  auto target_of = [&](size_t result) -> Value* {
    const char alias = n->op().returns[result].alias;
    for (const ir::ArgDef& a : n->op().args)
      if (a.written && alias && a.alias == alias) return n->Get(a.name).value();
    return nullptr;
  };
  std::vector<size_t> own;  // results that are not targets
  for (size_t i = 0; i < n->outputs().size(); ++i)
    if (!target_of(i)) own.push_back(i);
  if (twin->returns.size() != own.size() + targets.size()) return absl::OkStatus();
  ir::Builder b(g_, n, n->source());
  std::vector<Arg> args;
  for (const ir::ArgDef& a : twin->args) args.push_back(n->Get(a.name));
  std::vector<Type> types;
  for (size_t i : own) types.push_back(n->output(i) ? n->output(i)->type() : Type());
  for (Value* v : targets) {
    if (!v) return RefuseMutation(*n, "None where it writes");
    types.push_back(v->type());
  }
  for (Type& t : types) t.strides_known = false;
  Values results = b.CallTyped(twin->name, std::move(args), {}, std::move(types));
  if (!b.ok()) return b.status();
  for (size_t i = 0; i < own.size(); ++i)
    if (Value* v = n->output(own[i])) g_.ReplaceAllUses(v, results[i]);
  for (size_t i = 0; i < n->outputs().size(); ++i)
    if (Value* v = n->output(i); v && target_of(i)) g_.ReplaceAllUses(v, target_of(i));
  for (size_t i = 0; i < targets.size(); ++i)
    b.CallTyped("aten.copy_.default", {targets[i], results[own.size() + i]}, {}, {targets[i]->type()});
  if (!b.ok()) return b.status();
  g_.Erase(n);
  return absl::OkStatus();
}

Value* Functionalizer::RootOf(Value* v) const {
  auto it = alias_.find(v);
  return it == alias_.end() ? v : it->second.root;
}

bool Functionalizer::UsedAfter(const Value* v, const Node* n) const {
  if (g_.IsOutput(v)) return true;
  if (std::all_of(v->users().begin(), v->users().end(), [&](const Node* m) { return m == n; })) return false;
  for (const Node* m = n->next(); m; m = m->next())
    if (std::find(v->users().begin(), v->users().end(), m) != v->users().end()) return true;
  return false;
}

// Operators that write no element: detach_, transpose_, resize_ to as many elements, dropout_ outside training.
absl::Status Functionalizer::Normalize() {
  for (Node *n = g_.first(), *next; n; n = next) {
    next = n->next();
    if (n->op().ns != "aten" || !n->op().mutates() || n->outputs().size() != 1 || !n->output()) continue;
    std::string_view op = n->op().base;
    Value* self = n->Get("self").value();
    if (!self) continue;
    auto same = [&] {
      g_.ReplaceAllUses(n->output(), self);
      g_.Erase(n);
    };
    // A view in place of a change of shape; the old shape must be of no more use.
    auto view = [&](std::string_view name, std::vector<NamedArg> args) -> absl::Status {
      if (UsedAfter(self, n)) return RefuseMutation(*n, "the tensor is used again under its old shape");
      Node* m = g_.Insert(ir::GetOp(name), std::move(args), n);
      m->set_source(n->source());
      Value* v = g_.AddOutput(m, n->output()->name(), n->output()->type());
      g_.ReplaceAllUses(n->output(), v);
      g_.Erase(n);
      return absl::OkStatus();
    };
    const ir::OpTraits& traits = n->op().traits;
    if (!traits.identity.empty() || (!traits.identity_when_idle.empty() && !ir::IsRandom(*n))) {
      same();
    } else if (traits.in_place_view) {
      std::string name(traits.in_place_view_op);
      if (name.empty()) name = text::StrCat("aten.", op.substr(0, op.size() - 1), ".", n->op().overload);
      if (!ir::FindOp(name)) return RefuseMutation(*n, "in-place change of shape");
      std::vector<NamedArg> args(n->args().begin(), n->args().end());
      if (absl::Status s = view(name, std::move(args)); !s.ok()) return s;
    } else if (op == "resize_" || op == "resize_as_") {
      const Type &from = self->type(), &to = n->output()->type();
      bool as_is = from.rank() == to.rank();
      for (int d = 0; as_is && d < from.rank(); ++d) as_is = ir::ProvablyEqual(from.sizes[d], to.sizes[d]);
      ir::Sym before = 1, after = 1;
      for (const ir::Sym& s : from.sizes) before = before * s;
      for (const ir::Sym& s : to.sizes) after = after * s;
      auto f = n->Get("memory_format").get<ir::MemoryFormat>();
      bool plain = !f || *f == ir::MemoryFormat::kContiguous || *f == ir::MemoryFormat::kPreserve;
      if (as_is && plain) {
        same();
        continue;
      }
      if (!plain || !ir::ProvablyEqual(before, after))
        return RefuseMutation(*n, "a resize that changes the number of elements");
      if (IsContiguous(from) != Sharing::kShares)
        return RefuseMutation(*n, "a resize of a tensor that is not contiguous");
      ir::Builder b(g_, n, n->source());
      Arg size = op == "resize_" ? n->Get("size") : Arg(SizeArgs(b, n->Get("the_template").value()));
      if (absl::Status s = view("aten.view.default", {{"self", Arg(self), 1}, {"size", std::move(size), 1}}); !s.ok())
        return s;
    } else if (op == "set_") {
      return RefuseMutation(*n, "a tensor given other storage");
    }
  }
  return absl::OkStatus();
}

// as_strided reads storage, so it is told as a view of the base laid out in memory order.
absl::Status Functionalizer::Anchor(Node* n) {
  Value* self = n->Get("self").value();
  if (!self || !self->type().is_tensor()) return absl::OkStatus();
  Value* root = RootOf(self);
  if (maybe_view_.contains(root)) return RefuseMutation(*n, "of a tensor that may or may not be a view");
  const Type& t = root->type();
  if (t.storage_offset != ir::Sym(0)) return RefuseMutation(*n, "of a tensor with a storage offset");
  if (n->op().base == "as_strided_scatter") {
    if (self != root || IsContiguous(t) != Sharing::kShares)
      return RefuseMutation(*n, "of a tensor that is a view or not contiguous");
    if (n->Get("storage_offset").is_none()) n->SetArg("storage_offset", Arg(0));
    return absl::OkStatus();
  }
  if (n->Get("storage_offset").is_none()) {
    auto offset = self->type().storage_offset.constant();
    if (!offset) return RefuseMutation(*n, "of a view at a symbolic offset");
    n->SetArg("storage_offset", Arg(*offset));
  }
  if (IsContiguous(t) == Sharing::kShares) {
    n->SetArg("self", Arg(root));
    return absl::OkStatus();
  }
  // Outermost dimension first; sizes of one fit anywhere.
  if (!t.strides_known) return RefuseMutation(*n, "of a tensor of unknown strides");
  std::vector<int64_t> order, strides;
  for (int d = 0; d < t.rank(); ++d) {
    auto stride = t.strides[d].constant();
    if (!stride) return RefuseMutation(*n, "of a tensor of symbolic strides");
    order.push_back(d), strides.push_back(*stride);
  }
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return strides[a] > strides[b]; });
  Type in_order = Type::Tensor(t.dtype, {});
  for (int64_t d : order) {
    in_order.sizes.push_back(t.sizes[d]);
    in_order.strides.push_back(t.strides[d]);
  }
  in_order.strides_known = true;
  if (IsContiguous(in_order) != Sharing::kShares)
    return RefuseMutation(*n, "of a tensor with gaps or overlaps in memory");
  ir::Builder b(g_, n, n->source());
  Value* flat = b.CallTyped("aten.permute.default", {root, Arg(ir::Ints(order))}, {}, {in_order})[0];
  if (!b.ok()) return b.status();
  Note(flat->producer());
  n->SetArg("self", Arg(flat));
  return absl::OkStatus();
}

// Takes a node into the analysis: what its results are views of.
void Functionalizer::Note(Node* n) {
  const int position = static_cast<int>(nodes_.size());
  nodes_.push_back(n);
  for (const NamedArg& a : n->args())
    a.arg.ForEachValue([&](Value* v) {
      if (v->type().is_tensor()) last_[RootOf(v)] = position;
    });
  if (n->op().mutates()) {
    for (const ir::ArgDef& a : n->op().args) {
      if (!a.written || !a.alias) continue;
      Value* self = n->Get(a.name).value();
      for (size_t k = 0; self && k < n->outputs().size(); ++k) {
        Value* out = n->output(k);
        if (out && k < n->op().returns.size() && n->op().returns[k].alias == a.alias)
          alias_[out] = {RootOf(self), self, nullptr, static_cast<int>(k), -1, -1};
      }
    }
  }
  for (size_t k = 0; k < n->outputs().size(); ++k) {
    Value* out = n->output(k);
    if (!out || !out->type().is_tensor() || alias_.contains(out)) continue;
    View v = ViewOf(*n, static_cast<int>(k));
    if (v.sharing == Sharing::kShares) {
      alias_[out] = {RootOf(v.parent), v.parent, n, static_cast<int>(k), v.arg, v.element};
    } else {
      first_[out] = position;
      if (v.sharing == Sharing::kUnknown) {
        Value* other = RootOf(v.parent);
        undecided_[other].emplace_back(out, n);
        undecided_[out].emplace_back(other, n);
        maybe_view_.insert(out);
      }
    }
  }
  for (Value* w : WrittenBy(*n)) {
    written_.insert(RootOf(w));
    writes_.push_back({RootOf(w), position});
  }
}

absl::Status Functionalizer::Analyze() {
  for (Node *n = g_.first(), *next; n; n = next) {
    next = n->next();
    if (IsStrided(*n))
      if (absl::Status s = Anchor(n); !s.ok()) return s;
    for (const ir::ArgDef& a : n->op().args)
      if (a.written && a.is_list && !n->Get(a.name).is_none())
        return RefuseMutation(*n, "in-place operators on lists of tensors");
    Note(n);
  }
  for (const Arg& a : g_.outputs)
    a.ForEachValue([&](Value* v) {
      if (v->type().is_tensor()) last_[RootOf(v)] = std::numeric_limits<int>::max();
    });
  return absl::OkStatus();
}

// A write to what may or may not be shared is fine when the other side is not read afterwards.
absl::Status Functionalizer::CheckUndecided() {
  if (undecided_.empty()) return absl::OkStatus();
  for (const Write& w : writes_) {
    std::vector<const Value*> todo = {w.root};
    absl::flat_hash_set<const Value*> seen = {w.root};
    while (!todo.empty()) {
      const Value* r = todo.back();
      todo.pop_back();
      auto it = undecided_.find(r);
      if (it == undecided_.end()) continue;
      for (const auto& [other, via] : it->second) {
        auto made = first_.find(other);
        if (made != first_.end() && made->second > w.position) continue;
        if (!seen.insert(other).second) continue;
        auto last = last_.find(other);
        bool looked_at = !other->producer() || (last != last_.end() && last->second > w.position);
        if (looked_at)
          return RefuseMutation(*nodes_[w.position], text::StrCat("whether the write reaches both sides of ",
                                                                  via->op_name(), " is not known from the types"));
        todo.push_back(other);
      }
    }
    if (seen.size() > 4096) return RefuseMutation(*nodes_[w.position], "too many tensors that may or may not be views");
  }
  return absl::OkStatus();
}

// Two inputs may be one tensor: what is written to the one must then show in the other.
absl::Status Functionalizer::CheckTied() {
  if (!root_) return absl::OkStatus();
  const ir::Program& p = *g_.program();
  absl::flat_hash_map<const ir::Storage*, std::vector<size_t>> by_storage;
  for (size_t i = 0; i < g_.inputs().size(); ++i)
    if (auto w = p.weights.find(p.input_specs[i].target); !p.input_specs[i].target.empty() && w != p.weights.end())
      by_storage[w->second.storage.get()].push_back(i);
  for (size_t i = 0; i < g_.inputs().size(); ++i) {
    if (!written_.contains(g_.inputs()[i]) || p.input_specs[i].target.empty()) continue;
    auto w = p.weights.find(p.input_specs[i].target);
    if (w == p.weights.end()) continue;
    for (size_t k : by_storage[w->second.storage.get()]) {
      if (k == i || p.input_specs[k].target == p.input_specs[i].target) continue;
      if (w->second.nbytes() == 0 || last_.find(g_.inputs()[k]) == last_.end()) continue;
      const ir::TensorRef& o = p.weights.find(p.input_specs[k].target)->second;
      if (o.nbytes() == 0 || !Overlap(w->second, o)) continue;
      return absl::UnimplementedError(text::StrCat(
          "'", p.input_specs[i].target, "' is written and shares memory with '", p.input_specs[k].target, "'"));
    }
  }
  return absl::OkStatus();
}

bool Functionalizer::Overlap(const ir::TensorRef& a, const ir::TensorRef& b) {
  auto end = [](const ir::TensorRef& t) {
    int64_t last = 0;
    for (size_t d = 0; d < t.sizes.size(); ++d) last += (t.sizes[d] - 1) * t.strides[d];
    return static_cast<int64_t>(t.offset) + (last + 1) * std::max<int64_t>(ir::ByteSize(t.dtype), 1);
  };
  return static_cast<int64_t>(a.offset) < end(b) && static_cast<int64_t>(b.offset) < end(a);
}

// What was written to inputs are outputs, first of all, in the order of the inputs.
void Functionalizer::AddMutations() {
  ir::Program& p = *g_.program();
  std::vector<Arg> values;
  std::vector<ir::OutputSpec> specs;
  for (size_t i = 0; i < g_.inputs().size(); ++i) {
    Value* v = g_.inputs()[i];
    if (!written_.contains(v)) continue;
    ir::OutputSpec spec;
    const ir::InputSpec& in = p.input_specs[i];
    spec.kind = in.kind == ir::InputSpec::kParameter ? ir::OutputSpec::kParameterMutation
                : in.kind == ir::InputSpec::kUser    ? ir::OutputSpec::kUserInputMutation
                                                     : ir::OutputSpec::kBufferMutation;
    spec.target = in.kind == ir::InputSpec::kUser ? v->name() : in.target;
    auto known = std::any_of(p.output_specs.begin(), p.output_specs.end(),
                             [&](const ir::OutputSpec& s) { return s.kind == spec.kind && s.target == spec.target; });
    if (known) continue;
    values.emplace_back(state_[v].value ? state_[v].value : v);
    specs.push_back(std::move(spec));
  }
  g_.outputs.insert(g_.outputs.begin(), values.begin(), values.end());
  p.output_specs.insert(p.output_specs.begin(), specs.begin(), specs.end());
}

absl::Status Functionalize(ir::Program& p) {
  if (absl::Status s = Functionalizer(*p.graph).Run(); !s.ok()) return s;
  p.form = ir::Form::kFunctional;
  return absl::OkStatus();
}

}  // namespace slipway::passes
