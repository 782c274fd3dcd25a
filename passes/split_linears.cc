// A linear layer whose result is cut along its features becomes one layer for each part:
//
//   q, k, v = linear(x, w).view(b, n, 3, h, d).permute(2, 0, 3, 1, 4).unbind(0)  →  q = linear(x, w[:e]).view(b, n, h,
//                                                                                d).permute(0, 2, 1, 3), …
//
// Runtimes copy each part out of the whole, which here nobody makes; a product with a part of the weights is as fast as
// that part of the product. Each number is the same sum. The parts' weights are ranges of the layer's rows, under names
// of their own.
//
// Between the layer and the cut are views only: one that takes the features apart, and orders of dims. What something
// else reads stays.
#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "base/text.h"
#include "ir/builder.h"
#include "ir/ops/args.h"
#include "ir/ops/op_table.h"
#include "passes/decompose.h"
#include "passes/pass.h"

namespace slipway::passes {
namespace {

using ir::Ints;
using ir::Node;
using ir::Value;

constexpr size_t kMostParts = 8;

// A part of the layer: indices [begin, end) of the dim that is cut, of `features` rows each, and the value that it is
// now.
struct LinearPart {
  Value* value;
  int64_t begin, end;
};
struct Cut {
  const Node* apart = nullptr;  // takes the features apart; null where they are cut as they are
  std::vector<Ints> orders;     // of dims, each of what is before it
  int axis = 0;                 // the dim of the features that is cut, behind `apart` and before the orders
  int64_t features = 1;         // of each index of that dim
  bool drops = false;           // parts have no such dim
  std::vector<LinearPart> parts;
  std::vector<Node*> nodes;  // that go, first to last
};

bool IsView(const Node& n) {
  for (std::string_view op : {"aten.view.default", "aten.reshape.default", "aten._unsafe_view.default"})
    if (n.op_name() == op) return true;
  return false;
}

// The order in which a node puts dims; empty for other nodes.
Ints OrderOf(const Node& n, int rank) {
  ir::ArgReader c(n);
  Ints order(static_cast<size_t>(rank));
  for (int d = 0; d < rank; ++d) order[static_cast<size_t>(d)] = d;
  if (n.op_name() == "aten.permute.default") {
    const std::vector<int> dims = c.dims("dims", rank, false);
    if (!c.ok() || dims.size() != order.size()) return {};
    std::copy(dims.begin(), dims.end(), order.begin());
    return order;
  }
  if (n.op_name() != "aten.transpose.int") return {};
  const int a = c.dim("dim0", rank), b = c.dim("dim1", rank);
  if (!c.ok()) return {};
  std::swap(order[static_cast<size_t>(a)], order[static_cast<size_t>(b)]);
  return order;
}

// The parts that users of `v` cut dim `at` into; false where they do something else.
bool ReadParts(Value* v, int at, Cut* cut) {
  const auto extent = v->sizes()[at].constant();
  if (!extent || v->users().empty()) return false;
  Node* const first = v->users()[0];
  if (v->users().size() == 1 && first->op_name() != "aten.select.int") {
    static constexpr std::string_view kCuts[] = {"aten.split.Tensor", "aten.split_with_sizes.default",
                                                 "aten.split.sizes", "aten.chunk.default", "aten.unbind.int"};
    if (std::find(std::begin(kCuts), std::end(kCuts), first->op_name()) == std::end(kCuts) ||
        first->Get("self").value() != v)
      return false;
    ir::ArgReader c(*first);
    if (c.dim("dim", v->rank()) != at || !c.ok()) return false;
    cut->drops = first->op().base == "unbind";
    int64_t place = 0;
    for (Value* part : first->outputs()) {
      const auto size = !part ? std::nullopt : cut->drops ? std::optional<int64_t>(1) : part->sizes()[at].constant();
      if (!size || *size < 1) return false;
      cut->parts.push_back({part, place, place + *size});
      place += *size;
    }
    cut->nodes.push_back(first);
    return place == *extent;
  }
  cut->drops = true;
  for (Node* n : v->users()) {
    if (n->op_name() != "aten.select.int" || n->Get("self").value() != v) return false;
    ir::ArgReader c(*n);
    const ir::IntOrValue index = c.sym("index");
    if (c.dim("dim", v->rank()) != at || !c.ok() || index.value) return false;
    const int64_t place = index.constant < 0 ? index.constant + *extent : index.constant;
    if (place < 0 || place >= *extent) return false;
    cut->parts.push_back({n->output(), place, place + 1});
    cut->nodes.push_back(n);
  }
  // Users come in no particular order.
  std::sort(cut->parts.begin(), cut->parts.end(), [](const LinearPart& a, const LinearPart& b) {
    return std::tie(a.begin, a.value->name()) < std::tie(b.begin, b.value->name());
  });
  return true;
}

// How the result of a layer is cut; no parts where it is not.
Cut ReadCut(Value* v) {
  Cut cut;
  cut.axis = v->rank() - 1;
  int at = cut.axis;
  while (!v->graph()->IsOutput(v)) {
    Cut whole = cut;
    if (ReadParts(v, at, &whole)) return whole;
    if (v->users().size() != 1) break;
    Node* n = v->users()[0];
    if (n->Get("self").value() != v || !n->output()) break;
    Value* next = n->output();
    if (Ints order = OrderOf(*n, v->rank()); !order.empty()) {
      at = static_cast<int>(std::find(order.begin(), order.end(), at) - order.begin());
      cut.orders.push_back(std::move(order));
    } else if (IsView(*n) && !cut.apart && cut.orders.empty() && next->rank() > v->rank()) {
      int64_t all = 1;
      for (int d = at; d < next->rank(); ++d) {
        const auto size = next->sizes()[d].constant();
        if (!size || *size < 1 || *size > (int64_t{1} << 31) / all) return {};
        all *= *size;
        if (d > at) cut.features *= *size;
      }
      for (int d = 0; d < at; ++d)
        if (!ir::ProvablyEqual(v->sizes()[d], next->sizes()[d])) return {};
      if (!v->sizes()[at].is(all)) return {};
      cut.apart = n;
    } else {
      break;
    }
    cut.nodes.push_back(n);
    v = next;
  }
  return {};
}

class Splitter {
 public:
  explicit Splitter(ir::Program& p) : p_(p), g_(*p.graph), updated_(ir::UpdatedWeights(p)) {}

