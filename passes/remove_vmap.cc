// Resolves vmap. Between _vmap_increment_nesting and _vmap_decrement_nesting an exported graph (associative_scan, or a
// user's torch.vmap) works on one element of a batch: _add_batch_dim takes the batch dimension away from the types,
// _remove_batch_dim puts it back. A region whose batched operators are all elementwise runs on whole batches, with the
// batch in front; any other region becomes higher_order.map_impl over the batch, which is what vmap means.
#include <algorithm>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "ir/builder.h"
#include "ir/clone.h"
#include "ir/ops/args.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_table.h"
#include "passes/pass.h"

namespace slipway::passes {
namespace {

using ir::Arg;
using ir::Graph;
using ir::NamedArg;
using ir::Node;
using ir::SubGraph;
using ir::Type;
using ir::Value;
using ir::Values;

constexpr std::string_view kLoad = "torch._functorch.predispatch.lazy_load_decompositions";
constexpr std::string_view kEnter = "torch._functorch.predispatch._vmap_increment_nesting";
constexpr std::string_view kLeave = "torch._functorch.predispatch._vmap_decrement_nesting";
constexpr std::string_view kAdd = "torch._functorch.predispatch._add_batch_dim";
constexpr std::string_view kRemove = "torch._functorch.predispatch._remove_batch_dim";

bool IsElementwise(const Node& n) {
  return n.op().traits.elementwise && !n.op().mutates() && n.outputs().size() == 1 && n.output();
}

// x with dimension `from` moved to `to`; x itself when they are the same.
Value* MoveDim(ir::Builder& b, Value* x, int from, int to) {
  if (from == to) return x;
  ir::Sizes sizes = x->sizes();
  ir::Sym size = sizes[from];
  sizes.erase(sizes.begin() + from);
  sizes.insert(sizes.begin() + to, size);
  return b.CallTyped("aten.movedim.int", {x, from, to}, {}, {Type::Tensor(x->dtype(), std::move(sizes))})[0];
}

class Region {
 public:
  Region(Graph& g, Node* enter) : g_(g), enter_(enter) {}

  // Rewrites the region; its marks are erased. Gives the node to continue with.
  absl::StatusOr<Node*> Resolve() {
    if (absl::Status s = Collect(); !s.ok()) return s;
    if (adds_.empty()) return Unbatched();
    Node* next = leave_->next();
    ir::Builder b(g_, leave_, enter_->source());
    bool elementwise = !nested_;
    for (Node* n : nodes_)
      if (batched_nodes_.contains(n) && n->op_name() != kAdd) elementwise &= IsElementwise(*n);
    absl::Status s = elementwise ? OnBatches() : AsMap(b);
    if (!s.ok()) return s;
    if (!b.ok()) return b.status();
    if (!elementwise && map_) {
      // The body may hold further regions.
      next = map_;
    }
    g_.Erase(enter_);
    g_.Erase(leave_);
    return next;
  }

 private:
  Graph& g_;
  Node *enter_, *leave_ = nullptr, *map_ = nullptr;
  bool nested_ = false;
  int64_t level_ = -1;
  std::vector<Node*> nodes_;  // between the marks, nested regions included, this region's removals excluded
  std::vector<Node*> adds_, removes_;
  absl::flat_hash_set<const Value*> batched_;
  absl::flat_hash_set<const Node*> batched_nodes_;

  static absl::Status Bad(const Node& n, std::string_view why) {
    return absl::InvalidArgumentError(text::StrCat(n.op_name(), ": ", why));
  }

  // The dimension argument, wrapped; -1 with an error when it is none.
  static absl::StatusOr<int> DimOf(const Node& n, std::string_view name, int rank) {
    ir::ArgReader a(n);
    int64_t d = a.i(name);
    if (!a.ok()) return a.status();
    if (d < -rank || d >= rank) return Bad(n, "the batch dimension is outside the tensor");
    return static_cast<int>(d < 0 ? d + rank : d);
  }

