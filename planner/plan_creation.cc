// Tensors made of numbers, and parts of matrices.
#include "base/text.h"
#include "ir/ops/op_table.h"
#include "planner/rules.h"

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
void Full(PlanContext& c) { c.Return(c.Full(c.out_sizes(), c.scalar("fill_value"), c.out_dtype())); }
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
    c.Emit("arange", {}, {out}, out.dtype, {*first, *by});
  else
    c.Emit("arange", {}, {out}, out.dtype, {}, {Real(*first), Real(*by)});
  c.Return(out);
}
void Linspace(PlanContext& c) {
  const auto start = c.expr(c.scalar("start")), end = c.expr(c.scalar("end"));
  if (!start || !end) return c.Unsupported("bounds are not known");
  Operand out = c.Result();
  c.Emit("linspace", {}, {out}, out.dtype, {}, {Real(*start), Real(*end)});
  c.Return(out);
}
void Eye(PlanContext& c) {
  Operand out = c.Full(c.out_sizes(), Int(0), c.out_dtype());
  if (!c.ok()) return;
  c.Emit("fill", {}, {Diagonal(out, 0, 0, 1)}, out.dtype, {1});
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
  c.Emit(c.kernel(), {x}, {out}, out.dtype, {c.n("diagonal")});
  c.Return(out);
}

constexpr PlanFamily kFamilies[] = {
    {Zeros, "", "zeros zeros_like new_zeros"},
    {Ones, "", "ones ones_like new_ones"},
    {Full, "", "full full_like new_full"},
    {ScalarTensor, "", "scalar_tensor"},
    {Filled, "", "fill.Scalar fill.Tensor"},
    {Arange, "", "arange arange.start arange.start_step"},
    {Linspace, "", "linspace"},
    {Eye, "", "eye eye.m"},
    {DiagEmbed, "", "diag_embed"},
    {Triangle, "", "tril triu"},
};

}  // namespace

absl::Span<const PlanFamily> CreationPlans() { return kFamilies; }

}  // namespace slipway::planner
