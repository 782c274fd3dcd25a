// Shape functions: operators that make tensors from sizes and numbers.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "ir/ops/shape_rules.h"

namespace slipway::ir {
namespace {

DType DTypeOf(const Scalar& s) {
  switch (s.cls()) {
    case DTypeClass::kBool: return DType::kBool;
    case DTypeClass::kIntegral: return DType::kInt64;
    case DTypeClass::kComplex: return DType::kComplex64;
    default: return DType::kFloat32;
  }
}

void Zeros(InferContext& c) { c.Out(c.dtype("dtype").value_or(DType::kFloat32), c.ToSizes(c.sym_ints("size"))); }
void Full(InferContext& c) {
  c.Out(c.dtype("dtype").value_or(DTypeOf(c.scalar("fill_value"))), c.ToSizes(c.sym_ints("size")));
}
void ZerosLike(InferContext& c) { c.Out(c.dtype("dtype").value_or(Self(c)->dtype()), Self(c)->sizes()); }
void NewZeros(InferContext& c) { c.Out(c.dtype("dtype").value_or(Self(c)->dtype()), c.ToSizes(c.sym_ints("size"))); }
void ScalarTensor(InferContext& c) { c.Out(c.dtype("dtype").value_or(DType::kFloat32), {}); }
void Eye(InferContext& c) {
  Sym n = ExprOf(c.sym("n"));
  c.Out(c.dtype("dtype").value_or(DType::kFloat32), {n, c.node().op().ArgIndex("m") >= 0 ? ExprOf(c.sym("m")) : n});
}
void Linspace(InferContext& c) {
  bool complex = false;
  for (const char* name : {"start", "end"}) complex |= c.scalar(name).cls() == DTypeClass::kComplex;
  int64_t steps = c.i("steps");
  if (steps < 0) return c.Fail("the number of steps is negative");
  c.Out(c.dtype("dtype").value_or(complex ? DType::kComplex64 : DType::kFloat32), {steps});
}

// The numbers of an arange: how many, and the dtype where none is given.
struct Bound {
  Scalar s;
  bool is_float = false, known = true;
  Sym expr = 0;
};
Bound BoundOf(InferContext& c, std::string_view name, int64_t fallback) {
  Bound b;
  if (c.node().op().ArgIndex(name) < 0) {
    b.expr = fallback;
    b.s.i = fallback;
    b.s.d = static_cast<double>(fallback);
    return b;
  }
  b.s = c.scalar(name);
  b.is_float = b.s.cls() == DTypeClass::kFloating;
  if (b.s.kind != Scalar::kValue) {
    b.expr = b.s.i;
  } else if (b.s.value->type().is_sym()) {
    b.expr = b.s.value->type().expr;
    b.known = !b.is_float;
  } else {
    b.known = false;
  }
  return b;
}
void Arange(InferContext& c) {
  Bound start = BoundOf(c, "start", 0), end = BoundOf(c, "end", 0), step = BoundOf(c, "step", 1);
  bool is_float = start.is_float || end.is_float || step.is_float;
  DType dtype = c.dtype("dtype").value_or(is_float ? DType::kFloat32 : DType::kInt64);
  if (!c.ok()) return;
  // range, the forerunner of arange, includes the end.
  int64_t extra = c.node().op().base == "range" ? 1 : 0;
  if (!start.known || !end.known || !step.known) return c.Out(dtype, {c.FreshSize()});
  if (!is_float) {
    if (step.expr.is(0)) return c.Fail("a step of 0");
    bool down = step.expr.is_constant() && *step.expr.constant() < 0;
    Sym span = end.expr - start.expr;
    Sym n = extra ? FloorDiv(span, step.expr) + 1 : FloorDiv(span + step.expr - (down ? -1 : 1), step.expr);
    if (n.is_constant() && *n.constant() < 0) return c.Fail("the bounds and the sign of the step disagree");
    return c.Out(dtype, {n});
  }
  auto number = [](const Bound& b) -> std::optional<double> {
    if (b.is_float) return b.s.d;
    auto k = b.expr.constant();
    return k ? std::optional<double>(static_cast<double>(*k)) : std::nullopt;
  };
  auto from = number(start), to = number(end), by = number(step);
  if (!from || !to || !by) return c.Out(dtype, {c.FreshSize()});
  double n = extra ? std::floor((*to - *from) / *by) + 1 : std::ceil((*to - *from) / *by);
  if (!(n >= 0) || n > 9e15) return c.Fail("the number of elements is not a size");
  c.Out(dtype, {static_cast<int64_t>(n)});
}

// Elements on and below the diagonal `offset` of a rows x columns matrix.
int64_t LowerCount(int64_t rows, int64_t columns, int64_t offset) {
  int64_t n = 0;
  // Row r has clamp(r + 1 + offset, 0, columns): growing rows, then full ones.
  int64_t first = std::clamp<int64_t>(-offset, 0, rows), full = std::clamp<int64_t>(columns - offset - 1, first, rows);
  int64_t a = first + 1 + offset, b = full + offset;  // lengths of the first and last growing row
  n += (full - first) * (a + b) / 2;
  return n + (rows - full) * columns;
}
template <bool kLower>
void TriangleIndices(InferContext& c) {
  constexpr int64_t kLimit = int64_t{1} << 30;
  int64_t rows = c.i("row"), columns = c.i("col"), offset = c.i("offset");
  if (rows < 0 || columns < 0 || rows > kLimit || columns > kLimit) return c.Fail("sizes out of range");
  offset = std::clamp(offset, -rows - 1, columns + 1);
  int64_t n = kLower ? LowerCount(rows, columns, offset) : rows * columns - LowerCount(rows, columns, offset - 1);
  c.Out(c.dtype("dtype").value_or(DType::kInt64), {2, n});
}
void RandPerm(InferContext& c) { c.Out(c.dtype("dtype").value_or(DType::kInt64), {ExprOf(c.sym("n"))}); }
void Window(InferContext& c) { c.Out(c.dtype("dtype").value_or(DType::kFloat32), {c.i("window_length")}); }
void NormalOf(InferContext& c) {  // normal over tensors of means and deviations
  Operands o = OperandsAt(c, {0, 1});
  c.Out(c.ResultType(o.tensors), c.Broadcast(o.shapes));
}
void TensorOf(InferContext& c) { c.Out(c.dtype("dtype").value_or(DTypeOf(c.scalar("t"))), {}); }
void Iota(InferContext& c) { c.Out(c.dtype("dtype").value_or(DType::kInt64), {ExprOf(c.sym("length"))}); }

constexpr ShapeFamily kCreationFamilies[] = {
    {Zeros,
     "zeros ones empty.memory_format empty_strided empty_permuted rand rand.generator randn randn.generator "
     "randint randint.low randint.generator randint.low_generator normal.float_float"},
    {Full, "full"},
    {ZerosLike,
     "zeros_like ones_like empty_like full_like rand_like rand_like.generator randn_like randn_like.generator "
     "randint_like "
     "randint_like.low_dtype randint_like.Tensor randint_like.generator randint_like.low_generator_dtype "
     "randint_like.Tensor_generator"},
    {NewZeros, "new_zeros new_ones new_full new_empty new_empty_strided"},
    {ScalarTensor, "scalar_tensor"},
    {TensorOf, "tensor.bool tensor.int tensor.float tensor.complex"},
    {Eye, "eye eye.m"},
    {Linspace,
     "linspace linspace.Tensor_Tensor linspace.Tensor_Scalar linspace.Scalar_Tensor logspace logspace.Tensor_Tensor "
     "logspace.Tensor_Scalar logspace.Scalar_Tensor"},
    {Arange, "arange arange.start arange.start_step range range.step"},
    {TriangleIndices<true>, "tril_indices"},
    {TriangleIndices<false>, "triu_indices"},
    {RandPerm, "randperm randperm.generator"},
    {Window,
     "hann_window hann_window.periodic hamming_window hamming_window.periodic hamming_window.periodic_alpha "
     "hamming_window.periodic_alpha_beta bartlett_window bartlett_window.periodic blackman_window "
     "blackman_window.periodic kaiser_window kaiser_window.periodic kaiser_window.beta"},
    {NormalOf, "normal.Tensor_Tensor normal.Tensor_float"},
    {Iota, "/prims.iota.default"},
};

}  // namespace

absl::Span<const ShapeRow> CreationShapes() {
  static const absl::Span<const ShapeRow> rows = ExpandFamilies(kCreationFamilies);
  return rows;
}

}  // namespace slipway::ir
