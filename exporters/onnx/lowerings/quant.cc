// Quantized tensors as QuantizeLinear and DequantizeLinear, and as MatMulNBits where ONNX has no type for the weights.
//
// What is hard here: the numbers must stay those of the program in ONNX Runtime as it comes. It turns a
// DequantizeLinear that it can bring in front of a MatMul, as a [k, n] matrix, into its own product with *activations
// rounded to 8 bits* (accuracy level 4, errors of some per cent). So matrices stay as torch has them, [n, k], and
// products with them are Gemm with transB, which is computed as it is written. MatMulNBits says its level itself, 0:
// activations stay floats. Where activations are integers in the program, too, products of integers are what is wanted:
// those need zero points that are written out.
//
// The rows at the end say which form stands for what, by opset and OnnxForm. The other forms than kExact are what ONNX
// Runtime has fast products for (activations rounded to 8 bits): kPortable in standard operators, which it fuses as
// long as no ReLU follows; kOrt as MatMulNBits, or in the operators that become DynamicQuantizeMatMul.
#include <utility>

#include "exporters/onnx/lowerings/quant.h"
#include "exporters/onnx/lowerings/util.h"

namespace slipway::exporters::onnx_out {

using passes::Dequantized;

std::optional<DType> NibbleType(const std::optional<std::pair<int64_t, int64_t>>& range) {
  if (range && range->first >= -8 && range->second <= 7) return DType::kInt4;
  if (range && range->first >= 0 && range->second <= 15) return DType::kUInt4;
  return std::nullopt;
}

bool HasZeros(DType nibbles, const Dequantized& d) {
  const auto range = passes::StoredRange(d.zero_point);
  return passes::StoredTensor(d.zero_point) && d.zero_point->dtype() == d.input->dtype() &&
         d.zero_point->type().StaticNumel() == d.scale->type().StaticNumel() && range &&
         (nibbles == DType::kInt4 ? range->first >= -8 && range->second <= 7
                                  : range->first >= 0 && range->second <= 15);
}

bool FitsMatMulNBits(const ir::Node& n, const Dequantized& d) {
  const auto type = NibbleType(d.range);
  const auto sizes = d.input->type().StaticSizes();
  const int64_t block = d.block_size[1];
  if (!type || !sizes || d.float_zero_point || !passes::StoredTensor(d.input) || !passes::IsStored(d.scale) ||
      d.scale_dtype || d.product_dtype() != DType::kFloat32 || d.dtype != DType::kFloat32 ||
      n.output()->dtype() != DType::kFloat32 || block < 16 || (block & (block - 1)) != 0 || (*sizes)[1] % block != 0 ||
      d.scale->sizes()[0].constant() != (*sizes)[0])
    return false;
  if (!d.zero_point) return type == DType::kInt4;  // whose zero, 8, is the default
  return HasZeros(*type, d);
}

V Repeated(LoweringContext& c, double number, DType t, const Ints& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return c.e.Numbers(std::vector<double>(static_cast<size_t>(n), number), t, dims);
}
V Parameter(LoweringContext& c, ir::Value* v, DType t, const Ints& dims) {
  if (const ir::Node* n = v->producer(); n && n->op_name() == "aten.full.default") {
    const ir::Arg& fill = n->Get("fill_value");
    if (const double* number = fill.get<double>()) return Repeated(c, *number, t, dims);
    if (const int64_t* number = fill.get<int64_t>()) return Repeated(c, static_cast<double>(*number), t, dims);
  }
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  if (v->type().StaticNumel() != n) {
    const V one = c.e.Reshape(c.e.Cast(c.raw(v), t), Ints(dims.size(), 1));
    return c.e.Expand(one, c.e.I64(dims), static_cast<int>(dims.size()));
  }
  // A view of a weight has its elements in the same order.
  ir::Value* stored = v;
  while (stored->producer() && passes::IsReshape(*stored->producer()))
    stored = passes::FirstArgument(*stored->producer());
  if (passes::StoredTensor(stored) && stored->dtype() == t) return c.graph().StoredWeight(stored, {t, dims});
  const V x = c.e.Cast(c.raw(v), t);
  return v->type().StaticSizes() == dims ? x : c.e.Reshape(x, dims);
}

namespace {

bool IsByte(DType t) { return t == DType::kInt8 || t == DType::kUInt8; }

// How scales lie in a tensor: one for all, one for each place of a dim, or one for each `block` places of a dim and
// each of every other.
struct Layout {
  enum { kNone, kTensor, kAxis, kBlocks } kind = kNone;
  int axis = 0;
  int64_t block = 0;
};
Layout LayoutOf(const ir::Sizes& sizes, const Ints& block_size) {
  Layout l{Layout::kTensor};
  int single = 0, blocked = 0;
  for (int d = 0; d < static_cast<int>(sizes.size()); ++d) {
    if (block_size[d] == -1) continue;
    const auto size = sizes[d].constant();
    const bool one = block_size[d] == 1;
    if (block_size[d] < 1 || (!one && (!size || *size % block_size[d] != 0))) return {};
    (one ? single : blocked) += 1;
    if (!one || blocked == 0) l.axis = d, l.block = block_size[d];
  }
  if (blocked == 0 && single == 0) return l;
  l.kind = blocked == 0 && single == 1 ? Layout::kAxis : Layout::kBlocks;
  if (l.kind == Layout::kAxis) return l;
  // The blocks must be of one dim, with scales for all places of the others.
  if (blocked > 1) return {};
  if (blocked == 0) {  // by places of several dims: blocks of the dim that is left
    int whole = 0;
    for (int d = 0; d < static_cast<int>(sizes.size()); ++d)
      if (block_size[d] == -1) l.axis = d, l.block = sizes[d].constant().value_or(0), ++whole;
    return whole == 1 && l.block > 0 ? l : Layout{};
  }
  return single + 1 == static_cast<int>(sizes.size()) ? l : Layout{};
}

// A stored zero point that the type of the integers has.
bool IsPlainZero(const ir::Value* zero, DType integers) {
  if (!zero || !passes::IsStored(zero)) return !zero;
  if (zero->dtype() == integers) return true;
  const auto range = ir::IsIntegral(zero->dtype()) ? passes::StoredRange(zero) : std::nullopt;
  const auto [low, high] = integers == DType::kUInt8 ? std::pair(0, 255) : std::pair(-128, 127);
  return range && range->first >= low && range->second <= high;
}

// ---- slipway.dequantize

// Integers with stored scales. f32 has the product of a byte and a narrower scale exactly, so that computing in it and
// rounding afterwards is what the program does.
bool HasForm(const std::optional<Dequantized>& d, bool blocks) {
  if (!d || d->float_zero_point || !IsByte(d->input->dtype()) || !passes::IsStored(d->scale) ||
      !IsPlainZero(d->zero_point, d->input->dtype()) || d->product_dtype() == DType::kFloat64 ||
      d->dtype == DType::kFloat64)
    return false;
  const Layout l = LayoutOf(d->input->sizes(), d->block_size);
  const auto scales = d->scale->type().StaticNumel();
  const auto zeros = d->zero_point ? d->zero_point->type().StaticNumel() : scales;
  if (!scales || (zeros != scales && zeros != 1)) return false;
  switch (l.kind) {
    case Layout::kNone: return false;
    case Layout::kTensor: return scales == 1;
    case Layout::kAxis: return scales == d->input->sizes()[l.axis].constant();
    case Layout::kBlocks: break;
  }
  const auto n = d->input->type().StaticNumel();
  return n && *n == *scales * l.block && (blocks || l.axis + 1 == d->input->rank());
}

// One element, computed in the program.
bool IsComputed(const ir::Value* v, DType t) {
  return v->dtype() == t && v->type().StaticNumel() == 1 && !passes::IsStored(v);
}
// Integers of a whole tensor whose parameters are computed.
bool HasComputedForm(const std::optional<Dequantized>& d) {
  return d && IsByte(d->input->dtype()) && !passes::IsStored(d->input) && IsComputed(d->scale, DType::kFloat32) &&
         (!d->zero_point || IsComputed(d->zero_point, d->input->dtype())) && d->product_dtype() == DType::kFloat32 &&
         d->arithmetic == DType::kFloat32 && d->dtype == DType::kFloat32 && !d->float_zero_point &&
         LayoutOf(d->input->sizes(), d->block_size).kind == Layout::kTensor;
}
V ScalarOf(LoweringContext& c, ir::Value* v) { return c.e.Reshape(c.raw(v), Ints{}); }

bool IsConvolution(const ir::Node& n) { return n.op().base.starts_with("conv"); }

// Whether a convolution or product of dequantized operands ends in integers: its only user rounds it.
bool EndsInIntegers(const ir::Node& n);

// Stored tensors are for convolutions and look-ups: through other operators ONNX Runtime may move a DequantizeLinear
// until it is in front of a MatMul. Those get the steps, which a session computes once. So do convolutions of integers
// that end in floats, which ONNX Runtime has none of: it would dequantize their weights in each run, and not lay them
// out as its convolutions of floats want them.
template <bool blocks>
bool TakesDequantize(const ir::Node& n) {
  const auto d = passes::ReadDequantized(n.output());
  if (HasComputedForm(d)) return true;
  if (!HasForm(d, blocks)) return false;
  if (!passes::IsStored(d->input)) return true;
  for (const ir::Node* user : n.output()->users()) {
    if (!IsConvolution(*user) && user->op_name() != "aten.embedding.default") return false;
    if (IsConvolution(*user) && passes::ReadDequantized(user->Get("input").value()) && !EndsInIntegers(*user))
      return false;
  }
  return !n.graph()->IsOutput(n.output());
}

// With a zero point, 0 if it has none, where `integers` may be multiplied: without one ONNX Runtime goes on with
// floats.
V Dequantize(LoweringContext& c, const Dequantized& d, bool integers) {
  const Layout l = LayoutOf(d.input->sizes(), d.block_size);
  const auto sizes = d.input->type().StaticSizes();
  const int rank = d.input->rank();
  // Opset 21 has blocks and types of 4 bits; before, each block is a row of a matrix.
  const bool rows = l.kind == Layout::kBlocks && c.e.opset() < 21;
  auto nibbles = c.e.opset() >= 21 && passes::StoredTensor(d.input) && !integers ? NibbleType(d.range) : std::nullopt;
  if (nibbles && d.zero_point && !HasZeros(*nibbles, d)) nibbles.reset();
  V q = nibbles ? c.graph().StoredWeight(d.input, {*nibbles, *sizes, true}) : c.raw(d.input);
  if (rows) q = c.e.Reshape(q, Ints{-1, l.block});
  Ints shape;
  if (l.kind == Layout::kAxis || rows) {
    shape = {d.scale->type().StaticNumel().value_or(-1)};
  } else if (l.kind == Layout::kBlocks) {
    shape = *sizes;
    shape[l.axis] /= l.block;
  }
  V scale = d.scale_dtype ? c.e.Reshape(c.e.Cast(c.e.Cast(c.raw(d.scale), *d.scale_dtype), DType::kFloat32), shape)
                          : Parameter(c, d.scale, DType::kFloat32, shape);
  std::vector<V> in = {q, scale};
  if (d.zero_point)
    in.push_back(nibbles ? c.graph().StoredWeight(d.zero_point, {*nibbles, shape, true})
                         : Parameter(c, d.zero_point, q.dtype, shape));
  else if (integers && l.kind != Layout::kBlocks)
    in.push_back(Repeated(c, 0, q.dtype, shape));
  Attrs attrs;
  if (l.kind == Layout::kAxis || rows) attrs.emplace_back("axis", int64_t{rows ? 0 : l.axis});
  if (l.kind == Layout::kBlocks && !rows) attrs = {{"axis", int64_t{l.axis}}, {"block_size", l.block}};
  V y = c.e.Op("DequantizeLinear", in, std::move(attrs), DType::kFloat32, rows ? 2 : rank);
  if (rows) y = c.e.Reshape(y, c.shape_of(d.input), rank);
  if (ir::IsLowPrecision(d.product_dtype())) y = c.e.Cast(y, d.product_dtype());
  return c.e.Cast(y, d.dtype);
}
void DequantizeRow(LoweringContext& c) {
  const ir::Value* y = c.node().output();
  if (const auto d = passes::ReadDequantized(y); HasComputedForm(d)) {
    std::vector<V> in = {c.raw(d->input), ScalarOf(c, d->scale)};
    if (d->zero_point) in.push_back(ScalarOf(c, d->zero_point));
    return c.Return(c.e.Op("DequantizeLinear", in, {}, DType::kFloat32, d->input->rank()));
  }
  const auto users = y->users();
  const Dequantized d = *passes::ReadDequantized(y);
  const bool multiplied = !passes::IsStored(d.input) || (!users.empty() && IsConvolution(*users[0]));
  c.Return(Dequantize(c, d, multiplied));
}

// ---- slipway.quantize

// Activations with one scale, or a stored one for each place of a dim.
bool TakesQuantize(const ir::Node& n) {
  ir::ArgReader a(n);
  const ir::Value *x = a.tensor("input"), *scale = a.tensor("scale"), *zero = a.opt_tensor("zero_point");
  const Ints block = a.ints("block_size");
  const auto to = a.dtype("dtype");
  const Layout l = a.ok() && block.size() == static_cast<size_t>(x->rank()) ? LayoutOf(x->sizes(), block) : Layout{};
  if (!a.ok() || a.dtype("arithmetic") != DType::kFloat32 || x->dtype() != DType::kFloat32 || !to || !IsByte(*to))
    return false;
  if (IsComputed(scale, DType::kFloat32)) return (!zero || IsComputed(zero, *to)) && l.kind == Layout::kTensor;
  return passes::IsStored(scale) && IsPlainZero(zero, *to) && (l.kind == Layout::kTensor || l.kind == Layout::kAxis);
}
bool EndsInIntegers(const ir::Node& n) {
  const ir::Value* y = n.output();
  return y && y->users().size() == 1 && !n.graph()->IsOutput(y) &&
         y->users()[0]->op_name() == "slipway.quantize.default" && TakesQuantize(*y->users()[0]);
}
// The quotient in place of the product with the reciprocal: an integer may differ by one where a rounding of f32
// decides.
void Quantize(LoweringContext& c) {
  V x = c.in("input");
  const Layout l = LayoutOf(c.tensor("input")->sizes(), c.ints("block_size"));
  const DType to = c.out_dtype();
  ir::Value *scales = c.tensor("scale"), *zeros = c.opt_tensor("zero_point");
  const Ints shape = l.kind == Layout::kTensor ? Ints{} : Ints{*scales->type().StaticNumel()};
  const bool computed = IsComputed(scales, DType::kFloat32);
  const V scale = computed ? ScalarOf(c, scales) : Parameter(c, scales, DType::kFloat32, shape);
  const V zero = !zeros ? Repeated(c, 0, to, shape) : computed ? ScalarOf(c, zeros) : Parameter(c, zeros, to, shape);
  V q = c.e.Op("QuantizeLinear", {x, scale, zero}, {{"axis", int64_t{l.axis}}}, to, x.rank);
  const int64_t low = c.i("quant_min"), high = c.i("quant_max");
  const bool narrower = to == DType::kUInt8 ? low > 0 || high < 255 : low > -128 || high < 127;
  c.Return(narrower ? c.e.Op("Clip", {q, c.e.Integer(low, to), c.e.Integer(high, to)}) : q);
}

// ---- slipway.quantized_linear

template <bool blocks>
bool TakesLinear(const ir::Node& n) {
  const auto d = passes::ReadMatrix(n);
  const auto sizes = d ? d->input->type().StaticSizes() : std::nullopt;
  return sizes && (*sizes)[0] > 0 && (*sizes)[1] > 0 && ((!blocks && FitsMatMulNBits(n, *d)) || HasForm(d, blocks));
}

// In standard operators alone.
bool TakesGemm(const ir::Node& n) {
  const auto d = passes::ReadMatrix(n);
  return d && d->input->type().StaticSizes() && d->input->type().StaticNumel() != 0 && HasForm(d, false);
}

V MatMulNBits(LoweringContext& c, const Dequantized& d) {
  const Ints sizes = *d.input->type().StaticSizes();
  const int64_t block = d.block_size[1], groups = sizes[1] / block;
  // Unsigned, two in a byte, the first one low.
  const int add = d.range->first < 0 ? 8 : 0;
  std::vector<V> in = {c.in("input"),
                       c.graph().StoredWeight(d.input, {DType::kUInt8, {sizes[0], groups, block / 2}, true, add}),
                       Parameter(c, d.scale, DType::kFloat32, {sizes[0] * groups})};
  if (d.zero_point)
    in.push_back(
        c.graph().StoredWeight(d.zero_point, {DType::kUInt8, {sizes[0], (groups + 1) / 2}, true, add, groups}));
  Attrs attrs = {
      {"K", sizes[1]}, {"N", sizes[0]}, {"bits", int64_t{4}}, {"block_size", block}, {"accuracy_level", int64_t{0}}};
  return c.e.Custom("com.microsoft", "MatMulNBits", in, std::move(attrs), {&c.out_type()})[0];
}

// Whether activations come as integers with stored scales: the exact form of those is a product of integers.
bool HasIntegerInput(const ir::Node& linear) {
  const auto d = passes::ReadDequantized(linear.Get("input").value());
  return d && !passes::IsStored(d->input) && HasForm(d, false);
}

void QuantizedLinear(LoweringContext& c) {
  const Dequantized d = *passes::ReadMatrix(c.node());
  V x = c.in("input"), bias = c.opt_in("bias");
  if (c.e.opset() < 21 && c.e.form() != OnnxForm::kPortable && FitsMatMulNBits(c.node(), d)) {
    V y = MatMulNBits(c, d);
    return c.Return(bias ? c.e.Add(y, bias) : y);
  }
  // A product of two dims, whose operator is the one that takes a transposed matrix.
  const bool integers = HasIntegerInput(c.node());
  const int rank = x.rank;
  if (rank != 2) x = c.e.Reshape(x, c.e.I64({-1, *d.input->sizes()[1].constant()}), 2);
  std::vector<V> in = {x, c.e.Cast(Dequantize(c, d, integers), x.dtype)};
  // ONNX Runtime has a product of integers with a bias of floats only where it ends in integers.
  const bool adds = bias && integers && !EndsInIntegers(c.node());
  if (bias && !adds) in.push_back(c.e.Cast(bias, x.dtype));
  V y = c.e.Op("Gemm", in, {{"transB", int64_t{1}}}, x.dtype, 2);
  const auto biased = [&](V v) { return adds ? c.e.Add(v, c.e.Cast(bias, x.dtype)) : v; };
  if (rank == 2) return c.Return(biased(y));
  const auto sizes = c.out_type().StaticSizes();
  V shape = sizes ? c.e.I64(*sizes)
                  : c.e.Concat({c.e.Slice(c.e.Shape(c.in("input")), {0}, {rank - 1}, {0}),
                                c.e.I64({*d.input->sizes()[0].constant()})},
                               0);
  c.Return(biased(c.e.Reshape(y, shape, rank, true)));
}

// ---- slipway.quantized_linear in the forms that let the runtime round activations

// The stored tensor of scales or zero points, with as many elements in the same order and converted once at most; null
// for none.
ir::Value* StoredParameters(ir::Value* v) {
  const auto n = v->type().StaticNumel();
  bool cast = false;
  while (v->producer()) {
    ir::Value* source = passes::CastSource(v);
    if (source && std::exchange(cast, true)) return nullptr;
    if (!source && passes::IsReshape(*v->producer())) source = passes::FirstArgument(*v->producer());
    if (!source) return nullptr;
    v = source;
  }
  const ir::TensorRef* t = passes::StoredTensor(v);
  return t && t->is_contiguous() && t->numel() == n ? v : nullptr;
}

// A matrix [n, k] that is stored, or whose transpose is.
struct StoredMatrix {
  ir::Value* value = nullptr;
  Ints sizes, strides;
};
std::optional<StoredMatrix> ReadStored(ir::Value* v) {
  const passes::Permuted turned = passes::ReadPermutation(v);
  const bool is_turned = turned.source && turned.order == std::vector<int>{1, 0};
  ir::Value* stored = is_turned ? turned.source : v;
  const ir::TensorRef* t = passes::StoredTensor(stored);
  if (!t || t->sizes.size() != 2 || t->numel() == 0) return std::nullopt;
  StoredMatrix m = {stored, t->sizes, t->strides};
  if (is_turned) std::swap(m.sizes[0], m.sizes[1]), std::swap(m.strides[0], m.strides[1]);
  return m;
}

// Scales [n, k / block] as f32. `sizes` and `strides` say in which order, and how often, the elements are wanted.
V Scales(LoweringContext& c, const Dequantized& d, const Ints& dims, const Ints& sizes, const Ints& strides) {
  V scale;
  if (const auto number = passes::FilledNumber(d.scale)) {
    scale = Repeated(c, *number, d.scale->dtype(), dims);
  } else {
    ir::Value* stored = StoredParameters(d.scale);
    scale = c.e.Cast(c.graph().StoredWeight(stored, {stored->dtype(), dims, false, 0, 0, sizes, strides}),
                     d.scale->dtype());
  }
  if (d.scale_dtype) scale = c.e.Cast(scale, *d.scale_dtype);
  return c.e.Cast(scale, DType::kFloat32);
}

// Bytes whose scales and zero points are written, in the order that another form wants.
template <bool blocks>
bool IsRelaxed(const std::optional<Dequantized>& d) {
  if (!d || !HasForm(d, true) || !ReadStored(d->input) ||
      (!StoredParameters(d->scale) && !passes::FilledNumber(d->scale)))
    return false;
  const ir::Value* zero = d->zero_point;
  if (zero && (!passes::StoredTensor(zero) || !passes::StoredTensor(zero)->is_contiguous() ||
               zero->dtype() != d->input->dtype() || zero->type().StaticNumel() != d->scale->type().StaticNumel()))
    return false;
  return blocks || LayoutOf(d->input->sizes(), d->block_size).kind != Layout::kBlocks;
}

// DequantizeLinear of [k, n], by columns or by blocks of them, and MatMul.
template <bool blocks>
bool TakesPortable(const ir::Node& n) {
  return IsRelaxed<blocks>(passes::ReadMatrix(n)) && !HasIntegerInput(n);
}
void Portable(LoweringContext& c) {
  const Dequantized d = *passes::ReadMatrix(c.node());
  const StoredMatrix w = *ReadStored(d.input);
  const Ints sizes = w.sizes, turned = {sizes[1], sizes[0]};
  const Layout l = LayoutOf(d.input->sizes(), d.block_size);
  auto nibbles = c.e.opset() >= 21 ? NibbleType(d.range) : std::nullopt;
  if (nibbles && d.zero_point && !HasZeros(*nibbles, d)) nibbles.reset();
  const DType type = nibbles.value_or(d.input->dtype());
  const int64_t groups = l.kind == Layout::kBlocks ? sizes[1] / l.block : 1;
  Ints dims, view, strides;  // of scales and zero points
  if (l.kind == Layout::kAxis) dims = view = {sizes[0]}, strides = {1};
  if (l.kind == Layout::kBlocks) dims = view = {groups, sizes[0]}, strides = {1, groups};
  if (l.kind == Layout::kTensor) view = {1}, strides = {1};
  std::vector<V> in = {
      c.graph().StoredWeight(w.value, {type, turned, nibbles.has_value(), 0, 0, turned, {w.strides[1], w.strides[0]}}),
      Scales(c, d, dims, view, strides)};
  if (d.zero_point)
    in.push_back(c.graph().StoredWeight(d.zero_point, {type, dims, nibbles.has_value(), 0, 0, view, strides}));
  Attrs attrs;
  if (l.kind == Layout::kAxis) attrs = {{"axis", int64_t{1}}};
  if (l.kind == Layout::kBlocks) attrs = {{"axis", int64_t{0}}, {"block_size", l.block}};
  const V x = c.in("input"), bias = c.opt_in("bias");
  const V y = c.e.MatMul(x, c.e.Cast(c.e.Op("DequantizeLinear", in, std::move(attrs), DType::kFloat32, 2), x.dtype));
  c.Return(bias ? c.e.Add(y, c.e.Cast(bias, x.dtype)) : y);
}

// MatMulNBits of 4 or 8 bits that rounds activations, too, in blocks of the same size. Smaller ones are closer and
// slower: 32 in place of 128 takes a fifth to two fifths more time for 0.7 % of error in place of 0.8 %.
constexpr int64_t kLevel4Block = 128;
int64_t BlockIn(int64_t group) {
  const int64_t block = std::min(kLevel4Block, group & -group);
  return block < 16 ? 0 : block;
}
int64_t GroupOf(const Dequantized& d) {
  return d.block_size[1] == -1 ? *d.input->sizes()[1].constant() : d.block_size[1];
}
bool TakesRounding(const ir::Node& n) {
  const auto d = passes::ReadMatrix(n);
  if (!IsRelaxed<true>(d) || BlockIn(GroupOf(*d)) == 0 || HasIntegerInput(n)) return false;
  return d->zero_point || d->input->dtype() == DType::kInt8;  // whose zero, 8 or 128, is the default
}
void RoundingLinear(LoweringContext& c) {
  const Dequantized d = *passes::ReadMatrix(c.node());
  const StoredMatrix w = *ReadStored(d.input);
  const Ints& sizes = w.sizes;
  const int64_t group = GroupOf(d), block = BlockIn(group), groups = sizes[1] / group, blocks = sizes[1] / block;
  auto nibbles = NibbleType(d.range);
  if (nibbles && (d.zero_point ? !HasZeros(*nibbles, d) : *nibbles != DType::kInt4)) nibbles.reset();
  const bool packed = nibbles.has_value();
  const int add = packed ? (*nibbles == DType::kInt4 ? 8 : 0) : d.input->dtype() == DType::kInt8 ? 128 : 0;
  // A scale for each block: that of its group.
  const bool shared = d.block_size[0] == -1;
  const Ints view = {sizes[0], groups, group / block}, strides = {shared ? 0 : groups, 1, 0};
  std::vector<V> in = {
      c.in("input"),
      c.graph().StoredWeight(
          w.value, {DType::kUInt8, {sizes[0], blocks, packed ? block / 2 : block}, packed, add, 0, sizes, w.strides}),
      Scales(c, d, {sizes[0] * blocks}, view, strides)};
  if (d.zero_point)
    in.push_back(c.graph().StoredWeight(d.zero_point, {DType::kUInt8,
                                                       {sizes[0], packed ? (blocks + 1) / 2 : blocks},
                                                       packed,
                                                       add,
                                                       packed ? blocks : 0,
                                                       view,
                                                       strides}));
  const V x = c.e.Cast(in[0], DType::kFloat32), bias = c.opt_in("bias");
  in[0] = x;
  Attrs attrs = {{"K", sizes[1]},
                 {"N", sizes[0]},
                 {"bits", int64_t{packed ? 4 : 8}},
                 {"block_size", block},
                 {"accuracy_level", int64_t{4}}};
  ir::Type type = c.out_type();
  type.dtype = DType::kFloat32;
  V y = c.e.Custom("com.microsoft", "MatMulNBits", in, std::move(attrs), {&type})[0];
  c.Return(bias ? c.e.Add(y, c.e.Cast(bias, DType::kFloat32)) : y);
}

// Weights [n, k] of int8 without a zero point, with a scale a column or one for all.
bool IsPlainMatrix(const std::optional<Dequantized>& d) {
  return IsRelaxed<false>(d) && !d->zero_point && d->input->dtype() == DType::kInt8;
}
// A product of integers, scaled: `x` are integers of activations with one scale and zero point for all. Weights are
// unsigned, with zero point 128: sums of products of u8 and s8 saturate on processors with AVX2 only, unless `x` is
// narrow enough for pairs of products to fit 16 bits (2 · 127 · 128).
V ScaledIntegers(LoweringContext& c, const Dequantized& d, V x, V x_scale, V x_zero, bool narrow, V bias) {
  const StoredMatrix stored = *ReadStored(d.input);
  const Ints turned = {stored.sizes[1], stored.sizes[0]};
  const int shift = narrow ? 0 : 128;
  const DType type = narrow ? DType::kInt8 : DType::kUInt8;
  const V w = c.graph().StoredWeight(stored.value,
                                     {type, turned, false, shift, 0, turned, {stored.strides[1], stored.strides[0]}});
  const Ints scales = d.block_size[0] == -1 ? Ints{} : Ints{turned[1]}, view = scales.empty() ? Ints{1} : scales;
  const int rank = x.rank;
  V y = c.e.Op("MatMulInteger", {x, w, x_zero, c.e.Integer(shift, type)}, {}, DType::kInt32, rank);
  const V scale =
      c.e.Op("Mul", {x_scale, Scales(c, d, scales, view, {1})}, {}, DType::kFloat32, static_cast<int>(scales.size()));
  y = c.e.Mul(c.e.Cast(y, DType::kFloat32), scale);
  return bias ? c.e.Add(y, c.e.Cast(bias, DType::kFloat32)) : y;
}

// Integers that the target makes, with one scale for all of them.
bool TakesDynamic(const ir::Node& n) {
  const auto activations = ir::ArgReader(n).dtype("activations");
  return activations && IsByte(*activations) && IsPlainMatrix(passes::ReadMatrix(n));
}
void DynamicLinear(LoweringContext& c) {
  const V x = c.e.Cast(c.in("input"), DType::kFloat32);
  std::vector<V> q = c.e.OpN("DynamicQuantizeLinear", {x}, {}, {DType::kUInt8, DType::kFloat32, DType::kUInt8});
  q[0].rank = x.rank;
  c.Return(ScaledIntegers(c, *passes::ReadMatrix(c.node()), q[0], q[1], q[2], false, c.opt_in("bias")));
}

// Integers that the program makes, whose scale it computes: onnxruntime multiplies integers of stored scales only.
bool TakesComputed(const ir::Node& n) {
  constexpr int64_t kMostTerms = 1 << 16;  // of a sum in 32 bits
  const auto d = passes::ReadMatrix(n);
  return HasComputedForm(passes::ReadDequantized(n.Get("input").value())) && IsPlainMatrix(d) &&
         ReadStored(d->input)->sizes[1] <= kMostTerms && n.output()->dtype() == DType::kFloat32;
}
void ComputedLinear(LoweringContext& c) {
  const Dequantized x = *passes::ReadDequantized(c.tensor("input"));
  const ir::Node* quantize = passes::Producer(x.input, "slipway.quantize.default");
  const bool narrow = quantize && ir::ArgReader(*quantize).i("quant_max") <= 127;
  const DType integers = x.input->dtype();
  const V zero = x.zero_point ? ScalarOf(c, x.zero_point) : c.e.Integer(0, integers);
  c.Return(ScaledIntegers(c, *passes::ReadMatrix(c.node()), c.raw(x.input), ScalarOf(c, x.scale), zero, narrow,
                          c.opt_in("bias")));
}

// int8 x int8 -> int32.
void IntMm(LoweringContext& c) {
  c.Return(c.e.Op("MatMulInteger", {c.in("self"), c.in("mat2")}, {}, DType::kInt32, 2));
}

constexpr unsigned kExact = static_cast<unsigned>(OnnxForm::kExact),
                   kPortable = static_cast<unsigned>(OnnxForm::kPortable), kOrt = static_cast<unsigned>(OnnxForm::kOrt);
constexpr Row kQuantRows[] = {
    {"slipway.dequantize.default", DequantizeRow, false, 21, TakesDequantize<true>},
    {"slipway.dequantize.default", DequantizeRow, false, 0, TakesDequantize<false>, 20},
    {"slipway.quantize.default", Quantize, false, 0, TakesQuantize},
    {"slipway.quantized_linear.default", DynamicLinear, true, 0, TakesDynamic, kMaxOpset, kPortable | kOrt},
    {"slipway.quantized_linear.default", ComputedLinear, true, 0, TakesComputed},
    {"slipway.quantized_linear.default", RoundingLinear, true, 0, TakesRounding, kMaxOpset, kOrt},
    {"slipway.quantized_linear.default", Portable, true, 21, TakesPortable<true>, kMaxOpset, kPortable},
    {"slipway.quantized_linear.default", Portable, true, 0, TakesPortable<false>, 20, kPortable},
    {"slipway.quantized_linear.default", QuantizedLinear, true, 21, TakesLinear<true>},
    {"slipway.quantized_linear.default", QuantizedLinear, true, 0, TakesGemm, 20, kPortable},
    {"slipway.quantized_linear.default", QuantizedLinear, true, 0, TakesLinear<false>, 20, kExact | kOrt},
    {"aten._int_mm.default", IntMm},
};

}  // namespace

absl::Span<const Row> QuantRows() { return kQuantRows; }

}  // namespace slipway::exporters::onnx_out
