// Quantized tensors get their one representation (quantization.h), whatever wrote the program:
//
//   torchao.* and quantized_decomposed.*      rows of decompose_quant.cc
//   to(q), to(q) - zero, (…) · scale          what torchao's weights decompose into: one node after the other is taken
//                                             into
//                                             a slipway.dequantize, which views and conversions behind it change
//   … + zero                                  a zero point of floats
//   product(x, to(q)) · scale                 the scale goes into the matrix
//   product(x, to(q))                         a matrix with scale 1
//   _weight_int8pack_mm                       linear with a matrix
//   rows of q that become floats              an embedding in a matrix (hoist_lookups.cc)
//
// q is a weight of 8-bit integers or floats (IsStored). Matrices have the elements that the program's steps give, to
// the bit, but for a scale behind a product: there the matrix is q · scale in f32, multiplied with x in f32, which
// rounds each element of the matrix once where the program rounds the sum (and, of bf16, the product). Views that lie
// between a weight and its scale (groups as a dim of their own, transposes) end up behind the dequantize, so that
// weights and scales are the tensors of the file wherever that is possible.
#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "ir/ops/args.h"
#include "passes/decompose.h"
#include "passes/match.h"
#include "passes/pass.h"
#include "passes/quantization/quantization.h"

namespace slipway::passes {
namespace {

using ir::Builder;
using ir::Node;

bool IsByte(DType t) { return t == DType::kInt8 || t == DType::kUInt8; }
bool IsFloat8(DType t) { return t >= DType::kFloat8E4M3FN && t <= DType::kFloat8E5M2FNUZ; }
bool IsWideInteger(DType t) { return t == DType::kInt16 || t == DType::kInt32 || t == DType::kInt64; }
bool IsView(const Node* n) { return n && IsReshape(*n); }
bool SameStaticSizes(const Value* a, const Value* b) {
  const auto x = a->type().StaticSizes(), y = b->type().StaticSizes();
  return x && y && *x == *y;
}

class QuantizationRecognizer {
 public:
  explicit QuantizationRecognizer(ir::Program& p) : g_(*p.graph) {}

  absl::Status Run() {
    if (absl::Status s = Named(g_); !s.ok()) return s;
    using Step = Value* (QuantizationRecognizer::*)(Node* n, Builder& b);
    const std::vector<Step> walks[] = {
        {&QuantizationRecognizer::Scaled, &QuantizationRecognizer::Shifted, &QuantizationRecognizer::ScaledAfter,
         &QuantizationRecognizer::PackedProduct, &QuantizationRecognizer::Converted,
         &QuantizationRecognizer::Regrouped},
        {&QuantizationRecognizer::Unscaled},  // what is scaled behind its product has been
        {&QuantizationRecognizer::Narrowed}};
    for (const auto& steps : walks)
      for (Node *n = g_.first(), *next; n; n = next) {
        next = n->next();
        for (const Step step : steps) {
          Builder b(g_, n, n->source());
          Value* now = (this->*step)(n, b);
          if (!b.ok()) return b.status();
          if (!now) continue;
          ReplaceNode(n, {now});
          break;
        }
      }
    return absl::OkStatus();
  }

 private:
  // A weight of small numbers, as it looks where it is used, as floats minus a zero point.
  struct Difference {
    Value* q = nullptr;
    Arg zero;  // a tensor, a number or none
    DType arithmetic = DType::kUnknown;
    explicit operator bool() const { return q != nullptr; }
  };

  static absl::Status Named(ir::Graph& g) {
    for (Node *n = g.first(), *next; n; n = next) {
      next = n->next();
      for (const ir::NamedArg& a : n->args())
        if (auto sub = a.arg.get<ir::SubGraph>())
          if (absl::Status s = Named(**sub); !s.ok()) return s;
      for (const DecomposeRow& row : QuantizedForms()) {
        if (row.op != n->op_name()) continue;
        // What the representation does not have stays, and is reported with its reason by legalize.
        absl::Status s = ApplyDecomposition(n, row);
        if (!s.ok() && !absl::IsUnimplemented(s)) return s;
        break;
      }
    }
    return absl::OkStatus();
  }

