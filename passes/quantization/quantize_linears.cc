// The forms of quantized layers, from torchao 0.18's layers (Int8Tensor, IntxUnpackedToInt8Tensor, Float8Tensor, …):
//
//   weights alone                  linear(x, dequantize(q)); or linear(x, q) · scale + bias
//   int8 activations and weights   xq = quantize(x), ((xq · q) as f32 · scale_x) as T [- (zero_x · scale_x · Σ q) as
//                                  T], · scale, + bias
//   fake-quantized activations     linear(dequantize(quantize(x)), dequantize(q))
//   float8 activations             (linear(float8(x / scale_x) as f32, dequantize(q)) · scale_x + bias) as T
#include "passes/quantization/quantize_linears.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "ir/builder.h"
#include "ir/ops/args.h"
#include "passes/decompose.h"
#include "passes/quantization/quantization.h"

namespace slipway::passes {

namespace {

using ir::Builder;
using ir::Node;

// The parameter behind a product's matrix that is, or is the transpose of, [n, k].
Value* WeightOf(const Node& n) {
  const std::string_view name = MatrixOf(n);
  if (name.empty()) return nullptr;
  Value* w = n.Get(name).value();
  if (n.op_name() == "aten.linear.default") return w->producer() ? nullptr : w;
  const Permuted turned = ReadPermutation(w);
  return turned.source && turned.order == std::vector<int>{1, 0} && !turned.source->producer() ? turned.source
                                                                                               : nullptr;
}

std::optional<LinearUse> ReadUse(Node* n) {
  ir::ArgReader a(*n);
  LinearUse use{n, nullptr, nullptr};
  const std::string_view op = n->op_name();
  if (op == "aten.linear.default") {
    use.input = a.tensor("input"), use.bias = a.opt_tensor("bias");
  } else if (op == "aten.addmm.default") {
    use.input = a.tensor("mat1"), use.bias = a.tensor("self");
    const ir::Scalar alpha = a.scalar("alpha"), beta = a.scalar("beta");
    if (!alpha.is_constant() || !beta.is_constant() || alpha.d != 1 || beta.d != 1) return std::nullopt;
  } else {
    use.input = a.tensor("self");
  }
  if (!a.ok() || use.input->rank() == 0) return std::nullopt;
  return use;
}

class LinearRewriter {
 public:
  LinearRewriter(ir::Program& p, const LinearLayer& layer, const QuantizedLayer& q) : p_(p), layer_(layer), q_(q) {}

  absl::Status Run() {
    codes_ = Stored("qdata", q_.codes);
    scale_ = Stored("scale", q_.scale);
    zero_ = q_.zero_point ? Stored("zero_point", *q_.zero_point) : nullptr;
    act_scale_ = q_.act_scale ? Stored("act_quant_scale", *q_.act_scale) : nullptr;
    act_zero_ = q_.act_zero_point ? Stored("act_quant_zero_point", *q_.act_zero_point) : nullptr;
    pre_scale_ = q_.act_pre_scale ? Stored("act_pre_scale", *q_.act_pre_scale) : nullptr;
    for (Node* n : layer_.uses) {
      Builder b(*p_.graph, n, n->source());
      Value* y = Product(b, ReadLinear(n));
      if (!b.ok()) return b.status();
      ReplaceNode(n, {y});
    }
    for (Node* n : layer_.lookups) {
      Builder b(*p_.graph, n, n->source());
      Value* y = Rows(b, n->Get("indices").value(), n->output()->dtype());
      if (!b.ok()) return b.status();
      ReplaceNode(n, {y});
    }
    return absl::OkStatus();
  }

 private:
  // A new buffer of the program.
  Value* Stored(std::string_view what, const ir::TensorRef& t) {
    return ir::AddWeight(p_, ir::InputSpec::kBuffer, text::StrCat(layer_.weight, "_", what), t,
                         text::StrCat(layer_.value->name(), "_", what));
  }

  Value* Product(Builder& b, const LinearUse& use) {
    Value* x = use.input;
    const DType own = x->dtype();
    if (pre_scale_) x = b.Call("aten.mul.Tensor", {x, b.Cast(pre_scale_, own)});
    if (q_.activations == QuantizedLayer::Activations::kInteger) return Integers(b, x, use.bias, own);
    if (q_.activations == QuantizedLayer::Activations::kFloat8) return Float8(b, x, use.bias, own);
    if (q_.activations == QuantizedLayer::Activations::kFakeQuantized) x = FakeQuantized(b, x);
    if (q_.scale_behind) {
      Value* y = b.Call("aten.linear.default", {x, b.Cast(codes_, own), nullptr});
      y = b.Call("aten.mul.Tensor", {y, b.Cast(Flat(b, scale_), own)});
      return use.bias ? b.Call("aten.add.Tensor", {y, use.bias}) : y;
    }
    return b.Call("aten.linear.default", {x, Emit(b, Matrix(own)), use.bias});
  }