  absl::StatusOr<int> Run() {
    std::vector<Node*> layers;
    for (Node* n : g_)
      if (n->op_name() == "aten.linear.default") layers.push_back(n);
    int split = 0;
    for (Node* n : layers) {
      const Cut cut = ReadCut(n->output());
      if (cut.parts.size() < 2 || cut.parts.size() > kMostParts || (cut.drops && !cut.apart)) continue;
      const auto weight = Layer(n->Get("weight").value()), bias = Layer(n->Get("bias").value());
      if (!weight || weight->sizes.size() != 2 || (!bias && !n->Get("bias").is_none()) ||
          (bias && bias->sizes.size() != 1))
        continue;
      RETURN_IF_ERROR(Split(n, cut));
      ++split;
    }
    return split;
  }

 private:
  // A stored tensor that nothing else reads or updates; null for others.
  const ir::TensorRef* Layer(const Value* v) const {
    if (!v || v->producer() || v->graph() != &g_ || v->users().size() != 1 || g_.IsOutput(v)) return nullptr;
    const ir::InputSpec& s = p_.input_specs[static_cast<size_t>(v->index())];
    const auto it = s.kind == ir::InputSpec::kUser ? p_.weights.end() : p_.weights.find(s.target);
    if (it == p_.weights.end() || updated_.contains(s.target) || !ir::IsFloating(it->second.dtype) ||
        ir::BitSize(it->second.dtype) < 16)
      return nullptr;
    const auto sizes = v->type().StaticSizes();
    return it->second.dtype == v->dtype() && sizes && *sizes == it->second.sizes ? &it->second : nullptr;
  }

  // Rows [begin, end) of a weight, as one.
  Value* Rows(const Value* of, size_t part, int64_t begin, int64_t end) {
    const ir::InputSpec spec = p_.input_specs[static_cast<size_t>(of->index())];
    ir::TensorRef t = p_.weights.find(spec.target)->second;
    t.offset += begin * t.strides[0] * ir::ByteSize(t.dtype);
    t.sizes[0] = end - begin;
    return ir::AddWeight(p_, spec.kind, text::StrCat(spec.target, ".", part), std::move(t),
                         text::StrCat(of->name(), "_", part));
  }

  absl::Status Split(Node* layer, const Cut& cut) {
    Node* const place = cut.apart ? cut.nodes.front() : layer;  // where the sizes of views are there
    ir::Builder b(g_, place, layer->source());
    for (size_t i = 0; i < cut.parts.size(); ++i) {
      const LinearPart& part = cut.parts[i];
      const auto rows = [&](std::string_view argument) -> ir::Arg {
        const Value* v = layer->Get(argument).value();
        if (!v) return ir::None{};
        return Rows(v, i, part.begin * cut.features, part.end * cut.features);
      };
      Value* y = b.Call("aten.linear.default", {layer->Get("input").value(), rows("weight"), rows("bias")});
      if (cut.apart) {
        ir::ArgReader c(*cut.apart);
        ir::SymInts sizes = c.sym_ints(cut.apart->Find("shape") ? "shape" : "size");
        const ir::Type& whole = cut.apart->output()->type();
        for (size_t d = static_cast<size_t>(cut.axis); d < sizes.size(); ++d) sizes[d] = *whole.sizes[d].constant();
        if (cut.drops)
          sizes.erase(sizes.begin() + cut.axis);
        else
          sizes[static_cast<size_t>(cut.axis)] = part.end - part.begin;
        y = b.Call("aten.view.default", {y, sizes});
      }
      int64_t axis = cut.axis;
      for (const Ints& order : cut.orders) {
        Ints kept;
        int64_t next = 0;
        for (size_t d = 0; d < order.size(); ++d) {
          if (order[d] == axis) next = static_cast<int64_t>(d);
          if (!cut.drops)
            kept.push_back(order[d]);
          else if (order[d] != axis)
            kept.push_back(order[d] - (order[d] > axis));
        }
        axis = next;
        if (!std::is_sorted(kept.begin(), kept.end())) y = b.Call("aten.permute.default", {y, kept});
      }
      RETURN_IF_ERROR(b.status());
      g_.ReplaceAllUses(part.value, y);
      g_.TakeName(y, part.value);
    }
    for (auto n = cut.nodes.rbegin(); n != cut.nodes.rend(); ++n) g_.Erase(*n);
    g_.Erase(layer);
    return absl::OkStatus();
  }

  ir::Program& p_;
  ir::Graph& g_;
  const text::Set updated_;
};

}  // namespace

absl::StatusOr<int> SplitLinears(ir::Program& p) {
  ASSIGN_OR_RETURN(const int split, Splitter(p).Run());
  if (split > 0) RETURN_IF_ERROR(EliminateDeadCode(p));
  return split;
}

}  // namespace slipway::passes