  // v with these sizes: one that is there already, or a new view.
  static Value* Reshaped(Builder& b, Value* v, const ir::Ints& sizes) {
    for (Value* u = v;;) {
      if (u->type().StaticSizes() == sizes) return u;
      if (!IsView(u->producer())) break;
      u = FirstArgument(*u->producer());
    }
    return b.Call("aten.reshape.default", {v, sizes});
  }
  static Value* PermutedBy(Builder& b, Value* v, const std::vector<int>& order) {
    return b.Call("aten.permute.default", {v, ir::Ints(order.begin(), order.end())});
  }
  // u where permute(u, order) = v.
  static Value* Unpermuted(Builder& b, Value* v, const std::vector<int>& order) {
    if (const Permuted p = ReadPermutation(v); p.source && p.order == order) return p.source;
    std::vector<int> inverse(order.size());
    for (size_t i = 0; i < order.size(); ++i) inverse[order[i]] = static_cast<int>(i);
    const ir::Ints sizes = *v->type().StaticSizes();
    if (std::count(sizes.begin(), sizes.end(), 1) + 1 < static_cast<int64_t>(sizes.size()))
      return PermutedBy(b, v, inverse);
    ir::Ints turned;  // a vector
    for (int d : inverse) turned.push_back(sizes[d]);
    return Reshaped(b, v, turned);
  }

  static bool FitsBytes(const Value* zero) {
    const auto range = StoredRange(zero);
    return IsByte(zero->dtype()) || (range && range->first >= -128 && range->second <= 255);
  }

  // Integers of more than 8 bits that are q, or q - zero.
  static Difference ReadWide(Value* v) {
    if (!IsWideInteger(v->dtype())) return {};
    if (Value* source = CastSource(v)) {
      if (IsByte(source->dtype()) && IsStored(source)) return {source, {}, v->dtype()};
      return ReadWide(source);
    }
    const Node* n = v->producer();
    if (!IsOneOf(n, {"aten.sub.Tensor"})) return {};
    ir::ArgReader a(*n);
    Value *x = a.tensor("self"), *zero = a.tensor("other");
    const ir::Scalar alpha = a.scalar("alpha");
    if (!a.ok() || !alpha.is_constant() || alpha.d != 1 || !SameStaticSizes(x, v)) return {};
    Difference d = IsByte(x->dtype()) && IsStored(x) ? Difference{x, {}, v->dtype()} : ReadWide(x);
    while (Value* source = CastSource(zero)) zero = source;
    if (!d || d.zero.value() || !IsStored(zero) || !ir::IsIntegral(zero->dtype()) || !FitsBytes(zero)) return {};
    d.zero = zero;
    return d;
  }

  static Difference Read(Value* v, Builder& b) {
    if (!ir::IsFloating(v->dtype()) || IsFloat8(v->dtype())) return {};
    const Node* n = v->producer();
    if (Value* source = CastSource(v)) {
      if ((IsByte(source->dtype()) || IsFloat8(source->dtype())) && IsStored(source)) return {source, {}, v->dtype()};
      Difference d = ReadWide(source);
      // Another conversion of what is exact in both.
      if (!d && ir::IsFloating(source->dtype())) d = Read(source, b);
      if (d && (d.zero.is_none() || IsWideInteger(source->dtype()))) {
        d.arithmetic = v->dtype();
        return d;
      }
      return {};
    }
    if (IsView(n) || ReadPermutation(v).source) {
      Difference d = Read(FirstArgument(*n), b);
      const auto sizes = v->type().StaticSizes();
      if (!d || !d.zero.is_none() || !sizes) return {};
      d.q = IsView(n) ? Reshaped(b, d.q, *sizes) : PermutedBy(b, d.q, ReadPermutation(v).order);
      return d;
    }
    if (!IsOneOf(n, {"aten.sub.Tensor", "aten.sub.Scalar"})) return {};
    ir::ArgReader a(*n);
    Value* x = a.tensor("self");
    const ir::Scalar alpha = a.scalar("alpha"), other = a.scalar("other");
    if (!a.ok() || !alpha.is_constant() || alpha.d != 1 || !SameStaticSizes(x, v) || x->dtype() != v->dtype())
      return {};
    Difference d = Read(x, b);
    if (!d || !d.zero.is_none() || IsFloat8(d.q->dtype())) return {};
    if (other.is_constant()) {
      // bf16 and f16 have the differences of bytes.
      const double low = d.q->dtype() == DType::kUInt8 ? 0 : -128;
      if (d.arithmetic != DType::kFloat32 && (other.d != std::floor(other.d) || other.d < low || other.d > low + 255))
        return {};
      d.zero = other.d;
      return d;
    }
    Value* zero = other.value;
    while (Value* source = CastSource(zero)) {
      if (!ir::IsIntegral(source->dtype()) && source->dtype() != zero->dtype()) break;
      zero = source;
    }
    const bool integers = ir::IsIntegral(zero->dtype());
    if (!IsStored(zero) ||
        (integers ? !FitsBytes(zero) : d.arithmetic != DType::kFloat32 || zero->dtype() != DType::kFloat32))
      return {};
    d.zero = zero;
    return d;
  }

