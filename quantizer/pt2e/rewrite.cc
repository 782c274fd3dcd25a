// One node quantizes a value, behind the node that makes it. Each annotated reader has a dequantize node of its own, as
// torchao's DuplicateDQPass gives it one, so that what fuses them later need not care for the others.
#include "quantizer/pt2e/rewrite.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/text.h"
#include "ir/builder.h"
#include "ir/ops/op_traits.h"
#include "quantizer/pt2e/fold_norms.h"

namespace slipway::quantizer::pt2e {
namespace {

using ir::Builder;
using ir::DType;
using ir::Node;
using ir::Value;

// Places in the order in which a run makes values: inputs first.
class Places {
 public:
  explicit Places(const ir::Graph& g) : inputs_(g.inputs().size()) {
    for (Node* n : g) nodes_.emplace(n, nodes_.size());
  }
  std::pair<size_t, int> operator()(const Value* v) const {
    if (!v->producer()) return {static_cast<size_t>(v->index()), 0};
    return {inputs_ + nodes_.at(v->producer()), v->index()};
  }

 private:
  size_t inputs_;
  absl::flat_hash_map<const Node*, size_t> nodes_;
};

template <typename T>
std::string BytesOf(const std::vector<T>& x) {
  return {reinterpret_cast<const char*>(x.data()), x.size() * sizeof(T)};
}

class Rewriter {
 public:
  Rewriter(ir::Program& p, const Annotations& a, const Recipe& r) : p_(p), g_(*p.graph), a_(a), recipe_(r) {
    for (const Annotations::Edge& e : a.edges) annotated_.insert(e.user);
    for (const Value* v : a.results) annotated_.insert(v->producer());
  }

  absl::Status Run(const QuantizedValues& values) {
    absl::flat_hash_set<Value*> done;
    const auto once = [&](Value* v, const Quantized& q) {
      return done.insert(v).second ? QuantizeActivation(v, q) : absl::OkStatus();
    };
    for (Value* v : a_.results)
      if (absl::Status s = once(v, values.activations.at(v)); !s.ok()) return s;
    for (const Annotations::Edge& e : a_.edges)
      if (!e.weight)
        if (absl::Status s = once(e.value, values.activations.at(e.value)); !s.ok()) return s;
    for (Value* v : WeightsOf(g_, a_))
      if (absl::Status s = QuantizeWeight(v, values.weights.at(v)); !s.ok()) return s;
    return absl::OkStatus();
  }

 private:
  // Readers of a value that get it dequantized: the annotated ones, or all.
  struct Readers {
    std::vector<Node*> annotated, others;  // each once
    bool output = false;
  };

  bool Reads(const Node* user, const Value* v, bool weight) const {
    return std::any_of(a_.edges.begin(), a_.edges.end(), [&](const Annotations::Edge& e) {
      return e.user == user && e.value == v && e.weight == weight;
    });
  }

  // In the order of the graph, so that new values get their names in it.
  std::vector<Node*> UsersOf(const Value* v) const {
    absl::flat_hash_set<const Node*> users(v->users().begin(), v->users().end());
    std::vector<Node*> out;
    if (users.empty()) return out;
    for (Node* n : g_)
      if (users.contains(n)) out.push_back(n);
    return out;
  }

  Readers ReadersOf(const Value* v, bool all) const {
    Readers readers;
    readers.output = all && g_.IsOutput(v);
    for (Node* n : UsersOf(v)) {
      if (all ? annotated_.contains(n) : Reads(n, v, false))
        readers.annotated.push_back(n);
      else if (all)
        readers.others.push_back(n);
    }
    return readers;
  }

  Node* Behind(const Value* v) const { return v->producer() ? v->producer()->next() : g_.first(); }

