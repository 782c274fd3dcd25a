// Inputs and weights are cast where they come in, and every type and dtype argument behind them says f64. What is left
// are operators that make floats of integers, whose type is torch's default: they are told f64 where they take a dtype,
// else their integers are made f64 first, or, where that would change what they do, their result afterwards.
#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "ir/builder.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_table.h"
#include "passes/pass.h"

namespace slipway::passes {
namespace {

using ir::DType;

bool IsNarrow(DType t) { return t == DType::kFloat32 || ir::IsLowPrecision(t); }
bool IsNarrow(const ir::Type& t) { return t.is_tensor() && IsNarrow(t.dtype); }

// A value before `before` that is v in `to`; other uses of v become it.
ir::Value* CastUses(ir::Graph& g, ir::Value* v, DType to, ir::Node* before, std::shared_ptr<const ir::Source> source) {
  ir::Builder b(g, before, std::move(source));
  ir::Value* cast = b.Cast(v, to);
  g.ReplaceAllUses(v, cast);
  cast->producer()->ReplaceUses(cast, v);
  return cast;
}

class Widening {
 public:
  absl::Status Run(ir::Graph& g, bool root) {
    std::vector<ir::Node*> nodes;
    for (ir::Node* n : g) nodes.push_back(n);
    for (ir::Value* v : g.inputs()) {
      if (v->type().is_tensor() && ir::IsComplex(v->dtype()) && !v->users().empty())
        return absl::UnimplementedError("complex tensors in f64");
      if (!IsNarrow(v->type())) continue;
      if (root)
        CastUses(g, v, DType::kFloat64, g.first(), nullptr);
      else
        v->mutable_type().dtype = DType::kFloat64;
    }
    for (ir::Node* n : nodes) {
      absl::Status s = Node(g, *n);
      if (!s.ok()) return s;
    }
    return absl::OkStatus();
  }

 private:
  absl::flat_hash_set<const ir::Graph*> done_;  // bodies that several calls share

  absl::Status Node(ir::Graph& g, ir::Node& n) {
    if (n.op().traits.inverse == ir::ViewInverse::kReinterpret && n.op().ArgIndex("dtype") >= 0 && n.output() &&
        (IsNarrow(n.output()->type()) || ReadsWidened(n)))
      return absl::UnimplementedError(text::StrCat(n.op_name(), " in f64: it looks at bits"));
    for (size_t i = 0; i < n.args().size(); ++i) {
      if (const auto* sub = n.At(i).get<ir::SubGraph>(); sub && *sub && done_.insert(sub->get()).second) {
        const ir::SubGraph body = *sub;
        RETURN_IF_ERROR(Run(*body, /*root=*/false));
      }
      if (const auto* dtype = n.At(i).get<DType>(); dtype && IsNarrow(*dtype)) n.SetArgAt(i, DType::kFloat64);
    }
    for (ir::Value* v : n.outputs())
      if (v && IsNarrow(v->type())) v->mutable_type().dtype = DType::kFloat64;
    return Settle(g, n);
  }

  // Whether a float that the node reads is not what it was.
  static bool ReadsWidened(const ir::Node& n) {
    bool reads = false;
    for (const ir::NamedArg& a : n.args())
      a.arg.ForEachValue(
          [&](const ir::Value* v) { reads = reads || (v->type().is_tensor() && v->dtype() == DType::kFloat64); });
    return reads;
  }

  // The results that the operator gives as narrow floats all the same; empty where its types are not known.
  static std::vector<size_t> Narrow(const ir::Node& n) {
    auto types = ir::InferTypes(n, ir::FreshSymbols::kNone);
    std::vector<size_t> out;
    if (!types.ok() || types->size() != n.outputs().size()) return out;
    for (size_t i = 0; i < types->size(); ++i)
      if (n.output(i) && n.output(i)->type().is_tensor() && n.output(i)->dtype() == DType::kFloat64 &&
          IsNarrow((*types)[i]))
        out.push_back(i);
    return out;
  }

  absl::Status Settle(ir::Graph& g, ir::Node& n) {
    std::vector<size_t> narrow = Narrow(n);
    if (narrow.empty()) return absl::OkStatus();
    if (n.op().ArgIndex("dtype") >= 0 && n.Get("dtype").is_none()) {
      n.SetArg("dtype", DType::kFloat64);
      narrow = Narrow(n);
      if (narrow.empty()) return absl::OkStatus();
    }
    if (n.op().traits.elementwise) {
      std::vector<ir::Value*> integers;
      for (const ir::NamedArg& a : n.args())
        a.arg.ForEachValue([&](ir::Value* v) {
          if (v->type().is_tensor() && ir::IsIntegral(v->dtype())) integers.push_back(v);
        });
      for (ir::Value* v : integers) {
        ir::Builder b(g, &n, n.source());
        n.ReplaceUses(v, b.Cast(v, DType::kFloat64));
        RETURN_IF_ERROR(b.status());
      }
      narrow = Narrow(n);
    }
    if (narrow.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::vector<ir::Type> types, ir::InferTypes(n, ir::FreshSymbols::kNone));
    for (size_t i : narrow) {
      n.output(i)->mutable_type().dtype = types[i].dtype;
      CastUses(g, n.output(i), DType::kFloat64, n.next(), n.source());
    }
    return absl::OkStatus();
  }
};

}  // namespace

absl::Status WidenFloats(ir::Program& p) { return Widening().Run(*p.graph, /*root=*/true); }

}  // namespace slipway::passes