  // A factor or zero point of a tensor of this rank, by broadcasting: with leading 1s. Of a tensor that a number fills,
  // one element.
  static Value* Aligned(Builder& b, Value* v, size_t rank) {
    const Node* n = v->producer();
    if (IsOneOf(n, {"aten.full.default"}) && v->type().StaticSizes() != ir::Ints(rank, 1))
      v = b.Full(ir::SymInts(rank, 1), n->Get("fill_value"), v->dtype());
    ir::Ints sizes = *v->type().StaticSizes();
    sizes.insert(sizes.begin(), rank - std::min(rank, sizes.size()), 1);
    return Reshaped(b, v, sizes);
  }

  // (q - zero) · scale, of the sizes of q, which scale and zero do not change.
  static Value* Make(Builder& b, const Difference& d, Value* scale, std::optional<DType> scale_dtype, DType dtype) {
    const auto sizes = d.q->type().StaticSizes();
    if (!sizes) return nullptr;
    const size_t rank = sizes->size();
    Dequantized out;
    out.input = d.q, out.arithmetic = d.arithmetic, out.dtype = dtype, out.scale_dtype = scale_dtype;
    out.scale = Aligned(b, scale, rank);
    if (Value* zero = d.zero.value()) {
      const auto range = ir::IsIntegral(zero->dtype()) ? StoredRange(zero) : std::nullopt;
      if (range != std::pair<int64_t, int64_t>(0, 0)) out.zero_point = Aligned(b, zero, rank);
    } else if (const double* number = d.zero.get<double>(); number && *number != 0) {
      const auto integer = static_cast<int64_t>(std::clamp(*number, -256.0, 256.0));
      const auto [low, high] = d.q->dtype() == DType::kUInt8 ? std::pair(0, 255) : std::pair(-128, 127);
      const bool fits = static_cast<double>(integer) == *number && integer >= low && integer <= high;
      out.zero_point = fits ? b.Full(ir::SymInts(rank, 1), integer, d.q->dtype())
                            : b.Full(ir::SymInts(rank, 1), *number, DType::kFloat32);
    }
    ir::Ints blocks(rank, 1);
    for (const Value* v : {out.scale, out.zero_point}) {
      if (!v) continue;
      const ir::Ints own = *v->type().StaticSizes();
      if (own.size() != rank) return nullptr;
      for (size_t i = 0; i < rank; ++i) {
        if (own[i] != 1 && own[i] != (*sizes)[i]) return nullptr;
        blocks[i] = std::max(blocks[i], own[i]);
      }
    }
    for (size_t i = 0; i < rank; ++i) out.block_size.push_back(blocks[i] == 1 ? -1 : 1);
    for (Value** v : {&out.scale, &out.zero_point})
      if (*v && (*v)->type().StaticNumel() != 1 && *(*v)->type().StaticSizes() != blocks)
        *v = b.Call("aten.expand.default", {*v, blocks});
    // Transposes go behind, one after the other.
    std::vector<std::vector<int>> orders;
    for (Permuted p; (p = ReadPermutation(out.input)).source;) {
      out.input = p.source;
      for (Value** v : {&out.scale, &out.zero_point})
        if (*v) *v = Unpermuted(b, *v, p.order);
      ir::Ints block(rank);
      for (size_t i = 0; i < rank; ++i) block[p.order[i]] = out.block_size[i];
      out.block_size = block;
      orders.push_back(p.order);
    }
    Value* y = Emit(b, out);
    for (; !orders.empty(); orders.pop_back()) y = PermutedBy(b, y, orders.back());
    return y;
  }

