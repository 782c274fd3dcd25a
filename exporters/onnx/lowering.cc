// The lowering registry and the context its functions see.
#include "exporters/onnx/lowering.h"

#include <utility>

#include "base/text.h"
#include "base/utf8.h"
#include "exporters/onnx/types.h"
#include "ir/ops/op_table.h"
#include "ir/ops/rule.h"
#include "onnx_model/onnx_graph.h"

namespace slipway::exporters::onnx_out {
namespace {

const text::ViewMap<std::vector<const Row*>>& Registry() {
  static const auto& rows = *[] {
    auto* m = new text::ViewMap<std::vector<const Row*>>();
    for (const Row* r : AllRows()) (*m)[r->op].push_back(r);
    return m;
  }();
  return rows;
}

// One argument of a custom node, as custom_op.h says.
struct CustomArgument {
  LoweringContext& c;
  std::vector<V>& in;
  Attrs& attrs;
  const std::string& name;
  void operator()(const ir::None&) { in.push_back({}); }
  void operator()(ir::Value* v) { in.push_back(c.raw(v)); }
  void operator()(const ir::Values& vs) {
    for (ir::Value* v : vs) in.push_back(v ? c.raw(v) : V{});
  }
  void operator()(const ir::SymInts& x) { in.push_back(c.shape(x)); }
  void operator()(int64_t x) { attrs.emplace_back(name, x); }
  void operator()(double x) { attrs.emplace_back(name, x); }
  void operator()(bool x) { attrs.emplace_back(name, int64_t{x}); }
  void operator()(const std::string& x) { attrs.emplace_back(name, x); }
  void operator()(const Ints& x) { attrs.emplace_back(name, x); }
  void operator()(const std::vector<double>& x) { attrs.emplace_back(name, x); }
  void operator()(const std::vector<bool>& x) { attrs.emplace_back(name, Ints(x.begin(), x.end())); }
  void operator()(const std::vector<std::string>& x) { attrs.emplace_back(name, x); }
  void operator()(DType x) { attrs.emplace_back(name, int64_t{OnnxType(x)}); }
  template <typename T>
  void operator()(const T&) {
    c.Unsupported(text::StrCat("argument ", name, " has no form as an ONNX attribute"));
  }
};

void LowerOnnxNode(LoweringContext& c) {
  std::vector<V> in;
  Attrs attrs;
  for (const ir::NamedArg& a : c.node().args()) std::visit(CustomArgument{c, in, attrs, a.name}, a.arg.v);
  std::vector<DType> outs;
  for (const ir::Value* v : c.node().outputs()) outs.push_back(v ? ElementType(v->type()) : DType::kUnknown);
  if (!c.ok()) return;
  const auto [domain, type, overload] = onnx_model::OperatorOf(c.node().op_name());
  std::vector<V> results = c.e.Control(type, in, std::move(attrs), outs);
  if (!domain.empty() && domain != "ai.onnx") {
    onnx::NodeProto& written = *c.e.graph()->mutable_node(c.e.graph()->node_size() - 1);
    written.set_domain(domain);
    c.e.shared()->custom_domains.insert(domain);
  }
  c.Return(std::move(results));
}

void LowerCustom(LoweringContext& c, const CustomOp& custom) {
  std::vector<V> in;
  Attrs attrs;
  size_t index = 0;
  for (const ir::NamedArg& a : c.node().args()) {
    const std::string name = a.name.empty() ? text::StrCat("arg", index) : a.name;
    ++index;
    std::visit(CustomArgument{c, in, attrs, name}, a.arg.v);
  }
  std::vector<const ir::Type*> outs;
  for (ir::Value* v : c.node().outputs()) {
    if (!v) return c.Unsupported("a custom operator with a result of None");
    outs.push_back(&v->type());
  }
  if (c.ok()) c.Return(c.e.Custom(custom.domain, custom.op_type, in, std::move(attrs), outs));
}

// Python's repr of a list of strings.
std::string ListText(const std::vector<std::string>& parts) {
  std::string out = "[";
  for (const std::string& part : parts) {
    text::StrAppend(&out, out.size() > 1 ? ", '" : "'");
    for (char ch : part) {
      if (ch == '\\' || ch == '\'') out += '\\';
      out += ch;
    }
    out += '\'';
  }
  return out + "]";
}

// The keys are torch.onnx's. In files of IR versions before 10 (opsets below 21) nodes have no such field yet: readers
// of these pass over it.
std::vector<std::pair<std::string, std::string>> MetadataOf(const ir::Node& n, NodeMetadata wanted) {
  constexpr size_t kLongest = 4096;  // bytes of what the program says; a stack is a few hundred
  const ir::Source* source = n.source().get();
  if (wanted == NodeMetadata::kNone || !source || source->nn_module_stack.size() > kLongest ||
      !text::IsUtf8(source->nn_module_stack))
    return {};
  std::vector<std::string> scopes, classes, places;
  const auto add = [&](std::string_view scope, std::string_view kind) {
    scopes.emplace_back(scope), classes.emplace_back(kind), places.push_back(text::StrCat(scope, ": ", kind));
  };
  for (std::string_view entry : text::Split(source->nn_module_stack, ';')) {
    const std::vector<std::string_view> parts = text::Split(entry, ',');  // key, path, class
    if (parts.size() >= 3) add(parts[1], parts[2]);
  }
  add(n.output(0) ? n.output(0)->name() : "", n.op_name());
  std::vector<std::pair<std::string, std::string>> out = {{"namespace", text::Join(places, "/")}};
  if (wanted == NodeMetadata::kModules) return out;
  out.emplace_back("pkg.torch.onnx.class_hierarchy", ListText(classes));
  out.emplace_back("pkg.torch.onnx.name_scopes", ListText(scopes));
  if (source->stack_trace.size() <= kLongest && text::IsUtf8(source->stack_trace))
    out.emplace_back("pkg.torch.onnx.stack_trace", source->stack_trace);
  return out;
}

}  // namespace

const CustomOp* FindCustomOp(const CustomOps& ops, const ir::OpDef& op) {
  if (ops.empty()) return nullptr;
  for (const std::string& name : {op.name, text::StrCat(op.ns, ".", op.base)})
    if (auto it = ops.find(name); it != ops.end()) return &it->second;
  return nullptr;
}

bool IsOnnxNode(const ir::Node& n) { return !onnx_model::OperatorOf(n.op_name()).type.empty(); }

const Row* FindRow(std::string_view op, int opset, const ir::Node* n, OnnxForm form) {
  auto it = Registry().find(op);
  if (it == Registry().end()) return nullptr;
  for (const Row* r : it->second)
    if (opset >= r->min_opset && opset <= r->max_opset && (r->forms & static_cast<unsigned>(form)) != 0 &&
        (!n || !r->legal_if || r->legal_if(*n)))
      return r;
  return nullptr;
}

const Row* FindJoin(const ir::Node& n, int opset) {
  for (const Row& r : JoinRows())
    if (r.op == n.op_name() && opset >= r.min_opset && opset <= r.max_opset && r.legal_if(n)) return &r;
  return nullptr;
}

std::vector<const Row*> AllRows() {
  std::vector<const Row*> out;
  for (auto table : {ElementwiseRows(), ArithmeticRows(), LogicRows(),    ActivationRows(), ViewRows(),
                     ReductionRows(),   SortRows(),       NnRows(),       AttentionRows(),  PoolRows(),
                     ResampleRows(),    RecurrentRows(),  IndexingRows(), ScatterRows(),    CreationRows(),
                     LinalgRows(),      SymbolicRows(),   ControlRows(),  QuantRows(),      QuantEmbeddingRows(),
                     DetectionRows()})
    for (const Row& r : table) out.push_back(&r);
  return out;
}

V LoweringContext::raw(ir::Value* v) {
  V x = graph_.Get(v);
  return x;
}
V LoweringContext::widened(V x) const {
  return x && widen_ && ir::IsLowPrecision(x.dtype) ? e.Cast(std::move(x), DType::kFloat32) : x;
}
V LoweringContext::value(ir::Value* v) { return widened(raw(v)); }
V LoweringContext::turned(ir::Value* v, const Ints& perm) {
  return widened(graph_.turned ? graph_.turned(v, perm) : V{});
}
V LoweringContext::transposed(ir::Value* v, const Ints& perm) {
  V x = turned(v, perm);
  return x ? x : e.Transpose(value(v), perm);
}
V LoweringContext::in(std::string_view name) {
  ir::Value* v = tensor(name);
  return ok() ? value(v) : V{"?", DType::kFloat32, 0};
}
V LoweringContext::opt_in(std::string_view name) {
  ir::Value* v = opt_tensor(name);
  return v && ok() ? value(v) : V{};
}
std::vector<V> LoweringContext::ins(std::string_view name) {
  std::vector<V> out;
  for (ir::Value* v : tensors(name)) out.push_back(v ? value(v) : V{});
  return out;
}
DType LoweringContext::compute_dtype(size_t i) {
  DType t = out_dtype(i);
  return widen_ && ir::IsLowPrecision(t) ? DType::kFloat32 : t;
}
bool LoweringContext::used(size_t i) {
  ir::Value* v = node_.output(i);
  return v && (!v->users().empty() || v->graph()->IsOutput(v));
}

V LoweringContext::number(const ir::Scalar& s, DType dtype) {
  switch (s.kind) {
    case ir::Scalar::kInt:
    case ir::Scalar::kBool: return ir::IsFloating(dtype) ? e.Number(s.d, dtype) : e.Integer(s.i, dtype);
    case ir::Scalar::kFloat: return e.Number(s.d, dtype);
    case ir::Scalar::kValue: return e.Cast(value(s.value), dtype);
    case ir::Scalar::kComplex: Unsupported("complex scalar"); return e.Number(0, dtype);
  }
  return e.Number(0, dtype);
}

// The tensor whose sizes these are, all of them; null where there is none.
static ir::Value* WholeShape(const ir::SymInts& ints) {
  ir::Value* whole = nullptr;
  for (size_t d = 0; d < ints.size(); ++d) {
    if (!ints[d].value) continue;
    const ir::Node* n = ints[d].value->producer();
    if (!n || n->op_name() != "aten.sym_size.int") return nullptr;
    ir::ArgReader args(*n);
    ir::Value* of = args.tensor("self");
    if ((whole && whole != of) || static_cast<size_t>(of->rank()) != ints.size() ||
        args.dim("dim", of->rank()) != static_cast<int>(d))
      return nullptr;
    whole = of;
  }
  for (size_t d = 0; whole && d < ints.size(); ++d)
    if (!ints[d].value && whole->sizes()[d].constant() != ints[d].constant) return nullptr;
  return whole;
}

// The list of integers whose elements these are, all of them in order; null where there is none.
static ir::Value* WholeList(const ir::SymInts& ints) {
  ir::Value* whole = nullptr;
  for (size_t i = 0; i < ints.size(); ++i) {
    const ir::Node* item = ints[i].value ? ints[i].value->producer() : nullptr;
    if (!item || item->op_name() != "aten.item.default") return nullptr;
    ir::Value* element = ir::ArgReader(*item).tensor("self");
    const ir::Node* select = element->producer();
    if (!select || select->op_name() != "aten.select.int") return nullptr;
    ir::ArgReader args(*select);
    ir::Value* list = args.tensor("self");
    const ir::IntOrValue at = args.sym("index");
    if ((whole && whole != list) || list->rank() != 1 || !(list->sizes()[0] == ir::Sym(int64_t(ints.size()))) ||
        !(at == ir::IntOrValue(static_cast<int64_t>(i))))
      return nullptr;
    whole = list;
  }
  return whole;
}

V LoweringContext::dim0(ir::IntOrValue i) {
  return i.value ? e.Cast(raw(i.value), DType::kInt64) : e.I64Scalar(i.constant);
}
V LoweringContext::dim1(ir::IntOrValue i) {
  if (!i.value) return e.I64({i.constant});
  if (ir::Value* v = WholeList({i})) return e.Cast(raw(v), DType::kInt64);
  V x = dim0(i);
  auto [it, fresh] = graph_.dim1_.try_emplace(x.name);
  if (fresh) {
    V y = e.Reshape(x, {1});
    graph_.dim1_[x.name] = y;
    return y;
  }
  return it->second;
}
V LoweringContext::shape(const ir::SymInts& ints) {
  if (ir::Value* v = WholeShape(ints)) return e.Shape(raw(v));
  if (ir::Value* v = WholeList(ints)) return e.Cast(raw(v), DType::kInt64);
  std::vector<V> parts;
  Ints run;
  auto flush = [&] {
    if (!run.empty()) parts.push_back(e.I64(run));
    run.clear();
  };
  for (const ir::IntOrValue& i : ints) {
    if (!i.value) {
      run.push_back(i.constant);
    } else {
      flush();
      parts.push_back(dim1(i));
    }
  }
  flush();
  if (parts.empty()) return e.I64({});
  return e.Concat(std::move(parts), 0);
}
V LoweringContext::shape_of(ir::Value* v) {
  if (auto s = v->type().StaticSizes()) return e.I64(*s);
  return e.Shape(raw(v));
}

V GraphLowering::Get(const ir::Value* v) {
  for (GraphLowering* g = this; g; g = g->outer_) {
    auto it = g->values_.find(v);
    if (it != g->values_.end()) return it->second;
    if (g->resolve) {
      V x = g->resolve(v, std::nullopt);
      if (!x) continue;
      e_.HasSizes(x, v->type());
      return g->values_[v] = x;
    }
  }
  e_.SetStatus(absl::InternalError(text::StrCat("value %", v->name(), " has no ONNX counterpart")));
  return {"?", v->dtype(), v->rank()};
}

V GraphLowering::StoredWeight(const ir::Value* v, const StoredForm& form) {
  for (GraphLowering* g = this; g; g = g->outer_)
    if (V x = g->resolve ? g->resolve(v, form) : V{}) return x;
  return Get(v);
}

V GraphLowering::Stacked(std::vector<ir::TensorRef> parts, const Ints& dims, std::string_view name) {
  GraphLowering* g = this;
  while (!g->stacked && g->outer_) g = g->outer_;
  return g->stacked ? g->stacked(std::move(parts), dims, name) : V{};
}

const ir::TensorRef* GraphLowering::NumbersOf(const ir::Value* v) const {
  for (const GraphLowering* g = this; g; g = g->outer_)
    if (const ir::TensorRef* t = g->numbers ? g->numbers(v) : nullptr) return t;
  return nullptr;
}

void GraphLowering::Run(const ir::Graph& g, std::vector<Problem>* problems) {
  for (const ir::Node* n : g) Lower(*n, problems);
}

void GraphLowering::Lower(const ir::Node& n, std::vector<Problem>* problems) {
  problems_ = problems;
  const CustomOp* custom = custom_ops ? FindCustomOp(*custom_ops, n.op()) : nullptr;
  const Row* row = e_.shared()->from_onnx ? FindJoin(n, e_.opset()) : nullptr;
  if (!row) row = FindRow(n.op_name(), e_.opset(), &n, e_.form());
  std::string base = n.output(0) ? n.output(0)->name() : std::string(n.op().base);
  e_.SetScope(module_names && n.source() ? n.source()->ModulePath() : "", base);
  e_.SetMetadata(module_names ? MetadataOf(n, e_.shared()->metadata) : decltype(MetadataOf(n, NodeMetadata::kNone)){});
  absl::Status status;
  std::vector<V> results;
  const size_t around = std::exchange(e_.shared()->rule, e_.shared()->rule_results.size());
  const size_t rule = e_.shared()->rule;
  e_.shared()->rule_results.emplace_back();
  const bool whole = IsOnnxNode(n);
  if (!row && !custom && !whole) {
    status = absl::UnimplementedError(text::StrCat(n.op_name(), ": no ONNX lowering"));
    if (refusals)
      if (auto it = refusals->find(&n); it != refusals->end()) status = it->second;
  } else {
    // The pure graph has products of halves; a bias is then added with a rounding of its own.
    const bool product = e_.shared()->strict_types && n.op().traits.autocast == ir::AutocastClass::kLower;
    const bool kept = row && row->widen.kind == Widening::kUnlessKept && e_.shared()->keep_halves;
    LoweringContext c(n, e_, *this, !custom && row && row->widen.kind != Widening::kNever && !product && !kept);
    status = ir::RunRule(n, [&] { custom ? LowerCustom(c, *custom) : whole ? LowerOnnxNode(c) : row->fn(c); });
    results = std::move(c.results());
    if (status.ok()) status = c.status();
    if (status.ok()) status = e_.shared()->status;
    if (status.ok() && results.size() < n.outputs().size())
      status = absl::InternalError(
          text::StrCat(n.op_name(), ": lowering gave ", results.size(), " results of ", n.outputs().size()));
  }
  e_.shared()->status = absl::OkStatus();
  if (!status.ok()) problems->push_back({&n, status});
  for (size_t i = 0; i < n.outputs().size(); ++i) {
    ir::Value* v = n.output(i);
    if (!v) continue;
    V x = i < results.size() ? results[i] : V{};
    const DType want = ElementType(v->type());
    if (!x) x = {"?", want, v->rank()};
    if (status.ok() && x.name != "?" && x.dtype != want) x = e_.Cast(x, want);
    x.rank = v->type().is_tensor() ? v->rank() : 0;
    if (status.ok()) e_.State(x, v->type()), e_.HasSizes(x, v->type());
    values_[v] = x;
    e_.shared()->rule_results[rule].push_back(x.name);
  }
  e_.shared()->rule = around;
}

}  // namespace slipway::exporters::onnx_out
