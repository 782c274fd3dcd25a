// Tensors made of numbers, and parts of matrices.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/floats.h"
#include "base/text.h"
#include "ir/ops/op_table.h"
#include "planner/lowering/rules.h"

namespace slipway::planner {
namespace {

ir::Scalar Int(int64_t v) {
  ir::Scalar s;
  s.i = v;
  s.d = static_cast<double>(v);
  return s;
}

void Zeros(PlanContext& c) { c.Return(c.Full(c.out_sizes(), Int(0), c.out_dtype())); }
void Ones(PlanContext& c) { c.Return(c.Full(c.out_sizes(), Int(1), c.out_dtype())); }
// One number that is known is a constant and no step.
void Full(PlanContext& c) {
  const ir::Scalar value = c.scalar("fill_value");
  const Dims sizes = c.out_sizes();
  const bool one = std::all_of(sizes.begin(), sizes.end(), [](Dim s) { return s.is(1); });
  if (c.ok() && one && value.is_constant() && value.kind != ir::Scalar::kComplex && std::fabs(value.d) < 0x1p53) {
    auto storage = std::make_shared<ir::Storage>();
    storage->bytes = ir::Splat{value.d};
    storage->size = static_cast<uint64_t>(ir::ByteSize(c.out_dtype()));
    if (auto bytes = ir::ReadDense({storage, c.out_dtype(), {}, {}, 0}); bytes.ok())
      return c.Return(c.Constant(c.out_dtype(), std::vector<int64_t>(sizes.size(), 1), *std::move(bytes)));
  }
  c.Return(c.Full(sizes, value, c.out_dtype()));
}
void ScalarTensor(PlanContext& c) { c.Return(c.Full({}, c.scalar("s"), c.out_dtype())); }
void Filled(PlanContext& c) { c.Return(c.Full(c.out_sizes(), c.scalar("value"), c.out_dtype())); }

bool IsInt(const ir::Scalar& s) {
  return s.kind == ir::Scalar::kInt || (s.kind == ir::Scalar::kValue && s.value->type().kind == ir::Type::kSymInt);
}
void Arange(PlanContext& c) {
  auto number = [&](const char* name, int64_t otherwise) {
    if (c.node().op().ArgIndex(name) < 0) return Int(otherwise);
    return c.opt_scalar(name).value_or(Int(otherwise));
  };
  const ir::Scalar start = number("start", 0), step = number("step", 1);
  const auto first = c.expr(start), by = c.expr(step);
  if (!first || !by) return c.Unsupported("bounds are not known");
  Operand out = c.Result();
  if (IsInt(start) && IsInt(step) && !ir::IsFloating(out.dtype))
    c.Emit("arange", {}, {out}, out.dtype, ArangeAttributes{*first, *by});
  else
    c.Emit("arange", {}, {out}, out.dtype, ArangeAttributes{Real(*first), Real(*by)});
  c.Return(out);
}
// A bound that is a number or a 0-d tensor.
std::optional<Dim> Bound(PlanContext& c, const char* name) {
  const ir::Value* v = c.node().Get(name).value();
  if (!v || !v->type().is_tensor()) return c.expr(c.scalar(name));
  Operand x = c.of(v);
  if (x.rank() != 0 || ir::IsComplex(x.dtype)) return std::nullopt;
  x = c.Cast(x, DType::kFloat64);
  const Dim e = c.builder().NewSymbol({});
  c.builder().Symbol(e, true);
  c.builder().Publish(e, x);
  return e;
}
void Linspace(PlanContext& c) {
  const auto start = Bound(c, "start"), end = Bound(c, "end");
  if (!start || !end) return c.Unsupported("bounds are not known");
  Operand out = c.Result();
  c.Emit("linspace", {}, {out}, out.dtype, LinspaceAttributes{Real(*start), Real(*end)});
  c.Return(out);
}
void Logspace(PlanContext& c) {
  const auto start = Bound(c, "start"), end = Bound(c, "end");
  if (!start || !end) return c.Unsupported("bounds are not known");
  Operand out = c.Result();
  // torch takes the bounds in the type of the result and computes in f64.
  auto bound = [&](const char* name, Dim otherwise) -> Real {
    if (out.dtype == DType::kFloat32 || out.dtype == DType::kFloat64) return Real(otherwise);
    const ir::Value* v = c.node().Get(name).value();
    const ir::Scalar s = v ? ir::Scalar() : c.scalar(name);
    if (v || !s.is_constant())
      c.Unsupported(text::StrCat("of ", ir::Name(out.dtype), " between bounds that are not known"));
    if (ir::IsIntegral(out.dtype)) return std::trunc(s.d);
    const auto single = static_cast<float>(s.d);
    return static_cast<double>(out.dtype == DType::kFloat16 ? static_cast<float>(F16(single))
                                                            : static_cast<float>(BF16(single)));
  };
  Operand powers = c.Temp(DType::kFloat64, out.sizes);
  c.Emit("linspace", {}, {powers}, DType::kFloat64, LinspaceAttributes{bound("start", *start), bound("end", *end)});
  ir::Scalar base;
  base.kind = ir::Scalar::kFloat;
  base.d = c.f("base");
  Operand number = c.number(base);
  Operand wide = c.Map("pow", {number, powers}, c.Temp(DType::kFloat64, out.sizes), DType::kFloat64);
  c.Return(c.Cast(wide, out.dtype));
}
// Windows of a known length, as constants.
void Window(PlanContext& c) {
  const int64_t n = c.i("window_length");
  const std::string_view name = c.node().op().base;
  const bool periodic = c.node().op().ArgIndex("periodic") < 0 || c.b("periodic");
  auto number = [&](const char* arg, double otherwise) {
    return c.node().op().ArgIndex(arg) >= 0 ? c.f(arg) : otherwise;
  };
  const double alpha = number("alpha", name == "hann_window" ? 0.5 : 0.54),
               beta = number("beta", name == "hann_window"     ? 0.5
                                     : name == "kaiser_window" ? 12.0
                                                               : 0.46);
  const DType t = c.out_dtype();
  if (!c.ok() || n < 0 || n > 1 << 24) return c.Unsupported("of this length");
  if (t != DType::kFloat32 && t != DType::kFloat64) return c.Unsupported(text::StrCat("of ", ir::Name(t)));
  std::string bytes;
  const double last = static_cast<double>(periodic ? n : n - 1);
  for (int64_t k = 0; k < n; ++k) {
    const double x = n == 1 ? 0 : static_cast<double>(k) / last, turn = 2 * std::numbers::pi * x;
    double w = 1;
    if (n == 1)
      w = 1;
    else if (name == "bartlett_window")
      w = 1 - std::fabs(2 * x - 1);
    else if (name == "blackman_window")
      w = 0.42 - 0.5 * std::cos(turn) + 0.08 * std::cos(2 * turn);
    else if (name == "kaiser_window")
      w = std::cyl_bessel_i(0.0, beta * std::sqrt(std::max(0.0, 1 - (2 * x - 1) * (2 * x - 1)))) /
          std::cyl_bessel_i(0.0, beta);
    else
      w = alpha - beta * std::cos(turn);
    const float single = static_cast<float>(w);
    if (t == DType::kFloat32)
      bytes.append(reinterpret_cast<const char*>(&single), 4);
    else
      bytes.append(reinterpret_cast<const char*>(&w), 8);
  }
  c.Return(c.Constant(t, {n}, std::move(bytes)));
}
// Rows and columns of the places on and below (above) a diagonal of a known matrix.
void TriangleIndices(PlanContext& c) {
  const int64_t rows = c.i("row"), columns = c.i("col"), offset = c.Shift(c.i("offset"));
  if (!c.ok() || rows < 0 || columns < 0 || rows > 1 << 14 || columns > 1 << 14) return c.Unsupported("of these sizes");
  Operand grid = c.Full({rows, columns}, Int(1), DType::kInt64), kept = c.Temp(DType::kInt64, {rows, columns});
  c.Emit(c.kernel(), {grid}, {kept}, DType::kInt64, TriangleAttributes{offset});
  Operand out = c.Result();
  if (!c.ok() || out.rank() != 2) return;
  Operand places = c.Temp(DType::kInt64, {out.sizes[1], 2});
  c.Emit("nonzero", {kept}, {places}, DType::kInt64);
  c.Copy(Swap(places, 0, 1), out);
  c.Return(out);
}
void Eye(PlanContext& c) {
  Operand out = c.Full(c.out_sizes(), Int(0), c.out_dtype());
  if (!c.ok()) return;
  c.Emit("fill", {}, {Diagonal(out, 0, 0, 1)}, out.dtype, FillAttributes{Dim(1)});
  c.Return(out);
}
void DiagEmbed(PlanContext& c) {
  Operand x = c.in("self"), out = c.Full(c.out_sizes(), Int(0), c.out_dtype());
  if (!c.ok()) return;
  const int a = c.dim("dim1", out.rank()), b = c.dim("dim2", out.rank());
  if (a == b) return c.Fail("dims are no plane");
  c.Copy(x, Diagonal(out, c.Shift(c.i("offset")), a, b));
  c.Return(out);
}
void Triangle(PlanContext& c) {
  Operand x = c.in("self"), out = c.Result();
  if (x.rank() < 2) return c.Fail("of less than 2 dims");
  c.Emit(c.kernel(), {x}, {out}, out.dtype, TriangleAttributes{c.n("diagonal")});
  c.Return(out);
}

constexpr PlanFamily kCreationFamilies[] = {
    {Zeros, "", "zeros zeros_like new_zeros zero"},
    // Uninitialized memory: torch's is anything, ours is zeros.
    {Zeros, "", "empty.memory_format empty_like new_empty empty_strided new_empty_strided empty_permuted"},
    {Ones, "", "ones ones_like new_ones"},
    {Full, "", "full full_like new_full"},
    {ScalarTensor, "", "scalar_tensor"},
    {Filled, "", "fill.Scalar fill.Tensor"},
    {Arange, "", "arange arange.start arange.start_step"},
    {Linspace, "", "linspace linspace.Tensor_Tensor linspace.Tensor_Scalar linspace.Scalar_Tensor"},
    {Logspace, "pow", "logspace logspace.Tensor_Tensor logspace.Tensor_Scalar logspace.Scalar_Tensor"},
    {Window, "",
     "bartlett_window bartlett_window.periodic blackman_window blackman_window.periodic hamming_window "
     "hamming_window.periodic hamming_window.periodic_alpha hamming_window.periodic_alpha_beta hann_window "
     "hann_window.periodic kaiser_window kaiser_window.periodic kaiser_window.beta"},
    {Arange, "arange", "range range.step"},
    {TriangleIndices, "tril", "tril_indices"},
    {TriangleIndices, "triu", "triu_indices"},
    {Eye, "", "eye eye.m"},
    {DiagEmbed, "", "diag_embed"},
    {Triangle, "", "tril triu"},
};

}  // namespace

absl::Span<const PlanFamily> CreationPlans() { return kCreationFamilies; }

}  // namespace slipway::planner