  // A stored factor of f32, bf16 or f16 and the dtype that it is rounded to.
  static Value* ReadScale(Value* v, std::optional<DType>* rounded) {
    if (!IsStored(v) || !v->type().StaticSizes()) return nullptr;
    auto fits = [](DType t) { return t == DType::kFloat32 || ir::IsLowPrecision(t); };
    if (!fits(v->dtype())) return nullptr;
    // One conversion of f32, which views may follow.
    if (const Value* source = CastSource(v);
        source && source->dtype() == DType::kFloat32 && ir::IsLowPrecision(v->dtype())) {
      *rounded = v->dtype();
      return const_cast<Value*>(source);
    }
    return v;
  }

  Value* Scaled(Node* n, Builder& b) {
    if (!IsOneOf(n, {"aten.mul.Tensor", "aten.mul.Scalar"})) return nullptr;
    for (const auto& [left, right] : {std::pair("self", "other"), {"other", "self"}}) {
      Value* numbers = n->Get(left).value();
      if (!numbers || !numbers->type().is_tensor() || !SameStaticSizes(numbers, n->output())) continue;
      const Difference d = Read(numbers, b);
      if (!d) continue;
      ir::ArgReader a(*n);
      const ir::Scalar factor = a.scalar(right);
      if (!a.ok()) return nullptr;
      const DType dtype = n->output()->dtype();
      if (factor.is_constant()) {
        if (d.arithmetic != DType::kFloat32 || dtype != d.arithmetic) return nullptr;
        return Make(b, d, b.ScalarTensor(factor.d, DType::kFloat32), std::nullopt, dtype);
      }
      if (!factor.value->type().is_tensor()) return nullptr;
      std::optional<DType> rounded;
      Value* scale = ReadScale(factor.value, &rounded);
      if (scale && dtype == ir::PromoteTypes(d.arithmetic, rounded.value_or(scale->dtype())))
        return Make(b, d, scale, rounded, dtype);
    }
    return nullptr;
  }

  // (q - middle) · scale + zero, where the middle is that of a range in which all integers are.
  Value* Shifted(Node* n, Builder& b) {
    if (!IsOneOf(n, {"aten.add.Tensor"})) return nullptr;
    for (const auto& [left, right] : {std::pair("self", "other"), {"other", "self"}}) {
      Value *numbers = n->Get(left).value(), *zero = n->Get(right).value();
      auto d = ReadDequantized(numbers);
      if (!d || !zero || !IsStored(d->input) || !IsByte(d->input->dtype()) || d->float_zero_point ||
          !SameStaticSizes(numbers, n->output()))
        continue;
      ir::ArgReader a(*n);
      const ir::Scalar alpha = a.scalar("alpha");
      const bool same = zero->dtype() == d->dtype;
      while (Value* source = CastSource(zero)) {  // exact ones
        if (!ir::IsLowPrecision(source->dtype()) ||
            (source->dtype() != zero->dtype() && zero->dtype() != DType::kFloat32))
          break;
        zero = source;
      }
      if (!a.ok() || !alpha.is_constant() || alpha.d != 1 || !IsStored(zero) || !same ||
          d->product_dtype() != d->dtype || !zero->type().StaticSizes() || zero->rank() > numbers->rank())
        continue;
      const auto middle = d->zero_point ? StoredRange(d->zero_point) : std::pair<int64_t, int64_t>(0, 0);
      const auto of = StoredRange(d->input);
      if (!middle || middle->first != middle->second || !of) continue;
      d->range.reset();
      for (std::pair<int64_t, int64_t> r : {std::pair(-2, 1), {0, 3}, {-8, 7}, {0, 15}, {-128, 127}, {0, 255}})
        if (!d->range && (r.first + r.second + 1) / 2 == middle->first && of->first >= r.first &&
            of->second <= r.second)
          d->range = r;
      if (!d->range) continue;
      // An element for each block of the scales.
      const size_t rank = d->block_size.size();
      zero = Aligned(b, zero, rank);
      ir::Ints blocks;
      bool fits = true;
      for (size_t i = 0; i < rank; ++i) {
        const int64_t size = *d->input->sizes()[i].constant(), own = *zero->sizes()[i].constant();
        blocks.push_back(d->block_size[i] == -1 ? 1 : size / d->block_size[i]);
        fits = fits && (own == 1 || (own == blocks[i] && (d->block_size[i] == 1 || own == size)));
      }
      if (!fits) continue;
      d->zero_point = *zero->type().StaticSizes() == blocks ? zero : b.Call("aten.expand.default", {zero, blocks});
      d->float_zero_point = true;
      return Emit(b, *d);
    }
    return nullptr;
  }

