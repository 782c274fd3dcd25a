// Operators that work element by element.
#include <cmath>
#include <limits>

#include "base/text.h"
#include "ir/ops/op_table.h"
#include "ir/rounded.h"
#include "planner/lowering/rules.h"

namespace slipway::planner {
namespace {

bool IsNumber(const PlanContext& c, size_t i) {
  const ir::Value* v = c.node().Get(c.node().op().args[i].name).value();
  return !v || !v->type().is_tensor();
}

// torch's promoted dtype of the arguments at these positions.
DType Common(PlanContext& c, std::initializer_list<size_t> positions) {
  ir::Values tensors;
  std::vector<ir::Scalar> scalars;
  for (size_t i : positions) {
    const std::string& name = c.node().op().args[i].name;
    if (!IsNumber(c, i))
      tensors.push_back(c.node().Get(name).value());
    else if (auto s = c.opt_scalar(name))
      scalars.push_back(*s);
  }
  DType t = ir::ResultTypeOf(tensors, scalars);
  if (!NativeType(t)) c.Unsupported(text::StrCat("kernels have no ", ir::Name(t)));
  return t;
}

// What products and quotients of operands of a common dtype compute in. torch's kernels for f16 and bf16 take numbers
// and 0-d tensors in f32 but as the first operand; others are rounded to the common dtype first.
DType Arithmetic(DType common, absl::Span<const Operand> operands) {
  if (!ir::IsLowPrecision(common)) return common;
  for (const Operand& x : operands)
    if ((x.rank() > 0 || &x == operands.begin()) && x.dtype != common) return common;
  return DType::kFloat32;
}

// Floating-point functions: integers count as the result's dtype.
void FloatUnary(PlanContext& c) {
  Operand x = c.in(size_t{0});
  c.Return(c.Map(c.kernel(), {x}, c.Result(), c.out_dtype()));
}
void SameUnary(PlanContext& c) {
  Operand x = c.in(size_t{0});
  if (const std::string_view k = c.kernel(); x.dtype == DType::kUInt64) {  // which is never negative
    if (k == "abs" || k == "relu") return c.Return(x);
    if (k == "sign") return c.Return(c.Map("ne", {x, c.number({})}, c.Result(), x.dtype));
    if (k == "signbit") return c.Return(c.Map("lt", {x, c.number({})}, c.Result(), x.dtype));
  }
  c.Return(c.Map(c.kernel(), {x}, c.Result(), x.dtype));
}
void BitwiseNot(PlanContext& c) {
  Operand x = c.in(size_t{0});
  c.Return(c.Map(x.dtype == DType::kBool ? "logical_not" : "bitwise_not", {x}, c.Result(), x.dtype));
}
void Gelu(PlanContext& c) {
  const std::string how = c.str("approximate");
  if (how != "none" && how != "tanh") c.Unsupported(text::StrCat("approximate=\"", how, "\""));
  Operand x = c.in("self");
  c.Return(c.Map(how == "tanh" ? "gelu_tanh" : "gelu", {x}, c.Result(), c.out_dtype()));
}
template <typename Attributes>
void UnaryWith(PlanContext& c, const Attributes& a) {
  Operand x = c.in(size_t{0});
  c.Return(c.Map(c.kernel(), {x}, c.Result(), c.out_dtype(), a));
}
void Elu(PlanContext& c) { UnaryWith(c, kernels::EluAttributes{c.f("alpha"), c.f("scale"), c.f("input_scale")}); }
void LeakyRelu(PlanContext& c) { UnaryWith(c, kernels::LeakyReluAttributes{c.f("negative_slope")}); }
void Softplus(PlanContext& c) { UnaryWith(c, kernels::SoftplusAttributes{c.f("beta"), c.f("threshold")}); }
void Selu(PlanContext& c) {
  UnaryWith(c, kernels::EluAttributes{1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1});
}
void Celu(PlanContext& c) {
  const double alpha = c.f("alpha");
  UnaryWith(c, kernels::EluAttributes{alpha, 1, 1 / alpha});
}
void NanToNum(PlanContext& c) {
  Operand x = c.in("self");
  if (!ir::IsFloating(x.dtype)) return c.Return(x);
  const double most = x.dtype == DType::kFloat64    ? std::numeric_limits<double>::max()
                      : x.dtype == DType::kFloat16  ? 65504.0
                      : x.dtype == DType::kBFloat16 ? std::ldexp(255.0, 120)
                                                    : static_cast<double>(std::numeric_limits<float>::max());
  c.Return(c.Map("nan_to_num", {x}, c.Result(), x.dtype,
                 kernels::NanToNumAttributes{c.opt_f("nan").value_or(0), c.opt_f("posinf").value_or(most),
                                             c.opt_f("neginf").value_or(-most)}));
}

void Product(PlanContext& c) {
  Operand x = c.in(size_t{0}), y = c.in(size_t{1});
  c.Return(c.Map(c.kernel(), {x, y}, c.Result(), Arithmetic(Common(c, {0, 1}), {x, y})));
}
void Binary(PlanContext& c) {
  Operand x = c.in(size_t{0}), y = c.in(size_t{1});
  c.Return(c.Map(c.kernel(), {x, y}, c.Result(), Common(c, {0, 1})));
}
// Powers that torch has formulas of their own for.
void Power(PlanContext& c) {
  Operand x = c.in("self");
  const ir::Scalar exponent = c.scalar("exponent");
  const DType compute = Common(c, {0, 1});
  std::string_view kernel;
  if (exponent.is_constant() && ir::IsFloating(compute))
    kernel = exponent.d == 2      ? "square"
             : exponent.d == 0.5  ? "sqrt"
             : exponent.d == -0.5 ? "rsqrt"
             : exponent.d == -1   ? "reciprocal"
                                  : "";
  const bool rounds_once = compute == DType::kFloat32 || compute == DType::kFloat64;
  if (exponent.is_constant() && rounds_once && exponent.d == 3) {  // torch multiplies twice
    const Operand square = c.Map("square", {x}, c.Temp(compute, x.sizes), compute);
    return c.Return(c.Map("mul", {square, x}, c.Result(), compute));
  }
  if (kernel.empty()) return Binary(c);
  c.Return(c.Map(kernel, {x}, c.Result(), compute));
}
// Integers count as the result's floating dtype.
void FloatBinary(PlanContext& c) {
  Operand x = c.in(size_t{0}), y = c.in(size_t{1});
  c.Return(c.Map(c.kernel(), {x, y}, c.Result(), Arithmetic(c.out_dtype(), {x, y})));
}
void Compare(PlanContext& c) {
  Operand x = c.in(size_t{0}), y = c.in(size_t{1});
  c.Return(c.Map(c.kernel(), {x, y}, c.Result(), Common(c, {0, 1})));
}
// x + alpha·y, with the operands exchanged for rsub. All are rounded to the common dtype, numbers too (torch adds
// 1.703125 to bf16 for 1.702); the product is not.
void Scaled(PlanContext& c, bool subtract, bool exchange) {
  Operand x = c.in(size_t{0}), y = c.in(size_t{1});
  const DType compute = Common(c, {0, 1});
  if (exchange) std::swap(x, y);
  const auto alpha = c.opt_scalar("alpha");
  if (!alpha || (alpha->is_constant() && alpha->d == 1))
    return c.Return(c.Map(subtract ? "sub" : "add", {x, y}, c.Result(), compute));
  if (alpha->kind == ir::Scalar::kValue || alpha->kind == ir::Scalar::kComplex)
    return c.Unsupported("alpha is not a known number");
  if (ir::IsFloating(compute))
    return c.Return(c.Map("add_scaled", {x, y}, c.Result(), compute,
                          kernels::FactorAttributes{ir::Rounded(subtract ? -alpha->d : alpha->d, compute)}));
  if (alpha->kind == ir::Scalar::kFloat) return c.Fail("alpha is no integer");
  const int64_t factor = subtract ? static_cast<int64_t>(0 - static_cast<uint64_t>(alpha->i)) : alpha->i;
  c.Return(c.Map("add_scaled", {x, y}, c.Result(), compute, kernels::FactorAttributes{factor}));
}
void Add(PlanContext& c) { Scaled(c, false, false); }
void Sub(PlanContext& c) { Scaled(c, true, false); }
void Rsub(PlanContext& c) { Scaled(c, true, true); }

void DivideMode(PlanContext& c) {
  Operand x = c.in(size_t{0}), y = c.in(size_t{1});
  const auto mode = c.opt_str("rounding_mode");
  if (!mode) return FloatBinary(c);
  if (*mode != "floor" && *mode != "trunc") return c.Fail(text::StrCat("rounding_mode=\"", *mode, "\""));
  c.Return(
      c.Map(*mode == "floor" ? "div_floor" : "div_trunc", {x, y}, c.Result(), Arithmetic(Common(c, {0, 1}), {x, y})));
}
void Shift(PlanContext& c) {
  const DType common = Common(c, {0, 1});
  Operand x = c.in(size_t{0}), y = c.in(size_t{1});
  c.Return(c.Map(c.kernel(), {x, y}, c.Result(), common, kernels::ShiftAttributes{ir::BitSize(common)}));
}

// One weight, or one for each channel; those of the kernel's own operator are broadcast as any operand.
void Prelu(PlanContext& c) {
  const Operand x = c.in("self");
  Operand w = c.in("weight");
  if (w.rank() > 1) return c.Unsupported("a weight of more than one dim");
  if (w.rank() == 1) {
    Dims sizes(static_cast<size_t>(x.rank()), 1);
    if (x.rank() > 1) sizes[1] = w.sizes[0];
    w = c.Reshape(w, sizes);
  }
  c.Return(c.Map("prelu", {x, w}, c.Result(), c.out_dtype()));
}

void Where(PlanContext& c) {
  Operand condition = c.in("condition"), x = c.in("self"), y = c.in("other");
  c.Return(c.Map("where", {condition, x, y}, c.Result(), c.out_dtype()));
}
void MaskedFill(PlanContext& c) {
  Operand mask = c.in("mask"), value = c.in("value"), x = c.in("self");
  c.Return(c.Map("where", {mask, value, x}, c.Result(), c.out_dtype()));
}
void Clamp(PlanContext& c) {
  Operand x = c.in("self");
  const DType t = c.out_dtype();
  struct {
    const char* name;
    const char* kernel;
  } bounds[] = {{"min", "maximum"}, {"max", "minimum"}};
  bool any = false;
  for (const auto& b : bounds) {
    if (c.node().op().ArgIndex(b.name) < 0 || !c.has(b.name)) continue;
    Operand bound = c.in(b.name);
    x = c.Map(b.kernel, {x, bound}, c.Result(), t);
    any = true;
  }
  c.Return(any ? x : c.Cast(x, t));
}
void HardTanh(PlanContext& c) {
  Operand x = c.in("self"), least = c.in("min_val");
  Operand low = c.Map("maximum", {x, least}, c.Result(), c.out_dtype()), most = c.in("max_val");
  c.Return(c.Map("minimum", {low, most}, c.Result(), c.out_dtype()));
}
void Relu6(PlanContext& c) {
  ir::Scalar zero, six;
  six.i = 6, six.d = 6;
  Operand x = c.in("self"), least = c.number(zero);
  Operand low = c.Map("maximum", {x, least}, c.Result(), c.out_dtype()), most = c.number(six);
  c.Return(c.Map("minimum", {low, most}, c.Result(), c.out_dtype()));
}
void AddElementwiseProduct(PlanContext& c) {
  const auto value = c.scalar("value");
  if (!value.is_constant()) return c.Unsupported("value is not known");
  kernels::FactorAttributes a;
  if (ir::IsFloating(c.out_dtype()))
    a.factor = value.d;
  else if (value.kind == ir::Scalar::kInt || value.kind == ir::Scalar::kBool)
    a.factor = value.i;
  else
    return c.Fail("value is no integer");
  Operand x = c.in("self"), y = c.in("tensor1"), z = c.in("tensor2");
  c.Return(c.Map(c.kernel(), {x, y, z}, c.Result(), Arithmetic(c.out_dtype(), {x, y, z}), a));
}
void Lerp(PlanContext& c) {
  Operand x = c.in("self"), y = c.in("end"), w = c.in("weight");
  c.Return(c.Map("lerp", {x, y, w}, c.Result(), Arithmetic(c.out_dtype(), {x, y, w})));
}

// log(x / (1 - x)), of x kept within eps of 0 and 1.
void Logit(PlanContext& c) {
  Operand x = c.in("self");
  c.Return(c.Map("logit", {x}, c.Result(), c.out_dtype(), kernels::LogitAttributes{c.opt_f("eps").value_or(-1)}));
}
void RoundDecimals(PlanContext& c) {
  Operand x = c.in("self");
  const int64_t decimals = c.i("decimals");
  if (decimals < -30 || decimals > 30) return c.Unsupported("so many decimals");
  if (!ir::IsFloating(x.dtype)) return c.Unsupported(text::StrCat("of ", ir::Name(x.dtype)));
  if (decimals == 0) return c.Return(c.Map("round", {x}, c.Result(), x.dtype));
  const double power = std::pow(10.0, static_cast<double>(decimals < 0 ? -decimals : decimals));
  c.Return(c.Map("round_decimals", {x}, c.Result(), x.dtype,
                 kernels::RoundDecimalsAttributes{power, decimals < 0 ? 1.0 : 0.0}));
}
// x · 2^y
void Ldexp(PlanContext& c) {
  Operand x = c.in("self"), y = c.in("other");
  ir::Scalar two;
  two.kind = ir::Scalar::kFloat;
  two.d = 2;
  const DType t = ir::IsFloating(y.dtype) ? y.dtype : DType::kFloat32;
  Operand base = c.number(two), power = c.Map("pow", {base, y}, c.Temp(t, y.sizes), t);
  c.Return(c.Map("mul", {x, power}, c.Result(), Arithmetic(c.out_dtype(), {x, power})));
}
void FloatPower(PlanContext& c) {
  Operand x = c.in(size_t{0}), y = c.in(size_t{1});
  c.Return(c.Map("pow", {x, y}, c.Result(), DType::kFloat64));
}
void Glu(PlanContext& c) {
  Operand x = c.in("self");
  if (x.rank() == 0) return c.Fail("of a 0-d tensor");
  const int dim = c.dim("dim", x.rank());
  const Dims sizes = c.out_sizes();
  if (!c.ok()) return;
  c.RequireEqual(sizes[dim] * 2, x.sizes[dim], "the size is odd");
  const DType wide = ir::IsLowPrecision(x.dtype) ? DType::kFloat32 : x.dtype;
  Operand gate = c.Map("sigmoid", {Narrow(x, dim, sizes[dim], sizes[dim])}, c.Temp(wide, sizes), wide);
  c.Return(c.Map("mul", {Narrow(x, dim, 0, sizes[dim]), gate}, c.Result(), wide));
}
void Dropout(PlanContext& c) {
  if (c.b("train") && c.f("p") != 0) return c.Unsupported("dropout in training mode (call model.eval() before export)");
  c.Return(c.in(size_t{0}));
}

void Convert(PlanContext& c) { c.Return(c.Cast(c.in(size_t{0}), c.out_dtype())); }

constexpr PlanFamily kElementwiseFamilies[] = {
    {FloatUnary, "",
     "acos acosh asin asinh atan atanh cos cosh erf erfc exp exp2 expm1 frac hardsigmoid hardswish lgamma log log10 "
     "log1p "
     "log2 mish reciprocal rsqrt sigmoid silu sin sinh sqrt tan tanh"},
    {SameUnary, "", "abs ceil floor isfinite isinf isnan logical_not neg relu round sign signbit square trunc"},
    {SameUnary, "trunc", "fix"},
    {SameUnary, "sign", "sgn"},
    {FloatUnary, "exp2", "special_exp2"},
    {FloatUnary, "expm1", "special_expm1"},
    {FloatUnary, "log1p", "special_log1p"},
    {FloatUnary, "erf", "special_erf"},
    {FloatUnary, "sigmoid", "special_expit"},
    {BitwiseNot, "", "bitwise_not"},
    {Gelu, "", "gelu"},
    {Elu, "", "elu"},
    {LeakyRelu, "", "leaky_relu"},
    {Softplus, "", "softplus"},
    {Selu, "elu", "selu"},
    {Celu, "elu", "celu"},
    {NanToNum, "", "nan_to_num"},
    {Add, "", "add.Tensor add.Scalar"},
    {Sub, "", "sub.Tensor sub.Scalar subtract.Tensor subtract.Scalar"},
    {Rsub, "", "rsub.Tensor rsub.Scalar"},
    {Product, "mul", "mul.Tensor mul.Scalar multiply.Tensor multiply.Scalar"},
    {FloatBinary, "div", "div.Tensor div.Scalar divide.Tensor divide.Scalar true_divide.Tensor true_divide.Scalar"},
    {DivideMode, "div", "div.Tensor_mode div.Scalar_mode divide.Tensor_mode divide.Scalar_mode"},
    {Product, "div_floor", "floor_divide floor_divide.Scalar"},
    {Binary, "", "remainder.Tensor remainder.Scalar remainder.Scalar_Tensor fmod.Tensor fmod.Scalar"},
    {Binary, "", "pow.Tensor_Tensor pow.Scalar maximum minimum fmax fmin"},
    {Binary, "maximum", "max.other"},
    {Binary, "minimum", "min.other"},
    {Power, "pow", "pow.Tensor_Scalar"},
    {FloatBinary, "", "atan2 copysign.Tensor copysign.Scalar hypot"},
    {Compare, "",
     "eq.Tensor eq.Scalar ne.Tensor ne.Scalar lt.Tensor lt.Scalar le.Tensor le.Scalar gt.Tensor gt.Scalar ge.Tensor "
     "ge.Scalar logical_and logical_or logical_xor"},
    {Compare, "ne", "not_equal.Tensor not_equal.Scalar"},
    {Binary, "",
     "bitwise_and.Tensor bitwise_and.Scalar bitwise_and.Scalar_Tensor bitwise_or.Tensor bitwise_or.Scalar "
     "bitwise_or.Scalar_Tensor bitwise_xor.Tensor bitwise_xor.Scalar bitwise_xor.Scalar_Tensor"},
    {Binary, "bitwise_and", "__and__.Tensor __and__.Scalar"},
    {Binary, "bitwise_or", "__or__.Tensor __or__.Scalar"},
    {Binary, "bitwise_xor", "__xor__.Tensor __xor__.Scalar"},
    {Shift, "shift_left",
     "bitwise_left_shift.Tensor bitwise_left_shift.Tensor_Scalar bitwise_left_shift.Scalar_Tensor __lshift__.Tensor "
     "__lshift__.Scalar"},
    {Shift, "shift_right",
     "bitwise_right_shift.Tensor bitwise_right_shift.Tensor_Scalar bitwise_right_shift.Scalar_Tensor __rshift__.Tensor "
     "__rshift__.Scalar"},
    {Prelu, "", "prelu"},
    {Binary, "prelu", "_prelu_kernel"},
    {Where, "", "where.self where.ScalarSelf where.ScalarOther where.Scalar"},
    {MaskedFill, "", "masked_fill.Scalar masked_fill.Tensor"},
    {Clamp, "", "clamp clamp.Tensor clamp_min clamp_min.Tensor clamp_max clamp_max.Tensor clip clip.Tensor"},
    {HardTanh, "", "hardtanh"},
    {Relu6, "", "relu6"},
    {AddElementwiseProduct, "", "addcmul addcdiv"},
    {Lerp, "", "lerp.Scalar lerp.Tensor"},
    {Logit, "", "logit special_logit"},
    {RoundDecimals, "round", "round.decimals"},
    {Ldexp, "mul", "ldexp.Tensor"},
    {FloatPower, "pow", "float_power.Tensor_Tensor float_power.Tensor_Scalar float_power.Scalar"},
    {FloatBinary, "xlogy",
     "xlogy.Tensor xlogy.Scalar_Self xlogy.Scalar_Other special_xlogy special_xlogy.self_scalar "
     "special_xlogy.other_scalar"},
    {FloatBinary, "xlog1py", "special_xlog1py special_xlog1py.self_scalar special_xlog1py.other_scalar"},
    {Binary, "heaviside", "heaviside"},
    {Glu, "sigmoid", "glu"},
    {Dropout, "", "dropout"},
    {Convert, "",
     "to.dtype to.dtype_layout to.device to.other to.prim_Device _to_copy type_as alias alias_copy detach detach_copy "
     "clone contiguous "
     "lift_fresh lift_fresh_copy lift positive cpu"},
};

}  // namespace

absl::Span<const PlanFamily> ElementwisePlans() { return kElementwiseFamilies; }

}  // namespace slipway::planner