  // What the region sees of a batch is declared as one element of it.
  static absl::Status CheckElement(const Node& n, const Value& batch) {
    ASSIGN_OR_RETURN(const int dim, DimOf(n, "batch_dim", batch.rank()));
    ir::Sizes sizes = batch.sizes();
    sizes.erase(sizes.begin() + dim);
    const Type& declared = n.output()->type();
    bool same = declared.dtype == batch.dtype() && declared.sizes.size() == sizes.size();
    for (size_t d = 0; same && d < sizes.size(); ++d) same = !ir::ProvablyDifferent(declared.sizes[d], sizes[d]);
    if (same) return absl::OkStatus();
    return Bad(n, text::StrCat("the result is declared as ", declared.ToString(), ", an element of the batch is ",
                               Type::Tensor(batch.dtype(), std::move(sizes)).ToString()));
  }

  absl::Status Collect() {
    int depth = 0;
    for (Node* n = enter_->next();; n = n->next()) {
      if (!n) return Bad(*enter_, "the region is not closed");
      if (n->op_name() == kLeave && depth-- == 0) {
        leave_ = n;
        break;
      }
      bool inner = depth > 0 || n->op_name() == kEnter || n->op_name() == kLeave;
      if (n->op_name() == kEnter) ++depth, nested_ = true;
      bool mark = n->op_name() == kAdd || n->op_name() == kRemove;
      if (mark && !inner) {
        ir::ArgReader a(*n);
        int64_t level = a.i("level");
        Value* x = a.tensor("self");
        if (!a.ok()) return a.status();
        if (!n->output() || !n->output()->type().is_tensor()) return Bad(*n, "no result");
        if (level_ < 0) level_ = level;
        if (level != level_) return absl::UnimplementedError(text::StrCat(n->op_name(), ": of an outer vmap level"));
        if (n->op_name() == kRemove) {
          removes_.push_back(n);
          continue;
        }
        if (x->rank() == 0) return Bad(*n, "a tensor without dimensions has no batch");
        if (absl::Status s = CheckElement(*n, *x); !s.ok()) return s;
        adds_.push_back(n);
        batched_.insert(n->output());
        batched_nodes_.insert(n);
        nodes_.push_back(n);
        continue;
      }
      nodes_.push_back(n);
      // Of regions in this one the marks, and what depends on them; what else is in there is computed in front.
      bool depends = inner && (mark || n->op_name() == kEnter || n->op_name() == kLeave || n->op_name() == kLoad);
      for (const NamedArg& a : n->args()) a.arg.ForEachValue([&](Value* v) { depends |= batched_.contains(v); });
      if (!depends) continue;
      batched_nodes_.insert(n);
      for (Value* v : n->outputs())
        if (v) batched_.insert(v);
    }
    if (adds_.empty()) return absl::OkStatus();
    // What depends on the batch leaves the region through removals only.
    absl::flat_hash_set<const Node*> inside(nodes_.begin(), nodes_.end());
    inside.insert(removes_.begin(), removes_.end());
    for (const Node* n : nodes_) {
      if (!batched_nodes_.contains(n)) continue;
      for (const Value* v : n->outputs()) {
        if (!v) continue;
        if (g_.IsOutput(v)) return Bad(*n, "a batched value leaves its vmap region");
        for (const Node* user : v->users())
          if (!inside.contains(user)) return Bad(*n, "a batched value leaves its vmap region");
      }
    }
    return absl::OkStatus();
  }