  absl::Status QuantizeDynamically(Value* v, const Readers& readers) {
    const Integers integers = recipe_.activations();
    Builder b(g_, Behind(v), v->producer() ? v->producer()->source() : nullptr);
    const ir::Values made =
        b.CallMulti("quantized_decomposed.choose_qparams.tensor",
                    {v, integers.low, integers.high, static_cast<double>(kLeastScale), integers.dtype});
    if (!b.ok()) return b.status();
    Value* codes = b.Call("quantized_decomposed.quantize_per_tensor.tensor",
                          {v, made[0], made[1], integers.low, integers.high, integers.dtype});
    Value* x = b.Call("quantized_decomposed.dequantize_per_tensor.tensor",
                      {codes, made[0], made[1], integers.low, integers.high, integers.dtype});
    if (!b.ok()) return b.status();
    // Unlike static ones they all read one node, as torchao's do.
    return Replace(v, codes, readers, [x](Node*, const auto&) -> absl::StatusOr<Value*> { return x; });
  }

  absl::Status QuantizeActivation(Value* v, const Quantized& q) {
    const bool all = std::find(a_.results.begin(), a_.results.end(), v) != a_.results.end();
    const Readers readers = ReadersOf(v, all);
    if (recipe_.dynamic) return QuantizeDynamically(v, readers);
    const Integers integers = recipe_.activations();
    const auto scale = static_cast<double>(q.scales[0]);
    Value* codes;
    if (q.codes) {
      codes = Stored(v, "qdata", *q.codes);
    } else {
      Builder b(g_, Behind(v), v->producer() ? v->producer()->source() : nullptr);
      codes = b.Call("quantized_decomposed.quantize_per_tensor.default",
                     {v, scale, q.zero_point, integers.low, integers.high, integers.dtype});
      if (!b.ok()) return b.status();
    }
    const auto dequantize = [&](Node* before, std::shared_ptr<const ir::Source> source) -> absl::StatusOr<Value*> {
      Builder b(g_, before, std::move(source));
      Value* out = b.Call("quantized_decomposed.dequantize_per_tensor.default",
                          {codes, scale, q.zero_point, integers.low, integers.high, integers.dtype});
      if (!b.ok()) return b.status();
      return out;
    };
    return Replace(v, codes, readers, dequantize);
  }

  absl::Status Replace(
      Value* v, Value* codes, const Readers& readers,
      const std::function<absl::StatusOr<Value*>(Node*, std::shared_ptr<const ir::Source>)>& dequantize) {
    for (Node* n : readers.annotated) {
      auto x = dequantize(n, n->source());
      if (!x.ok()) return x.status();
      n->ReplaceUses(v, *x);
    }
    if (readers.others.empty() && !readers.output) return absl::OkStatus();
    Node* before = codes->producer() ? codes->producer()->next() : Behind(v);
    auto x = dequantize(before, v->producer() ? v->producer()->source() : nullptr);
    if (!x.ok()) return x.status();
    for (Node* n : readers.others) n->ReplaceUses(v, *x);
    for (ir::Arg& out : g_.outputs)
      if (readers.output) out.ReplaceValues([&](Value* y) { return y == v ? *x : y; });
    return absl::OkStatus();
  }

  absl::Status QuantizeWeight(Value* v, const Quantized& q) {
    const Integers integers = recipe_.weights();
    const bool by_channel = recipe_.per_channel;
    const auto n = static_cast<int64_t>(q.scales.size());
    const auto scale = static_cast<double>(q.scales[0]);
    Value *scales = nullptr, *zeros = nullptr;
    if (by_channel) {
      scales = Stored(v, "scale", ir::OwnedTensor(DType::kFloat32, {n}, BytesOf(q.scales)));
      zeros =
          Stored(v, "zero_point", ir::OwnedTensor(DType::kInt64, {n}, BytesOf(std::vector<int64_t>(q.scales.size()))));
    }
    // Of a quantized result, its readers read what was dequantized.
    std::vector<std::pair<Node*, Value*>> uses;
    for (const Annotations::Edge& e : a_.edges)
      if (e.weight && e.value == v) uses.emplace_back(e.user, CurrentWeight(*e.user));
    std::map<Value*, Value*> codes_of;
    for (const auto& [user, current] : uses) {
      Value*& codes = codes_of[current];
      if (!codes && q.codes) codes = Stored(v, "qdata", *q.codes);
      if (!codes) {
        Builder b(g_, Behind(current), user->source());
        codes = by_channel ? b.Call("quantized_decomposed.quantize_per_channel.default",
                                    {current, scales, zeros, 0, integers.low, integers.high, integers.dtype})
                           : b.Call("quantized_decomposed.quantize_per_tensor.default",
                                    {current, scale, 0, integers.low, integers.high, integers.dtype});
        if (!b.ok()) return b.status();
      }
      Builder b(g_, user, user->source());
      Value* x = by_channel ? b.Call("quantized_decomposed.dequantize_per_channel.default",
                                     {codes, scales, zeros, 0, integers.low, integers.high, integers.dtype})
                            : b.Call("quantized_decomposed.dequantize_per_tensor.default",
                                     {codes, scale, 0, integers.low, integers.high, integers.dtype});
      if (!b.ok()) return b.status();
      user->SetArg("weight", x);
    }
    return absl::OkStatus();
  }
  static Value* CurrentWeight(const Node& user) { return user.Get("weight").value(); }