  // As a factor of a matrix's columns.
  static Value* AlongColumns(Builder& b, Value* scale, int64_t columns, bool transposed) {
    const auto n = scale->type().StaticNumel();
    if (!n || (*n != 1 && *n != columns)) return nullptr;
    return Reshaped(b, scale, transposed ? ir::Ints{*n, 1} : ir::Ints{1, *n});
  }

  Value* ScaledAfter(Node* n, Builder& b) {
    if (!IsOneOf(n, {"aten.mul.Tensor"})) return nullptr;
    for (const auto& [left, right] : {std::pair("self", "other"), {"other", "self"}}) {
      Value *sum = n->Get(left).value(), *factor = n->Get(right).value();
      if (!sum || !factor || !factor->type().is_tensor() || !sum->producer() || !IsOnlyUsedBy(sum, n)) continue;
      const Node& product = *sum->producer();
      const bool linear = product.op_name() == "aten.linear.default";
      if (MatrixOf(product).empty() || product.op_name() == "aten.addmm.default" ||
          (linear && product.Get("bias").value()) || factor->rank() > sum->rank())
        continue;
      Value *x = FirstArgument(product), *matrix = product.Get(MatrixOf(product)).value();
      // f16 may overflow before it is scaled.
      if (!x || x->dtype() != matrix->dtype() || (x->dtype() != DType::kFloat32 && x->dtype() != DType::kBFloat16))
        continue;
      Difference d = Read(matrix, b);
      std::optional<DType> rounded;
      const auto columns = matrix->sizes()[linear ? 0 : 1].constant();
      Value* stored = d && d.zero.is_none() && columns ? StripReshapes(factor) : nullptr;
      Value* scale = stored ? ReadScale(stored, &rounded) : nullptr;
      scale = scale && IsLastDim(factor) ? AlongColumns(b, scale, *columns, linear) : nullptr;
      if (!scale) continue;
      d.arithmetic = DType::kFloat32;
      Value* w = Make(b, d, scale, rounded, DType::kFloat32);
      if (!w) return nullptr;
      Value* y = b.Call(product.op_name(), {b.Cast(x, DType::kFloat32), w});
      return b.Cast(y, n->output()->dtype());
    }
    return nullptr;
  }
  // All dims but the last are 1.
  static bool IsLastDim(const Value* v) {
    for (int d = 0; d + 1 < v->rank(); ++d)
      if (!v->sizes()[d].is(1)) return false;
    return true;
  }
  static Value* StripReshapes(Value* v) {
    while (IsView(v->producer())) v = FirstArgument(*v->producer());
    return v;
  }

  // linear(x, q · scale) with sums in f32, rounded once.
  Value* PackedProduct(Node* n, Builder& b) {
    if (!IsOneOf(n, {"aten._weight_int8pack_mm.default"})) return nullptr;
    ir::ArgReader a(*n);
    Value *x = a.tensor("self"), *q = a.tensor("mat2"), *scale = a.tensor("scales");
    const auto rows = q->sizes().empty() ? std::nullopt : q->sizes()[0].constant();
    if (!a.ok() || q->rank() != 2 || q->dtype() != DType::kInt8 || !rows || scale->type().StaticNumel() != rows ||
        !q->type().StaticSizes())
      return nullptr;
    Value* w = Make(b, {q, {}, DType::kFloat32}, Reshaped(b, scale, {*rows, 1}), std::nullopt, DType::kFloat32);
    return b.Cast(b.Call("aten.linear.default", {b.Cast(x, DType::kFloat32), w}), n->output()->dtype());
  }