  // Replaces a removal by `whole` (batch in front), or by a copy per element when the value is not batched.
  absl::Status Finish(Node* n, Value* whole) {
    ir::Builder b(g_, n, n->source());
    Value* out = n->output();
    auto to = DimOf(*n, "out_dim", out->rank());
    if (!to.ok()) return to.status();
    Value* now;
    if (whole) {
      if (whole->rank() != out->rank()) return Bad(*n, "the declared rank is not that of the batch");
      now = MoveDim(b, whole, 0, *to);
    } else {
      ir::ArgReader a(*n);
      Value* x = a.tensor("self");
      ir::IntOrValue size = a.sym("batch_size");
      if (!a.ok()) return a.status();
      if (x->rank() + 1 != out->rank()) return Bad(*n, "the declared rank is not that of the batch");
      ir::Sizes one = x->sizes();
      one.insert(one.begin() + *to, 1);
      now = b.CallTyped("aten.unsqueeze.default", {x, *to}, {}, {Type::Tensor(x->dtype(), one)})[0];
      ir::SymInts sizes(out->rank(), -1);
      sizes[*to] = size;
      now = b.CallTyped("aten.expand.default", {now, Arg(sizes)}, {}, {Type::Tensor(x->dtype(), out->sizes())})[0];
    }
    if (!b.ok()) return b.status();
    g_.ReplaceAllUses(out, now);
    g_.Erase(n);
    return absl::OkStatus();
  }

  // Nothing is of a batch: the operators, regions among them, stay what they are, and each element gets a copy.
  absl::StatusOr<Node*> Unbatched() {
    for (Node* n : removes_)
      if (absl::Status s = Finish(n, nullptr); !s.ok()) return s;
    Node* next = enter_->next() == leave_ ? leave_->next() : enter_->next();
    g_.Erase(enter_);
    g_.Erase(leave_);
    return next;
  }

  // Elementwise operators take the batch in front; arguments of fewer dimensions get ones behind it.
  absl::Status OnBatches() {
    absl::flat_hash_map<const Value*, Value*> whole;
    for (Node* n : nodes_) {
      if (!batched_nodes_.contains(n)) continue;
      ir::Builder b(g_, n, n->source());
      if (n->op_name() == kAdd) {
        Value* x = n->Get("self").value();
        auto from = DimOf(*n, "batch_dim", x->rank());
        if (!from.ok()) return from.status();
        whole[n->output()] = MoveDim(b, x, *from, 0);
        if (!b.ok()) return b.status();
        continue;
      }
      Value* out = n->output();
      const int rank = out->rank();
      ir::Sym batch = 1;
      Values dimensioned;
      for (const NamedArg& a : n->args())
        a.arg.ForEachValue([&](Value* v) {
          if (v->type().is_tensor() && v->rank() > 0) dimensioned.push_back(v);
        });
      ir::DType common = ir::ResultTypeOf(dimensioned);
      for (size_t i = 0; i < n->args().size(); ++i) {
        Arg a = n->At(i);
        a.ReplaceValues([&](Value* v) -> Value* {
          auto it = whole.find(v);
          if (it == whole.end()) return v;
          Value* x = it->second;
          batch = x->sizes()[0];
          // A number of each element must not outrank tensors once it has a dimension.
          if (v->rank() == 0 && !dimensioned.empty() && ir::Info(v->dtype()).cls <= ir::Info(common).cls &&
              v->dtype() != common)
            x = b.CallTyped("aten._to_copy.default", {x}, {{"dtype", common}}, {Type::Tensor(common, x->sizes())})[0];
          for (int r = v->rank(); r < rank; ++r) {
            ir::Sizes sizes = x->sizes();
            sizes.insert(sizes.begin() + 1, 1);
            x = b.CallTyped("aten.unsqueeze.default", {x, 1}, {}, {Type::Tensor(x->dtype(), std::move(sizes))})[0];
          }
          return x;
        });
        n->SetArgAt(i, std::move(a));
      }
      if (!b.ok()) return b.status();
      out->mutable_type().sizes.insert(out->mutable_type().sizes.begin(), batch);
      out->mutable_type().strides_known = false;
      out->mutable_type().strides.clear();
      whole[out] = out;
    }
    for (Node* n : removes_) {
      auto it = whole.find(n->Get("self").value());
      if (absl::Status s = Finish(n, it == whole.end() ? nullptr : it->second); !s.ok()) return s;
    }
    for (Node* n : adds_) g_.Erase(n);
    return absl::OkStatus();
  }

