// Quantized products: linear with a matrix of small integers (kernels/gemm/dequant_linear.h) and rows of such a matrix,
// which decompose where the kernel does not take it, and products of integers. Everything else about quantization is
// arithmetic (passes/decompositions/quant.cc).
#include <cmath>

#include "base/text.h"
#include "passes/quantization/quantization.h"
#include "planner/lowering/rules.h"

namespace slipway::planner {
namespace {

// Groups of fewer rows than these gain nothing.
constexpr int64_t kMinGroup = 8;

bool IsByte(DType t) { return t == DType::kInt8 || t == DType::kUInt8; }
bool IsKernelFloat(DType t) { return t == DType::kFloat32 || ir::IsLowPrecision(t); }

// [1, groups] or [columns, groups] as [groups, columns].
Operand ByGroups(PlanContext& c, const Operand& x, Dim columns) {
  return Swap(c.Expand(x, {columns, x.sizes[1]}), 0, 1);
}

// The dequantized matrix of a node: its operands as the kernels take them, and what they do with them.
struct Matrix {
  Operand q, scale, zero;  // [k, n], [groups, n]; zero may be none
  kernels::QuantLinearAttributes attributes;
  Dim n;
  int64_t k = 0;
};
// Nullopt, with the reason said, where the kernels do not take it. `exact`: every rounding of the program is made.
std::optional<Matrix> ReadMatrix(PlanContext& c, bool exact) {
  Operand q = c.in("weight"), scale = c.in("scale"), zero = c.opt_in("zero_point");
  const DType arithmetic = c.dtype("arithmetic").value_or(DType::kFloat32),
              to = c.dtype("dtype").value_or(DType::kFloat32),
              rounded_scale = c.dtype("scale_dtype").value_or(scale.dtype);
  const bool added = c.str("zero_point_domain") == "float";  // behind the scale
  const auto low = c.opt_i("quant_min"), high = c.opt_i("quant_max");
  auto refuse = [&](std::string_view why) {
    c.Unsupported(std::string(why));
    return std::nullopt;
  };
  if (!c.ok()) return std::nullopt;
  if (q.rank() != 2 || scale.rank() != 2 || (zero && zero.rank() != 2)) {
    c.Fail("the operands are no matrices");
    return std::nullopt;
  }
  const bool float8 = q.dtype == DType::kFloat8E4M3FN || q.dtype == DType::kFloat8E5M2;
  if ((!IsByte(q.dtype) && (!float8 || zero)) || !IsKernelFloat(scale.dtype) || !IsKernelFloat(arithmetic) ||
      !IsKernelFloat(to))
    return refuse("a matrix of these types");
  // Products are rounded once, scales too; a difference that is not exact is one of f32.
  const DType product = ir::PromoteTypes(arithmetic, rounded_scale);
  const DType rounded = product != DType::kFloat32 ? product : to;
  if (exact && product != DType::kFloat32 && product != to) return refuse("a matrix that is rounded twice");
  if (exact && (rounded_scale != scale.dtype && scale.dtype != DType::kFloat32))
    return refuse("a matrix that is rounded twice");
  if (added && (!zero || !low || !high || *low < -128 || *high > 255 || *low > *high || !IsKernelFloat(zero.dtype) ||
                (exact && product != to)))
    return refuse("a zero point of floats of another form");
  if (zero && !added && zero.dtype != q.dtype && arithmetic != DType::kFloat32)
    return refuse("a zero point of other integers");
  const auto k = q.sizes[1].constant(), groups = scale.sizes[1].constant();
  if (!k || !groups || *groups < 1 || *k < 1 || *k % *groups != 0) return refuse("groups of other sizes");
  if (*groups > 1 && *k / *groups < kMinGroup) return refuse("small groups");
  if (zero) c.RequireEqual(zero.sizes[1], *groups, "zero points and scales do not agree");
  if (!c.ok()) return std::nullopt;
  Matrix m{Swap(q, 0, 1), ByGroups(c, scale, q.sizes[0]), zero ? ByGroups(c, zero, q.sizes[0]) : Operand{}, {}};
  constexpr kernels::QuantPart kNone{};
  const int64_t parts =
      kernels::kQuantScale | (zero ? kernels::kQuantZero : kNone) | (added ? kernels::kQuantAddedZero : kNone);
  const DType before = rounded_scale == scale.dtype ? DType::kFloat32 : rounded_scale;
  m.attributes = {parts, *NativeType(rounded), *NativeType(before), added ? (*low + *high + 1) / 2 : 0, exact};
  m.n = q.sizes[0], m.k = *k;
  return m;
}

void QuantizedLinear(PlanContext& c) {
  Operand x = c.in("input"), bias = c.opt_in("bias");
  auto m = ReadMatrix(c, c.builder().options().exact_casts);
  if (!m) return;
  if (x.rank() == 0) return c.Fail("the operands are no matrices");
  if (!IsKernelFloat(x.dtype)) return c.Unsupported("a matrix of these types");
  if (bias && !IsKernelFloat(bias.dtype)) return c.Unsupported("a bias of another type");
  c.RequireEqual(x.sizes.back(), m->k, "the sizes do not agree");
  Operand out = c.Result();
  if (!c.ok()) return;
  std::vector<Operand> in = {x, m->q, m->scale};
  if (m->zero) in.push_back(m->zero);
  if (bias) in.push_back(c.Expand(bias, {m->n})), m->attributes.parts |= kernels::kQuantBias;
  if (c.ok()) c.Emit("quant_linear", std::move(in), {out}, DType::kFloat32, m->attributes);
  c.Return(out);
}

// The rows of the table that are read; their roundings are the program's.
void QuantizedEmbedding(PlanContext& c) {
  Operand index = c.in("indices");
  auto m = ReadMatrix(c, true);
  if (!m) return;
  if (index.dtype != DType::kInt64 && index.dtype != DType::kInt32) index = c.Cast(index, DType::kInt64);
  Operand out = c.Result();
  if (!c.ok()) return;
  std::vector<Operand> in = {index, m->q, m->scale};
  if (m->zero) in.push_back(m->zero);
  c.Emit("quant_embedding", std::move(in), {out}, DType::kFloat32, m->attributes);
  c.Return(out);
}

void IntegerLinear(PlanContext& c) {
  Operand x = c.in("input"), x_scale = c.in("input_scale"), x_zero = c.opt_in("input_zero_point"), q = c.in("weight"),
          scale = c.in("scale"), zero = c.opt_in("zero_point"), bias = c.opt_in("bias");
  const DType rounded = c.dtype("rounded").value_or(DType::kFloat32);
  if (!c.ok()) return;
  if (x.rank() == 0 || q.rank() != 2 || scale.rank() != 2 || (zero && zero.rank() != 2))
    return c.Fail("the operands are no matrices");
  if (!IsByte(x.dtype) || !IsByte(q.dtype) || x_scale.dtype != DType::kFloat32 || !IsKernelFloat(scale.dtype) ||
      (x_zero && x_zero.dtype != x.dtype) || (zero && zero.dtype != q.dtype) ||
      (bias && bias.dtype != DType::kFloat32) || (rounded != DType::kFloat32 && rounded != DType::kBFloat16))
    return c.Unsupported("operands of these types");
  const Dim n = q.sizes[0];
  const auto k = q.sizes[1].constant(), groups = scale.sizes[1].constant();
  if (!k || !groups || *k < 1 || *k > kernels::kMaxIntegerTerms || *groups < 1 || *k % *groups != 0 ||
      (*groups > 1 && (*k / *groups % 8 != 0 || rounded != DType::kFloat32)))
    return c.Unsupported("groups of other sizes");
  if (zero) c.RequireEqual(zero.sizes[1], *groups, "zero points and scales do not agree");
  c.RequireEqual(x.sizes.back(), *k, "the sizes do not agree");
  Operand out = c.Result();
  if (!c.ok()) return;
  Dims rows(x.sizes.begin(), x.sizes.end());
  rows.back() = 1;
  std::vector<Operand> in = {c.Dense(x), Swap(q, 0, 1), ByGroups(c, scale, n)};
  if (zero) in.push_back(ByGroups(c, zero, n));
  in.push_back(c.Expand(x_scale, rows));
  if (x_zero) in.push_back(c.Expand(x_zero, rows));
  if (bias) in.push_back(c.Expand(bias, {n}));
  constexpr kernels::IntegerPart kNone{};
  const int64_t parts = (zero ? kernels::kIntegerZero : kNone) | (x_zero ? kernels::kIntegerInputZero : kNone) |
                        (bias ? kernels::kIntegerBias : kNone);
  if (c.ok())
    c.Emit("integer_linear", std::move(in), {out}, DType::kFloat32,
           kernels::IntegerLinearAttributes{parts, *NativeType(rounded)});
  c.Return(out);
}

// The number of an argument that is a tensor of one element, known now; what has others is computed by its
// decomposition.
std::optional<double> NumberOf(PlanContext& c, std::string_view name) {
  const ir::Value* v = c.node().Get(name).value();
  return v ? passes::StoredNumber(v) : std::optional(0.0);
}
// Whether a quantization of bytes is of one constant scale, in f32.
bool IsOfBytes(PlanContext& c, DType bytes) {
  const auto scale = NumberOf(c, "scale"), zero = NumberOf(c, "zero_point");
  const bool fits = IsByte(bytes) && passes::IsOneBlock(c.ints("block_size")) &&
                    c.dtype("arithmetic") == DType::kFloat32 && scale && zero && std::isfinite(*scale) && *scale > 0 &&
                    std::abs(*zero) <= 255 && *zero == std::floor(*zero);
  if (!fits) c.Unsupported("other scales than one constant one");
  return fits;
}
void Quantize(PlanContext& c) {
  Operand x = c.in("input");
  if (!c.ok() || !IsOfBytes(c, c.out_dtype())) return;
  const DType of_scale = c.node().Get("scale").value()->dtype();
  const int64_t low = c.i("quant_min"), high = c.i("quant_max");
  if (x.dtype != DType::kFloat32 || (of_scale != DType::kFloat32 && of_scale != DType::kFloat64) || low < -128 ||
      high > 255 || low > high)
    return c.Unsupported("quantization of these types");
  // The reciprocal is rounded to f32, whichever type the scale has.
  const kernels::QuantizeAttributes a{static_cast<int64_t>(*NumberOf(c, "zero_point")), low, high,
                                      static_cast<double>(static_cast<float>(1 / *NumberOf(c, "scale")))};
  c.Return(c.Map("quantize", {x}, c.ResultLike(x), DType::kFloat32, a));
}
void Dequantize(PlanContext& c) {
  Operand x = c.in("input");
  if (!c.ok() || !IsOfBytes(c, x.dtype)) return;
  const bool plain = c.node().Get("scale_dtype").is_none() && c.str("zero_point_domain") == "int" &&
                     c.node().Get("scale").value()->dtype() == DType::kFloat32 && c.out_dtype() == DType::kFloat32;
  if (!plain) return c.Unsupported("dequantization to these types");
  c.Return(
      c.Map("dequantize", {x}, c.ResultLike(x), DType::kFloat32,
            kernels::DequantizeAttributes{static_cast<int64_t>(*NumberOf(c, "zero_point")), *NumberOf(c, "scale")}));
}

void IntegerConv(PlanContext& c) {
  Operand x = c.in("input"), w = c.in("weight"), offset = c.in("offset"), scale = c.in("scale"),
          bias = c.opt_in("bias"), added = c.opt_in("added");
  if (!c.ok()) return;
  const std::string activation = c.str("activation");
  using kernels::Activation;
  kernels::IntegerConvAttributes a{};
  bool known = activation == "none";
  for (auto [name, is] : {std::pair("clamp", Activation::kClamp),
                          {"silu", Activation::kSilu},
                          {"hardswish", Activation::kHardSwish},
                          {"hardsigmoid", Activation::kHardSigmoid},
                          {"leaky_relu", Activation::kLeakyRelu}})
    if (activation == name) a.activation = is, known = true;
  if (!known) return c.Fail("the activation is unknown");
  if (x.dtype != DType::kUInt8 || w.dtype != DType::kUInt8 || offset.dtype != DType::kInt32 ||
      scale.dtype != DType::kFloat32 || (bias && bias.dtype != DType::kFloat32) ||
      (added && added.dtype != DType::kUInt8 && added.dtype != DType::kFloat32))
    return c.Unsupported("operands of these types");
  for (auto [name, to] :
       {std::pair("kernel_size", a.kernel), {"stride", a.stride}, {"padding", a.padding}, {"dilation", a.dilation}}) {
    const Ints numbers = c.ints(name, 2);
    if (numbers.size() != 2) return c.Fail("the sizes do not agree");
    std::copy(numbers.begin(), numbers.end(), to);
  }
  a.groups = c.i("groups");
  a.input_zero = c.i("input_zero_point"), a.added_zero = c.i("added_zero_point");
  a.zero_point = c.i("zero_point"), a.low = c.i("quant_min"), a.high = c.i("quant_max");
  a.min = c.f("min"), a.max = c.f("max"), a.added_scale = c.f("added_scale"), a.multiplier = c.f("multiplier");
  a.parts = (bias ? kernels::kIntegerConvBias : kernels::IntegerConvPart{}) |
            (added ? kernels::kIntegerConvAdded : kernels::IntegerConvPart{});
  Operand out = c.ResultChannelsLast();
  if (!c.ok()) return;
  const auto image = [](const Operand& t) { return Unsqueeze(t, 2); };
  std::vector<Operand> in = {image(x), Swap(w, 0, 1), offset, scale};
  if (bias) in.push_back(bias);
  if (added) in.push_back(image(added));
  c.Emit("integer_conv", std::move(in), {image(out)}, DType::kFloat32, a);
  c.Return(out);
}

void QuantizeRows(PlanContext& c) {
  Operand x = c.in("input");
  if (!c.ok()) return;
  if (x.rank() == 0 || !IsKernelFloat(x.dtype)) return c.Unsupported("rows of this type");
  const int64_t low = c.i("quant_min"), high = c.i("quant_max");
  const bool is_unsigned = c.dtype("dtype") == DType::kUInt8;
  if (low < (is_unsigned ? 0 : -128) || high > (is_unsigned ? 255 : 127) || low >= high)
    return c.Unsupported("integers of another range");
  std::vector<Operand> out = {c.Result(0), c.Result(1), c.Result(2)};
  if (c.ok())
    c.Emit("quantize_rows", {c.Dense(x)}, out, DType::kFloat32,
           kernels::QuantizeRowsAttributes{c.b("asymmetric"), low, high, c.f("eps")});
  c.Return(std::move(out));
}

// int8 · int8 in int32.
void IntMm(PlanContext& c) {
  Operand x = c.in("self"), y = c.in("mat2"), out = c.Result();
  c.Emit("matmul", {x, y}, {out}, DType::kInt32);
  c.Return(out);
}

constexpr PlanFamily kQuantFamilies[] = {
    {QuantizedLinear, "quant_linear", "/slipway.quantized_linear.default"},
    {QuantizedEmbedding, "quant_embedding", "/slipway.quantized_embedding.default"},
    {IntegerLinear, "integer_linear", "/slipway.integer_linear.default"},
    {Quantize, "quantize", "/slipway.quantize.default"},
    {Dequantize, "dequantize", "/slipway.dequantize.default"},
    {IntegerConv, "integer_conv", "/slipway.integer_conv.default"},
    {QuantizeRows, "quantize_rows", "/slipway.quantize_rows.default"},
    {IntMm, "matmul", "_int_mm"},
};

}  // namespace

absl::Span<const PlanFamily> QuantPlans() { return kQuantFamilies; }

}  // namespace slipway::planner
