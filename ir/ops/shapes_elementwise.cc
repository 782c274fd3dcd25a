// Shape functions: elementwise operators, casts and copies.
#include "ir/ops/shape_rules.h"

namespace slipway::ir {
namespace {

void RealLikeSelf(InferContext& c) {  // abs: complex numbers become their real type
  Value* x = Self(c);
  c.Out(ToReal(x->dtype()), x->sizes());
}
void Angle(InferContext& c) {
  Value* x = Self(c);
  c.Out(FloatOf(ToReal(x->dtype())), x->sizes());
}
void FloatSecond(InferContext& c) {  // polygamma(n, self)
  Value* x = TensorAt(c, 1);
  c.Out(FloatOf(x->dtype()), x->sizes());
}
void BroadcastFloat(InferContext& c) {
  Operands o = OperandsAt(c, {0, 1});
  c.Out(c.FloatResultType(o.tensors, o.scalars), c.Broadcast(o.shapes));
}
void BroadcastBool(InferContext& c) {
  Operands o = OperandsAt(c, {0, 1});
  c.Out(DType::kBool, c.Broadcast(o.shapes));
}
void BroadcastThree(InferContext& c) {
  Operands o = OperandsAt(c, {0, 1, 2});
  c.Out(c.ResultType(o.tensors, o.scalars), c.Broadcast(o.shapes));
}
void LikeSelfMasked(InferContext& c) {  // self's dtype, sizes of self and the mask
  NeedDType(c, TensorAt(c, 1), [](DType t) { return IsBool(t) || t == DType::kUInt8; }, "a mask");
  if (c.node().op().base.starts_with("masked_scatter"))
    NeedSameDType(c, {Self(c), TensorAt(c, 2)});
  else if (c.node().op().overload == "Tensor")
    NeedRank(c, TensorAt(c, 2), 0);
  Operands o = OperandsAt(c, {0, 1});
  c.Out(Self(c)->dtype(), c.Broadcast(o.shapes));
}
void FillWith(InferContext& c) {
  NeedRank(c, TensorAt(c, 1), 0);
  SameAsSelf(c);
}
// Copied from, or with probabilities from, a tensor that expands to self's sizes.
void FromExpanded(InferContext& c) {
  NeedExpands(c, TensorAt(c, 1)->sizes(), Self(c)->sizes(), "the second tensor");
  SameAsSelf(c);
}
// One scale and one zero point for each slice along an axis.
void FakeQuantizeChannels(InferContext& c) {
  Value *x = Self(c), *scale = c.tensor("scale"), *zero_point = c.tensor("zero_point");
  const int axis = c.dim("axis", x->rank());
  NeedRankAtLeast(c, x, 1);
  NeedRank(c, scale, 1);
  NeedSameSizes(c, zero_point->sizes(), scale->sizes(), "scales and zero points");
  c.RequireEqual(scale->sizes()[0], x->sizes()[axis], "scales and slices");
}
void LikeSelfChannels(InferContext& c) {
  FakeQuantizeChannels(c);
  SameAsSelf(c);
}
void LikeSelfAndMaskChannels(InferContext& c) {
  FakeQuantizeChannels(c);
  c.Out(Self(c)->dtype(), Self(c)->sizes());
  c.Out(DType::kBool, Self(c)->sizes());
}
void DivMode(InferContext& c) { c.has("rounding_mode") ? BroadcastFirstTwo(c) : BroadcastFloat(c); }
void FloatPower(InferContext& c) {
  Operands o = OperandsAt(c, {0, 1});
  bool complex = IsComplex(c.ResultType(o.tensors, o.scalars));
  c.Out(complex ? DType::kComplex128 : DType::kFloat64, c.Broadcast(o.shapes));
}
void Prelu(InferContext& c) {
  Value *x = Self(c), *w = TensorAt(c, 1);
  NeedSameDType(c, {x, w});
  if (c.node().op().base == "_prelu_kernel") {
    NeedExpands(c, w->sizes(), x->sizes(), "the slopes");
  } else {
    if (w->rank() > 1) return c.Fail("the slopes are no vector");
    const Sym n = w->rank() ? w->sizes()[0] : Sym(1);
    if (!n.is(1)) c.RequireEqual(n, x->rank() < 2 ? Sym(1) : x->sizes()[1], "slopes and channels");
  }
  SameAsSelf(c);
}
void Square(InferContext& c) {
  Value* x = Self(c);
  c.Out(IsBool(x->dtype()) ? DType::kInt64 : x->dtype(), x->sizes());
}
void Where(InferContext& c) {
  NeedDType(c, Self(c), [](DType t) { return IsBool(t) || t == DType::kUInt8; }, "a condition");
  Operands all = OperandsAt(c, {0, 1, 2}), values = OperandsAt(c, {1, 2});
  c.Out(c.ResultType(values.tensors, values.scalars), c.Broadcast(all.shapes));
}
void Lerp(InferContext& c) {  // the ends decide the dtype, the weight is of the same one
  Operands all = OperandsAt(c, {0, 1, 2}), ends = OperandsAt(c, {0, 1});
  NeedSameDType(c, {Self(c), TensorAt(c, 1)});
  c.Out(c.ResultType(ends.tensors), c.Broadcast(all.shapes));
}
void MakeComplex(InferContext& c) {
  Operands o = OperandsAt(c, {0, 1});
  c.Out(ToComplex(c.ResultType(o.tensors)), c.Broadcast(o.shapes));
}
void RealPart(InferContext& c) { RealLikeSelf(c); }
void Frexp(InferContext& c) {
  Value* x = Self(c);
  c.Out(x->dtype(), x->sizes());
  c.Out(DType::kInt32, x->sizes());
}
void Isin(InferContext& c) {  // the shape of elements, which may be a number
  Operands o = OperandsAt(c, {0});
  c.Out(DType::kBool, o.shapes.empty() ? Sizes{} : o.shapes[0]);
}

// Casts.
void CastTo(InferContext& c) {
  Value* x = Self(c);
  c.Out(c.dtype("dtype").value_or(x->dtype()), x->sizes());
}
void CastLikeSecond(InferContext& c) { c.Out(TensorAt(c, 1)->dtype(), Self(c)->sizes()); }
template <DType kTo>
void CastFixed(InferContext& c) {
  c.Out(kTo, Self(c)->sizes());
}
void LikeSelfAndMask(InferContext& c) {  // native_dropout
  Value* x = Self(c);
  c.Out(x->dtype(), x->sizes());
  c.Out(DType::kBool, x->sizes());
}

constexpr ShapeFamily kElementwiseFamilies[] = {
    {SameAsSelf,
     "neg negative positive sgn sign floor ceil round round.decimals trunc fix frac nan_to_num bitwise_not conj _conj "
     "_conj_physical conj_physical resolve_conj resolve_neg _neg_view clone alias detach detach_copy alias_copy "
     "contiguous "
     "lift lift_fresh lift_fresh_copy relu relu6 hardtanh hardsigmoid hardswish silu mish gelu elu selu "
     "celu leaky_relu log_sigmoid hardshrink softshrink threshold softplus rrelu glu_jvp dropout alpha_dropout "
     "feature_dropout feature_alpha_dropout fill.Scalar zero _pin_memory "
     "requires_grad_ bernoulli bernoulli.p uniform normal_functional exponential geometric cauchy "
     "log_normal random random.from random.to special_round "
     "_lazy_clone fake_quantize_per_tensor_affine "
     "fake_quantize_per_tensor_affine.tensor_qparams"},
    {FillWith, "fill.Tensor"},
    {FromExpanded, "copy bernoulli.Tensor"},
    {LikeSelfChannels, "fake_quantize_per_channel_affine"},
    {Prelu, "_prelu_kernel prelu"},
    {RealLikeSelf, "abs absolute"},
    {Angle, "angle"},
    {RealPart, "real imag"},
    {FloatLikeSelf,
     "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh arcsin arccos arctan arcsinh arccosh arctanh exp "
     "exp2 "
     "expm1 log log2 log10 log1p sqrt rsqrt reciprocal sigmoid erf erfc erfinv lgamma digamma logit deg2rad rad2deg i0 "
     "sinc mvlgamma special_airy_ai special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1 "
     "special_digamma special_entr special_erf special_erfc special_erfcx special_erfinv special_exp2 special_expit "
     "special_expm1 special_gammaln special_i0 special_i0e special_i1 special_i1e special_log1p special_log_ndtr "
     "special_logit special_modified_bessel_i0 special_modified_bessel_i1 special_modified_bessel_k0 "
     "special_modified_bessel_k1 special_multigammaln special_ndtr special_ndtri special_psi "
     "special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1 special_sinc special_spherical_bessel_j0"},
    {FloatSecond, "polygamma special_polygamma"},
    {BoolLikeSelf, "isnan isinf isfinite isposinf isneginf isreal signbit logical_not"},
    {BroadcastFirstTwo,
     "add.Tensor add.Scalar sub.Tensor sub.Scalar subtract.Tensor subtract.Scalar rsub.Tensor rsub.Scalar mul.Tensor "
     "mul.Scalar multiply.Tensor multiply.Scalar remainder.Tensor remainder.Scalar remainder.Scalar_Tensor fmod.Tensor "
     "fmod.Scalar floor_divide floor_divide.Scalar maximum minimum max.other min.other fmax fmin bitwise_and.Tensor "
     "bitwise_and.Scalar bitwise_and.Scalar_Tensor bitwise_or.Tensor bitwise_or.Scalar bitwise_or.Scalar_Tensor "
     "bitwise_xor.Tensor bitwise_xor.Scalar bitwise_xor.Scalar_Tensor bitwise_left_shift.Tensor "
     "bitwise_left_shift.Tensor_Scalar bitwise_left_shift.Scalar_Tensor bitwise_right_shift.Tensor "
     "bitwise_right_shift.Tensor_Scalar bitwise_right_shift.Scalar_Tensor __and__.Tensor __and__.Scalar __or__.Tensor "
     "__or__.Scalar __xor__.Tensor __xor__.Scalar __lshift__.Tensor __lshift__.Scalar __rshift__.Tensor "
     "__rshift__.Scalar pow.Tensor_Tensor pow.Tensor_Scalar pow.Scalar gcd lcm hypot nextafter heaviside logaddexp "
     "logaddexp2 clamp_min clamp_min.Tensor clamp_max clamp_max.Tensor"},
    {BroadcastFloat,
     "ldexp.Tensor div.Tensor div.Scalar divide.Tensor divide.Scalar true_divide.Tensor true_divide.Scalar atan2 "
     "arctan2 "
     "copysign.Tensor copysign.Scalar xlogy.Tensor xlogy.Scalar_Self xlogy.Scalar_Other special_xlogy "
     "special_xlogy.self_scalar special_xlogy.other_scalar special_xlog1py special_xlog1py.self_scalar "
     "special_xlog1py.other_scalar special_zeta special_zeta.self_scalar special_zeta.other_scalar igamma igammac "
     "special_gammainc special_gammaincc special_chebyshev_polynomial_t special_chebyshev_polynomial_t.n_scalar "
     "special_chebyshev_polynomial_t.x_scalar special_chebyshev_polynomial_u special_chebyshev_polynomial_u.n_scalar "
     "special_chebyshev_polynomial_u.x_scalar special_chebyshev_polynomial_v special_chebyshev_polynomial_v.n_scalar "
     "special_chebyshev_polynomial_v.x_scalar special_chebyshev_polynomial_w special_chebyshev_polynomial_w.n_scalar "
     "special_chebyshev_polynomial_w.x_scalar special_hermite_polynomial_h special_hermite_polynomial_h.n_scalar "
     "special_hermite_polynomial_h.x_scalar special_hermite_polynomial_he special_hermite_polynomial_he.n_scalar "
     "special_hermite_polynomial_he.x_scalar special_laguerre_polynomial_l special_laguerre_polynomial_l.n_scalar "
     "special_laguerre_polynomial_l.x_scalar special_legendre_polynomial_p special_legendre_polynomial_p.n_scalar "
     "special_legendre_polynomial_p.x_scalar special_shifted_chebyshev_polynomial_t "
     "special_shifted_chebyshev_polynomial_t.n_scalar special_shifted_chebyshev_polynomial_t.x_scalar "
     "special_shifted_chebyshev_polynomial_u special_shifted_chebyshev_polynomial_u.n_scalar "
     "special_shifted_chebyshev_polynomial_u.x_scalar special_shifted_chebyshev_polynomial_v "
     "special_shifted_chebyshev_polynomial_v.n_scalar special_shifted_chebyshev_polynomial_v.x_scalar "
     "special_shifted_chebyshev_polynomial_w special_shifted_chebyshev_polynomial_w.n_scalar "
     "special_shifted_chebyshev_polynomial_w.x_scalar"},
    {DivMode, "div.Tensor_mode div.Scalar_mode divide.Tensor_mode divide.Scalar_mode"},
    {FloatPower, "float_power.Tensor_Tensor float_power.Tensor_Scalar float_power.Scalar"},
    {Square, "square"},
    {BroadcastBool,
     "eq.Tensor eq.Scalar ne.Tensor ne.Scalar lt.Tensor lt.Scalar le.Tensor le.Scalar gt.Tensor gt.Scalar ge.Tensor "
     "ge.Scalar greater.Tensor greater.Scalar greater_equal.Tensor greater_equal.Scalar less.Tensor less.Scalar "
     "less_equal.Tensor less_equal.Scalar not_equal.Tensor not_equal.Scalar logical_and logical_or logical_xor "
     "isclose"},
    {BroadcastThree, "addcmul addcdiv clamp clamp.Tensor clip clip.Tensor"},
    {LikeSelfMasked, "masked_fill.Scalar masked_fill.Tensor masked_scatter"},
    {Where, "where.self where.ScalarSelf where.ScalarOther where.Scalar"},
    {Lerp, "lerp.Scalar lerp.Tensor"},
    {MakeComplex, "complex polar"},
    {Frexp, "frexp.Tensor"},
    {Isin, "isin.Tensor_Tensor isin.Tensor_Scalar isin.Scalar_Tensor"},
    {CastTo, "_to_copy to.dtype to.device to.dtype_layout /prims.convert_element_type.default"},
    {CastLikeSecond, "to.other type_as"},
    {CastFixed<DType::kUInt8>, "_cast_Byte"},
    {CastFixed<DType::kInt8>, "_cast_Char"},
    {CastFixed<DType::kFloat64>, "_cast_Double"},
    {CastFixed<DType::kFloat32>, "_cast_Float"},
    {CastFixed<DType::kFloat16>, "_cast_Half"},
    {CastFixed<DType::kInt32>, "_cast_Int"},
    {CastFixed<DType::kInt64>, "_cast_Long"},
    {CastFixed<DType::kInt16>, "_cast_Short"},
    {CastFixed<DType::kComplex32>, "chalf"},
    {LikeSelfAndMask,
     "native_dropout _fused_dropout fake_quantize_per_tensor_affine_cachemask "
     "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams"},
    {LikeSelfAndMaskChannels, "fake_quantize_per_channel_affine_cachemask"},
};

}  // namespace

absl::Span<const ShapeRow> ElementwiseShapes() {
  static const absl::Span<const ShapeRow> rows = ExpandFamilies(kElementwiseFamilies);
  return rows;
}

}  // namespace slipway::ir