  Dequantized Matrix(DType own) const {
    Dequantized d;
    d.input = codes_, d.scale = scale_, d.zero_point = zero_;
    d.block_size = q_.block_size;
    d.arithmetic = q_.codes.dtype == DType::kInt8 ? own : DType::kFloat32;
    d.dtype = own;
    d.range = q_.range;
    d.float_zero_point = q_.float_zero_point;
    return d;
  }
  Value* Rows(Builder& b, Value* indices, DType own) { return EmitRows(b, Matrix(own), indices); }
  Value* Flat(Builder& b, Value* v) { return b.Call("aten.reshape.default", {v, ir::Ints{-1}}); }

  // Scale and zero point of activations: stored, or made of x for each token or for all of it.
  struct Qparams {
    Value *scale, *zero;  // zero is null where all are 0
    ir::Ints block;
  };
  Qparams ParamsOf(Builder& b, Value* x) {
    ir::Ints block(static_cast<size_t>(x->rank()), q_.per_tensor || act_scale_ ? -1 : 1);
    block.back() = -1;
    if (act_scale_) return {act_scale_, act_zero_, block};
    const bool fake = q_.activations == QuantizedLayer::Activations::kFakeQuantized;
    SymInts sizes;
    for (int d = 0; d < x->rank(); ++d)
      sizes.push_back(block[static_cast<size_t>(d)] == -1 ? b.Size(x, d) : IntOrValue(1));
    // Int8Tensor keeps scales in f32 and bounds them by 2^-23; 8da4w keeps them in the input's dtype and has its own
    // bound.
    std::vector<std::pair<std::string_view, Arg>> named = {{"zero_point_dtype", DType::kInt8}, {"keepdim", true}};
    if (!fake) named.insert(named.end(), {{"eps", 0x1p-23}, {"scale_dtype", DType::kFloat32}});
    Values made = b.CallMulti("torchao.choose_qparams_affine.default",
                              {x, q_.asymmetric ? "ASYMMETRIC" : "SYMMETRIC", sizes, DType::kInt8,
                               Arg(q_.act_range.first), Arg(q_.act_range.second)},
                              std::move(named));
    if (!b.ok()) return {x, x, block};
    return {made[0], q_.asymmetric ? made[1] : nullptr, block};
  }
  Value* Quantize(Builder& b, Value* x, const Qparams& params) {
    const DType arithmetic = ir::PromoteTypes(x->dtype(), params.scale->dtype());
    return b.Call("slipway.quantize.default", {x, params.scale, params.zero, params.block, arithmetic, DType::kInt8,
                                               q_.act_range.first, q_.act_range.second});
  }

  Value* FakeQuantized(Builder& b, Value* x) {
    const Qparams params = ParamsOf(b, x);
    Dequantized d;
    d.input = Quantize(b, x, params), d.scale = params.scale, d.zero_point = params.zero;
    d.block_size = params.block;
    d.arithmetic = d.dtype = x->dtype();
    return Emit(b, d);
  }

  // Sums and scales in f32, rounded once. A scale of 0, of inputs that are all 0, would make NaN of them.
  Value* Float8(Builder& b, Value* x, Value* bias, DType own) {
    SymInts block = b.SizesOf(x);
    if (!q_.per_tensor)
      for (int d = 0; d + 1 < x->rank(); ++d) block[static_cast<size_t>(d)] = 1;
    std::vector<std::pair<std::string_view, Arg>> bounds;
    if (q_.act_low) bounds.emplace_back("hp_value_lb", *q_.act_low);
    if (q_.act_high) bounds.emplace_back("hp_value_ub", *q_.act_high);
    const DType element = q_.codes.dtype;
    Value* scale = b.Call("torchao.choose_scale_float8.default", {x, block, element}, std::move(bounds));
    scale = b.Call("aten.clamp_min.default", {scale, 0x1p-126});
    Value* rows = b.Call("torchao.quantize_affine_float8_non_decomposed.default", {x, scale, element});
    Value* y =
        b.Call("aten.linear.default", {b.Cast(rows, DType::kFloat32), Emit(b, Matrix(DType::kFloat32)), nullptr});
    y = b.Call("aten.mul.Tensor", {y, scale});
    if (bias) y = b.Call("aten.add.Tensor", {y, b.Cast(bias, DType::kFloat32)});
    return b.Cast(y, own);
  }