  // The batched nodes become the body of a map over the batch.
  absl::Status AsMap(ir::Builder& b) {
    auto body = std::make_shared<Graph>(g_.program());
    ir::GraphCopier copier(g_.program());
    auto& inside = copier.values;
    Values xs, captured;
    for (Node* n : adds_) {
      Value* x = n->Get("self").value();
      auto from = DimOf(*n, "batch_dim", x->rank());
      if (!from.ok()) return from.status();
      xs.push_back(MoveDim(b, x, *from, 0));
      Type slice = n->output()->type();
      slice.strides_known = false;
      inside[n->output()] = body->AddInput(n->output()->name(), std::move(slice));
    }
    std::vector<Node*> moved;  // nested regions whole, their own additions among them
    absl::flat_hash_set<const Node*> own(adds_.begin(), adds_.end());
    for (Node* n : nodes_)
      if (batched_nodes_.contains(n) && !own.contains(n)) moved.push_back(n);
    const ir::Region region = ir::RegionOf(g_, moved);
    for (Value* v : region.inputs) {
      if (inside.contains(v)) continue;
      captured.push_back(v);
      inside[v] = body->AddInput(v->name(), v->type());
    }
    for (const Node* n : moved) copier.CopyNode(*n, *body);
    // One result of the map per removal of a batched value.
    const ir::Sym batch = xs[0]->sizes()[0];
    std::vector<Type> types;
    std::vector<int> which;
    for (Node* n : removes_) {
      Value* v = n->Get("self").value();
      if (!batched_.contains(v)) {
        which.push_back(-1);
        continue;
      }
      which.push_back(static_cast<int>(types.size()));
      body->outputs.emplace_back(inside[v]);
      ir::Sizes sizes = v->sizes();
      sizes.insert(sizes.begin(), batch);
      types.push_back(Type::Tensor(v->dtype(), std::move(sizes)));
    }
    Values results;
    if (!types.empty()) {
      results = b.CallTyped("higher_order.map_impl", {Arg(SubGraph(body)), Arg(xs), Arg(captured)}, {}, types);
      if (!b.ok()) return b.status();
      map_ = results[0]->producer();
    }
    // Removals may stand before the map; they move behind it.
    for (size_t i = 0; i < removes_.size(); ++i) {
      g_.MoveBefore(removes_[i], leave_);
      if (absl::Status s = Finish(removes_[i], which[i] < 0 ? nullptr : results[which[i]]); !s.ok()) return s;
    }
    for (auto it = moved.rbegin(); it != moved.rend(); ++it) g_.Erase(*it);
    for (Node* n : adds_) g_.Erase(n);
    return absl::OkStatus();
  }
};

// Whether there was anything to resolve.
absl::StatusOr<bool> Resolve(Graph& g) {
  bool any = false;
  for (Node* n = g.first(); n;) {
    for (const NamedArg& a : n->args())
      if (auto sub = a.arg.get<SubGraph>()) {
        auto inside = Resolve(**sub);
        if (!inside.ok()) return inside.status();
        any |= *inside;
      }
    Node* next = n->next();
    if (n->op_name() == kLoad) {
      g.Erase(n);
    } else if (n->op_name() == kEnter) {
      auto rest = Region(g, n).Resolve();
      if (!rest.ok()) return rest.status();
      next = *rest;
      any = true;
    } else if (n->op_name() == kLeave || n->op_name() == kAdd || n->op_name() == kRemove) {
      return absl::InvalidArgumentError(text::StrCat(n->op_name(), ": outside a vmap region"));
    }
    n = next;
  }
  return any;
}

}  // namespace

// Regions declare the types of elements, which could not be checked against the batches that they are of until now.
absl::Status RemoveVmap(ir::Program& p) {
  auto any = Resolve(*p.graph);
  if (!any.ok()) return any.status();
  return *any ? InferShapes(p) : absl::OkStatus();
}

}  // namespace slipway::passes
