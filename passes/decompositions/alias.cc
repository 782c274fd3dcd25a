// Decompositions: operators that are others by another name, or nothing at all for real numbers.
#include <algorithm>

#include "base/text.h"
#include "passes/decompositions/util.h"

namespace slipway::passes {
namespace {

// The two take the same arguments in the same order (their names may differ) and give the same results.
struct Twin {
  std::string_view op, as;
};
constexpr Twin kTwins[] = {
    {"aten.absolute.default", "aten.abs.default"},
    {"aten.arccos.default", "aten.acos.default"},
    {"aten.arccosh.default", "aten.acosh.default"},
    {"aten.arcsin.default", "aten.asin.default"},
    {"aten.arcsinh.default", "aten.asinh.default"},
    {"aten.arctan.default", "aten.atan.default"},
    {"aten.arctan2.default", "aten.atan2.default"},
    {"aten.arctanh.default", "aten.atanh.default"},
    {"aten.chain_matmul.default", "aten.linalg_multi_dot.default"},
    {"aten.det.default", "aten.linalg_det.default"},
    {"aten.ger.default", "aten.outer.default"},
    {"aten.greater.Scalar", "aten.gt.Scalar"},
    {"aten.greater.Tensor", "aten.gt.Tensor"},
    {"aten.greater_equal.Scalar", "aten.ge.Scalar"},
    {"aten.greater_equal.Tensor", "aten.ge.Tensor"},
    {"aten.inverse.default", "aten.linalg_inv.default"},
    {"aten.less.Scalar", "aten.lt.Scalar"},
    {"aten.less.Tensor", "aten.lt.Tensor"},
    {"aten.less_equal.Scalar", "aten.le.Scalar"},
    {"aten.less_equal.Tensor", "aten.le.Tensor"},
    {"aten.linalg_matmul.default", "aten.matmul.default"},
    {"aten.linalg_matrix_exp.default", "aten.matrix_exp.default"},
    {"aten.matrix_power.default", "aten.linalg_matrix_power.default"},
    {"aten.negative.default", "aten.neg.default"},
    {"aten.orgqr.default", "aten.linalg_householder_product.default"},
    {"aten.row_stack.default", "aten.vstack.default"},
    {"aten.slogdet.default", "aten.linalg_slogdet.default"},
    {"aten.special_digamma.default", "aten.digamma.default"},
    {"aten.special_erfc.default", "aten.erfc.default"},
    {"aten.special_erfinv.default", "aten.erfinv.default"},
    {"aten.special_gammainc.default", "aten.igamma.default"},
    {"aten.special_gammaincc.default", "aten.igammac.default"},
    {"aten.special_gammaln.default", "aten.lgamma.default"},
    {"aten.special_i0.default", "aten.i0.default"},
    {"aten.special_multigammaln.default", "aten.mvlgamma.default"},
    {"aten.special_polygamma.default", "aten.polygamma.default"},
    {"aten.special_psi.default", "aten.digamma.default"},
    {"aten.special_round.default", "aten.round.decimals"},
    {"aten.special_xlogy.other_scalar", "aten.xlogy.Scalar_Other"},
    {"aten.special_xlogy.self_scalar", "aten.xlogy.Scalar_Self"},
    {"aten.trapz.x", "aten.trapezoid.x"},
    {"aten.trapz.dx", "aten.trapezoid.dx"},
    {"aten._cdist_forward.default", "aten.cdist.default"},
    {"aten._pdist_forward.default", "aten.pdist.default"},
    {"aten._stack.default", "aten.stack.default"},
};

void Rename(Decomposer& d) {
  std::string_view as;
  for (const Twin& t : kTwins)
    if (t.op == d.node().op_name()) as = t.as;
  std::vector<Arg> args;
  for (const ir::ArgDef& a : d.node().op().args) args.push_back(d.node().Get(a.name));
  std::vector<ir::Type> types;
  for (size_t i = 0; i < d.node().outputs().size(); ++i)
    types.push_back(d.node().output(i) ? d.out_type(i) : ir::Type());
  d.Return(d.b.CallTyped(as, std::move(args), {}, std::move(types)));
}

// What only complex numbers feel. `resolve_*` and the like materialize views, which functional form has none of.
void RealIdentity(Decomposer& d) {
  Value* x = d.tensor("self");
  if (ir::IsComplex(x->dtype())) return d.Unsupported("complex numbers");
  d.Return(x);
}
void IsReal(Decomposer& d) {
  Value* x = d.tensor("self");
  if (ir::IsComplex(x->dtype())) return d.Unsupported("complex numbers");
  d.Return(d.b.Full(d.b.SizesOf(x), true, DType::kBool));
}
// The conjugate transpose; 0-d and 1-d stay as they are where torch allows them.
void Adjoint(Decomposer& d) {
  Value* x = d.tensor("self");
  if (ir::IsComplex(x->dtype())) return d.Unsupported("complex numbers");
  d.Return(x->rank() < 2 ? x : Transpose(d, x, -2, -1));
}
void CastTo(Decomposer& d) { d.Return(d.b.Cast(d.tensor("self"), d.out_type().dtype)); }

// The functional copy_: the source in the target's type and sizes.
void Copy(Decomposer& d) {
  Value* self = d.tensor("self");
  Value* src = d.b.Cast(d.tensor("src"), self->dtype());
  if (src->sizes() != self->sizes()) src = d.b.Call("aten.expand.default", {src, Arg(d.b.SizesOf(self))});
  d.Return(src);
}

constexpr DecomposeRow kAliasRows[] = {
    {"aten.copy.default", Copy, false},
    {"aten.real.default", RealIdentity, false},
    {"aten.conj.default", RealIdentity, false},
    {"aten._conj.default", RealIdentity, false},
    {"aten._conj_copy.default", RealIdentity, false},
    {"aten.conj_physical.default", RealIdentity, false},
    {"aten._conj_physical.default", RealIdentity, false},
    {"aten.resolve_conj.default", RealIdentity, false},
    {"aten.isreal.default", IsReal, false},
    {"aten.mH.default", Adjoint, false},
    {"aten.mH.a", Adjoint, false},
    {"aten.matrix_H.default", Adjoint, false},
    {"aten.matrix_H.a", Adjoint, false},
    {"aten.adjoint.default", Adjoint, false},
    {"aten._cast_Byte.default", CastTo, false},
    {"aten._cast_Char.default", CastTo, false},
    {"aten._cast_Double.default", CastTo, false},
    {"aten._cast_Float.default", CastTo, false},
    {"aten._cast_Half.default", CastTo, false},
    {"aten._cast_Int.default", CastTo, false},
    {"aten._cast_Long.default", CastTo, false},
    {"aten._cast_Short.default", CastTo, false},
};

}  // namespace

absl::Span<const DecomposeRow> AliasDecompositions() {
  static const auto& rows = *[] {
    auto* all = new std::vector<DecomposeRow>(std::begin(kAliasRows), std::end(kAliasRows));
    for (const Twin& t : kTwins) all->push_back({t.op, Rename, false});
    return all;
  }();
  return rows;
}

}  // namespace slipway::passes