  Value* Integers(Builder& b, Value* x, Value* bias, DType own) {
    const Qparams params = ParamsOf(b, x);
    Value* xq = Quantize(b, x, params);
    const int rank = x->rank();
    const Arg k = b.Size(x, rank - 1);
    SymInts sizes = b.SizesOf(x);
    const int64_t n = q_.codes.sizes[0];
    sizes.back() = n;
    Value* rows =
        rank == 2 ? xq : b.Call("aten.reshape.default", {xq, SymInts{-1, *layer_.value->sizes()[1].constant()}});
    auto column = [&](Value* v) -> Value* {  // one for each row, or one for all
      return b.Cast(b.Call("aten.reshape.default", {v, ir::Ints{-1, 1}}), DType::kFloat32);
    };
    Value* y = b.Call("aten._int_mm.default", {rows, b.Call("aten.permute.default", {codes_, ir::Ints{1, 0}})});
    Value* by = column(params.scale);
    y = b.Cast(b.Call("aten.mul.Tensor", {b.Cast(y, DType::kFloat32), by}), own);
    if (params.zero) {
      Value* sums = b.Call("aten.sum.dim_IntList", {codes_, ir::Ints{-1}});
      Value* less = b.Call("aten.mul.Tensor", {column(params.zero), by});
      less = b.Call("aten.mul.Tensor", {less, b.Cast(sums, DType::kFloat32)});
      y = b.Call("aten.sub.Tensor", {y, b.Cast(less, own)});
    }
    y = b.Call("aten.mul.Tensor", {y, Flat(b, scale_)});
    if (rank != 2) y = b.Call("aten.reshape.default", {y, sizes});
    if (bias) y = b.Call("aten.add.Tensor", {y, bias});
    return b.Cast(y, own);
  }

  ir::Program& p_;
  const LinearLayer& layer_;
  const QuantizedLayer& q_;
  Value *codes_ = nullptr, *scale_ = nullptr, *zero_ = nullptr, *act_scale_ = nullptr, *act_zero_ = nullptr,
        *pre_scale_ = nullptr;
};

}  // namespace

LinearUse ReadLinear(Node* n) { return ReadUse(n).value(); }

std::vector<LinearLayer> FindLinears(const ir::Program& p) {
  std::vector<LinearLayer> layers(p.input_specs.size());
  for (Node* n : *p.graph) {
    const bool lookup = n->op_name() == "aten.embedding.default";
    Value* w = lookup ? n->Get("weight").value() : WeightOf(*n);
    if (!w || !StoredTensor(w) || w->rank() != 2) continue;
    if (!lookup && !ReadUse(n)) continue;
    LinearLayer& layer = layers[static_cast<size_t>(w->index())];
    layer.weight = p.input_specs[static_cast<size_t>(w->index())].target;
    layer.value = w;
    (lookup ? layer.lookups : layer.uses).push_back(n);
  }
  std::erase_if(layers, [](const LinearLayer& l) { return l.uses.empty() && l.lookups.empty(); });
  return layers;
}

absl::Status QuantizeLinear(ir::Program& p, const LinearLayer& layer, const QuantizedLayer& q) {
  if (absl::Status s = LinearRewriter(p, layer, q).Run(); !s.ok()) return s;
  // Transposes of the weight that nothing uses any more, and then the weight.
  std::vector<Node*> users(layer.value->users().begin(), layer.value->users().end());
  for (Node* n : users)
    if (ReadPermutation(n->output()).source == layer.value && n->output()->users().empty() &&
        !p.graph->IsOutput(n->output()))
      p.graph->Erase(n);
  if (!layer.value->users().empty() || p.graph->IsOutput(layer.value)) return absl::OkStatus();
  const auto index = static_cast<size_t>(layer.value->index());
  for (const ir::OutputSpec& out : p.output_specs)
    if (out.target == layer.weight) return absl::OkStatus();  // a mutation of it
  ir::RemoveInput(p, index);
  p.weights.erase(layer.weight);
  return absl::OkStatus();
}

absl::Status SpellQuantizationInAten(ir::Program& p) {
  for (Node *n = p.graph->first(), *next; n; n = next) {
    next = n->next();
    for (const DecomposeRow& row : QuantDecompositions()) {
      if (row.op != n->op_name()) continue;
      const Node* before = n->prev();
      if (absl::Status s = ApplyDecomposition(n, row); !s.ok()) return s;
      next = before ? before->next() : p.graph->first();  // what it is made of may be spelled out, too
      break;
    }
  }
  return absl::OkStatus();
}

}  // namespace slipway::passes