  // What is rounded for the first time.
  Value* Converted(Node* n, Builder& b) {
    Value* v = n->output();
    Value* source = v && v->type().is_tensor() ? CastSource(v) : nullptr;
    if (!source || !ir::IsLowPrecision(v->dtype())) return nullptr;
    std::vector<std::vector<int>> orders;
    for (Permuted p; (p = ReadPermutation(source)).source; source = p.source) orders.push_back(p.order);
    auto d = ReadDequantized(source);
    if (!d || !IsStored(d->input) || d->dtype != DType::kFloat32 || d->product_dtype() != DType::kFloat32)
      return nullptr;
    d->dtype = v->dtype();
    Value* y = Emit(b, *d);
    for (; !orders.empty(); orders.pop_back()) y = PermutedBy(b, y, orders.back());
    return y;
  }

  // A view that joins dims: [n, k / g, g] with blocks [1, 1, -1] is [n, k] with blocks [1, g].
  Value* Regrouped(Node* n, Builder& b) {
    if (!IsView(n)) return nullptr;
    auto d = ReadDequantized(FirstArgument(*n));
    const auto sizes = n->output()->type().StaticSizes();
    const auto inner = d ? d->input->type().StaticSizes() : std::nullopt;
    if (!sizes || !inner || !IsStored(d->input)) return nullptr;
    ir::Ints blocks, counts;
    size_t at = 0;
    for (int64_t size : *sizes) {
      int64_t joined = 1, count = 1, block = 1;
      while (at < inner->size() && (joined < size || (*inner)[at] == 1)) {
        const int64_t own = (*inner)[at], each = d->block_size[at] == -1 ? own : d->block_size[at];
        if (own < 1 || (block > 1 && each != own) || own % each != 0) return nullptr;
        joined *= own, count *= own / each, block *= each, ++at;
      }
      if (joined != size) return nullptr;
      blocks.push_back(count == 1 ? -1 : block), counts.push_back(count);
    }
    if (at != inner->size()) return nullptr;
    d->input = Reshaped(b, d->input, *sizes);
    d->block_size = std::move(blocks);
    for (Value** v : {&d->scale, &d->zero_point})
      if (*v) *v = Reshaped(b, *v, (*v)->type().StaticNumel() == 1 ? ir::Ints(sizes->size(), 1) : counts);
    return Emit(b, *d);
  }

  // A product's matrix of integers that nothing scales: the scale is 1.
  Value* Unscaled(Node* n, Builder& b) {
    const std::string_view name = MatrixOf(*n);
    if (name.empty()) return nullptr;
    Value* matrix = n->Get(name).value();
    for (const Node* user : matrix->users())
      if (MatrixOf(*user).empty() || g_.IsOutput(matrix)) return nullptr;  // floats are needed anyway
    const Difference d = Read(matrix, b);
    if (!d || IsFloat8(d.q->dtype()) || (d.zero.value() && !IsByte(d.zero.value()->dtype()))) return nullptr;
    if (Value* w = Make(b, d, b.ScalarTensor(1.0, DType::kFloat32), std::nullopt, matrix->dtype())) n->SetArg(name, w);
    return nullptr;
  }

  // Between which numbers the integers of a matrix are, and which zero points are none.
  Value* Narrowed(Node* n, Builder& b) {
    auto d = ReadDequantized(n->output());
    if (!d || !IsStored(d->input) || !IsByte(d->input->dtype())) return nullptr;
    std::optional<std::pair<int64_t, int64_t>> range;
    if (const auto of = StoredRange(d->input))
      for (std::pair<int64_t, int64_t> least : {std::pair(-2, 1), {0, 3}, {-8, 7}, {0, 15}})
        if (!range && of->first >= least.first && of->second <= least.second) range = least;
    Value* zero = d->zero_point;
    if (zero && !d->float_zero_point && IsStored(zero) && ir::IsIntegral(zero->dtype()))
      if (StoredRange(zero) == std::pair<int64_t, int64_t>(0, 0)) zero = nullptr;
    if (range == d->range && zero == d->zero_point) return nullptr;
    if (!d->float_zero_point) d->range = range;
    d->zero_point = zero;
    return Emit(b, *d);
  }

  ir::Graph& g_;
};

}  // namespace

absl::Status RecognizeQuantization(ir::Program& p) {
  auto hoisted = HoistLookups(*p.graph);
  if (!hoisted.ok()) return hoisted.status();
  if (absl::Status s = QuantizationRecognizer(p).Run(); !s.ok()) return s;
  LowerLookups(*p.graph, *hoisted);
  return EliminateDeadCode(p);
}

}  // namespace slipway::passes
