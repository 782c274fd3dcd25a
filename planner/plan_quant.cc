// Quantized products: linear with a matrix of small integers (kernels/products/quant_linear.h), which decomposes where the kernel
// does not take it, and products of integers. Everything else about quantization is arithmetic (passes/decompose_quant.cc).
#include "base/text.h"
#include "planner/rules.h"

namespace slipway::planner {
namespace {

// Groups of fewer rows than these gain nothing.
constexpr int64_t kLeastGroup = 8;

bool IsByte(DType t) { return t == DType::kInt8 || t == DType::kUInt8; }
bool IsKernelFloat(DType t) { return t == DType::kFloat32 || ir::IsLowPrecision(t); }

// [1, groups] or [columns, groups] as [groups, columns].
Operand ByGroups(PlanContext& c, const Operand& x, Dim columns) { return Swap(c.Expand(x, {columns, x.sizes[1]}), 0, 1); }

void QuantizedLinear(PlanContext& c) {
  Operand x = c.in("input"), q = c.in("weight"), scale = c.in("scale"), zero = c.opt_in("zero_point"),
          bias = c.opt_in("bias");
  const DType arithmetic = c.dtype("arithmetic").value_or(DType::kFloat32), to = c.dtype("dtype").value_or(DType::kFloat32),
              rounded_scale = c.dtype("scale_dtype").value_or(scale.dtype);
  if (!c.ok()) return;
  if (x.rank() == 0 || q.rank() != 2 || scale.rank() != 2 || (zero && zero.rank() != 2)) return c.Fail("the operands are no matrices");
  if (!IsByte(q.dtype) || !IsKernelFloat(x.dtype) || !IsKernelFloat(scale.dtype) || !IsKernelFloat(arithmetic) ||
      !IsKernelFloat(to))
    return c.Unsupported("a matrix of these types");
  // Products are rounded once, scales too; a difference that is not exact is one of f32.
  const DType product = ir::PromoteTypes(arithmetic, rounded_scale);
  const DType rounded = product != DType::kFloat32 ? product : to;
  if ((product != DType::kFloat32 && product != to) || (rounded_scale != scale.dtype && scale.dtype != DType::kFloat32))
    return c.Unsupported("a matrix that is rounded twice");
  if (zero && zero.dtype != q.dtype && arithmetic != DType::kFloat32) return c.Unsupported("a zero point of other integers");
  if (bias && !IsKernelFloat(bias.dtype)) return c.Unsupported("a bias of another type");
  const Dim n = q.sizes[0];
  const auto k = q.sizes[1].constant(), groups = scale.sizes[1].constant();
  if (!k || !groups || *groups < 1 || *k < 1 || *k % *groups != 0) return c.Unsupported("groups of other sizes");
  if (*groups > 1 && *k / *groups < kLeastGroup) return c.Unsupported("small groups");
  if (zero) c.RequireEqual(zero.sizes[1], *groups, "zero points and scales do not agree");
  c.RequireEqual(x.sizes.back(), *k, "the sizes do not agree");
  Operand out = c.Result();
  if (!c.ok()) return;
  std::vector<Operand> in = {x, Swap(q, 0, 1), ByGroups(c, scale, n)};
  if (zero) in.push_back(ByGroups(c, zero, n));
  if (bias) in.push_back(c.Expand(bias, {n}));
  constexpr kernels::QuantPart kNone{};
  const int64_t parts = kernels::kQuantScale | (zero ? kernels::kQuantZero : kNone) | (bias ? kernels::kQuantBias : kNone);
  const DType before = rounded_scale == scale.dtype ? DType::kFloat32 : rounded_scale;
  if (c.ok())
    c.Emit("quant_linear", std::move(in), {out}, DType::kFloat32,
           kernels::QuantLinearAttributes{parts, *NativeType(rounded), *NativeType(before)});
  c.Return(out);
}

// int8 · int8 in int32.
void IntMm(PlanContext& c) {
  Operand x = c.in("self"), y = c.in("mat2"), out = c.Result();
  c.Emit("matmul", {x, y}, {out}, DType::kInt32);
  c.Return(out);
}

constexpr PlanFamily kFamilies[] = {
    {QuantizedLinear, "quant_linear", "/slipway.quantized_linear.default"},
    {IntMm, "matmul", "_int_mm"},
};

}  // namespace

absl::Span<const PlanFamily> QuantPlans() { return kFamilies; }

}  // namespace slipway::planner