  // A buffer named after what it was made of.
  Value* Stored(const Value* of, std::string_view what, const ir::TensorRef& t) {
    const std::string fqn = of->producer() ? of->name() : WeightName(p_, of);
    return ir::AddWeight(p_, ir::InputSpec::kBuffer, text::StrCat(fqn, "_", what), t,
                         text::StrCat(of->name(), "_", what));
  }

  ir::Program& p_;
  ir::Graph& g_;
  const Annotations& a_;
  const Recipe& recipe_;
  absl::flat_hash_set<const Node*> annotated_;
};

}  // namespace

std::vector<ActivationGroup> GroupActivations(const ir::Graph& g, const Annotations& a) {
  absl::flat_hash_map<Value*, Value*> parent;
  const auto root = [&](Value* v) {
    while (parent.at(v) != v) v = parent[v] = parent.at(parent.at(v));
    return v;
  };
  for (const Annotations::Edge& e : a.edges)
    if (!e.weight) parent.emplace(e.value, e.value);
  for (Value* v : a.results) parent.emplace(v, v);
  for (const auto& [x, y] : a.sharing) parent[root(y)] = root(x);

  const Places place(g);
  std::vector<Value*> values;
  for (const auto& [v, of] : parent) values.push_back(v);
  std::sort(values.begin(), values.end(), [&](Value* x, Value* y) { return place(x) < place(y); });
  std::vector<ActivationGroup> groups;
  absl::flat_hash_map<Value*, size_t> known;
  for (Value* v : values) {
    const auto [it, fresh] = known.try_emplace(root(v), groups.size());
    if (fresh) groups.emplace_back();
    groups[it->second].values.push_back(v);
  }
  return groups;
}

std::vector<Value*> WeightsOf(const ir::Graph& g, const Annotations& a) {
  const Places place(g);
  std::vector<Value*> values;
  for (const Annotations::Edge& e : a.edges)
    if (e.weight) values.push_back(e.value);
  std::sort(values.begin(), values.end(), [&](Value* x, Value* y) { return place(x) < place(y); });
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

ConstantValues::ConstantValues(const ir::Program& p) {
  for (const Value* v : p.graph->inputs())
    if (IsStoredWeight(p, v)) values_.insert(v);
  for (const Node* n : *p.graph) {
    bool constant = false, variable = ir::IsRandom(*n);
    for (const ir::NamedArg& a : n->args()) {
      variable = variable || a.arg.is<ir::SubGraph>();
      a.arg.ForEachValue([&](Value* v) { (values_.contains(v) ? constant : variable) = true; });
    }
    if (!constant || variable) continue;
    for (const Value* v : n->outputs())
      if (v) values_.insert(v);
  }
}

absl::Status Rewrite(ir::Program& p, const Annotations& a, const Recipe& r, const QuantizedValues& values) {
  return Rewriter(p, a, r).Run(values);
}

}  // namespace slipway::quantizer::pt2e
