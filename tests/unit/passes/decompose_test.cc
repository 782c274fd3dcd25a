// Decompositions as the tables state them: every row names a known operator once, results keep the types that shape
// functions give, and a refusal says why. Their numbers are compared with torch's by the corpus tests.
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/text.h"
#include "ir/builder.h"
#include "ir/ops/op_table.h"
#include "passes/decompose.h"
#include "passes/pass.h"

namespace slipway::passes {
namespace {

using ir::Sizes;
using ir::Type;

TEST(Decompositions, NameKnownOperatorsOnce) {
  std::set<std::string_view> seen;
  for (const DecomposeRow* row : AllDecompositions()) {
    EXPECT_TRUE(ir::GetOp(row->op).known) << row->op;
    EXPECT_TRUE(seen.insert(row->op).second) << row->op << " has two rows";
  }
}

// A program of one node.
class OneNode {
 public:
  explicit OneNode(std::vector<Type> inputs) : b_(*program_.graph, nullptr, nullptr) {
    program_.form = ir::Form::kFunctional;
    for (Type& t : inputs) AddInput(std::move(t));
  }
  void AddInput(Type t) {
    x.push_back(program_.graph->AddInput(text::StrCat("x", x.size()), std::move(t)));
    program_.input_specs.push_back({});
  }
  ir::Sym Symbol(std::string_view name) { return program_.syms->Symbol(std::string(name)); }

  // Powers do so of integers only.
  static bool FallsApart(const ir::Node& n) {
    return FindDecomposition(n.op_name()) && !(n.op().base == "pow" && ir::IsFloating(n.output()->dtype()));
  }
  // The reasons of refusals after decomposing all that can be; "" when the results kept their types.
  std::string Legalized(std::string_view op, std::vector<Arg> args,
                        std::vector<std::pair<std::string_view, Arg>> named = {}) {
    Values out = b_.CallMulti(op, std::move(args), std::move(named));
    if (!b_.ok()) return std::string(b_.status().message());
    std::vector<std::string> before;
    for (Value* v : out) {
      before.push_back(v->type().ToString());
      program_.graph->outputs.push_back(v);
      program_.output_specs.push_back({});
    }
    Refusals refusals;
    absl::Status s = Legalize(program_, [](const ir::Node& n) { return !FallsApart(n); }, &refusals);
    if (!s.ok()) return std::string(s.message());
    for (const auto& [node, status] : refusals) return std::string(status.message());
    for (size_t i = 0; i < before.size(); ++i) {
      std::string now = program_.graph->outputs[i].value()->type().ToString();
      if (now != before[i]) return text::StrCat("result ", i, " was ", before[i], " and is ", now);
    }
    for (ir::Node* n : *program_.graph)
      if (FallsApart(*n)) return text::StrCat(n->op_name(), " is left");
    return "";
  }

  Values x;

 private:
  ir::Program program_;
  ir::Builder b_;
};

Type F32(Sizes s) { return Type::Tensor(DType::kFloat32, std::move(s)); }
Type F16(Sizes s) { return Type::Tensor(DType::kFloat16, std::move(s)); }
Type I64(Sizes s) { return Type::Tensor(DType::kInt64, std::move(s)); }

TEST(Decompositions, EinsumKeepsItsTypes) {
  auto einsum = [](std::string equation, std::vector<Type> types) {
    OneNode p(std::move(types));
    return p.Legalized("aten.einsum.default", {equation, p.x});
  };
  EXPECT_EQ(einsum("ij,jk->ik", {F32({2, 3}), F32({3, 4})}), "");
  EXPECT_EQ(einsum("bij,bjk", {F32({5, 2, 3}), F32({5, 3, 4})}), "");
  EXPECT_EQ(einsum("ii->i", {F32({3, 3})}), "");
  EXPECT_EQ(einsum("ii", {F32({3, 3})}), "");
  EXPECT_EQ(einsum("iijj->ji", {F32({3, 3, 4, 4})}), "");
  EXPECT_EQ(einsum("...ij, ...jk -> i...k", {F16({7, 1, 2, 3}), F16({6, 3, 4})}), "");
  EXPECT_EQ(einsum("i,j,k->kji", {I64({2}), I64({3}), I64({4})}), "");
  EXPECT_EQ(einsum("bn,anm,bm->ba", {F32({2, 3}), F32({5, 3, 4}), F32({2, 4})}), "");
  EXPECT_EQ(einsum("ij,ij->", {F32({2, 3}), F32({2, 1})}), "");
  EXPECT_EQ(einsum(",i->i", {F32({}), F32({3})}), "");
  EXPECT_NE(einsum("ij->k", {F32({2, 3})}), "");
}

TEST(Decompositions, IntegerPowersKeepTheirTypes) {
  for (DType t : {DType::kInt64, DType::kInt32, DType::kInt8, DType::kUInt8}) {
    OneNode p({Type::Tensor(t, {2, 3}), Type::Tensor(t, {3})}), q({Type::Tensor(t, {2})}), r({Type::Tensor(t, {2})});
    EXPECT_EQ(p.Legalized("aten.pow.Tensor_Tensor", {p.x[0], p.x[1]}), "");
    EXPECT_EQ(q.Legalized("aten.pow.Scalar", {3, q.x[0]}), "");
    EXPECT_EQ(r.Legalized("aten.pow.Scalar", {2, r.x[0]}), "");
  }
}

TEST(Decompositions, KeepSymbolicSizes) {
  for (auto& [op, args] : std::vector<std::pair<std::string_view, std::function<std::vector<Arg>(Values)>>>{
           {"aten.diff.default", [](Values x) { return std::vector<Arg>{x[0], 2}; }},
           {"aten.fft_fftshift.default", [](Values x) { return std::vector<Arg>{x[0]}; }},
           {"aten.tensor_split.sections", [](Values x) { return std::vector<Arg>{x[0], 3, 1}; }},
           {"aten.kron.default", [](Values x) { return std::vector<Arg>{x[0], x[0]}; }},
           {"aten.cdist.default", [](Values x) { return std::vector<Arg>{x[0], x[0]}; }},
           {"aten.inner.default", [](Values x) { return std::vector<Arg>{x[0], x[0]}; }},
           {"aten.atleast_3d.default", [](Values x) { return std::vector<Arg>{x[0]}; }},
           {"aten.linalg_norm.default", [](Values x) { return std::vector<Arg>{x[0], 1}; }},
           {"aten.renorm.default", [](Values x) { return std::vector<Arg>{x[0], 2, 0, 1.5}; }},
       }) {
    OneNode q({});
    q.AddInput(F32({q.Symbol("s0"), 6}));
    EXPECT_EQ(q.Legalized(op, args(q.x)), "") << op;
  }
}

TEST(Decompositions, LossesKeepTheirTypes) {
  OneNode a({F16({4, 5, 2}), I64({4, 2}), F16({5})});
  EXPECT_EQ(a.Legalized("aten.cross_entropy_loss.default", {a.x[0], a.x[1], a.x[2], 1, -100, 0.1}), "");
  OneNode b({F32({4, 5}), F32({4, 5})});
  EXPECT_EQ(b.Legalized("aten.cross_entropy_loss.default", {b.x[0], b.x[1], nullptr, 0, -100, 0.1}), "");
  OneNode c({F32({5}), I64({})});
  EXPECT_EQ(c.Legalized("aten.nll_loss_nd.default", {c.x[0], c.x[1], nullptr, 0}), "");
}

TEST(Decompositions, SpecialFunctionsKeepTheirTypes) {
  for (std::string_view op : {"lgamma", "digamma", "erfc", "erfinv", "i0", "special_ndtri", "special_airy_ai",
                              "special_bessel_y1", "special_scaled_modified_bessel_k1", "special_log_ndtr", "angle"}) {
    OneNode p({F16({2, 3})});
    p.AddInput(I64({p.Symbol("s0"), 3}));
    EXPECT_EQ(p.Legalized(text::StrCat("aten.", op, ".default"), {p.x[0]}), "") << op;
    OneNode q({});
    q.AddInput(I64({q.Symbol("s0"), 3}));
    EXPECT_EQ(q.Legalized(text::StrCat("aten.", op, ".default"), {q.x[0]}), "") << op;
  }
  for (std::string_view op : {"igamma", "special_zeta", "nextafter", "special_hermite_polynomial_h",
                              "special_shifted_chebyshev_polynomial_w", "special_legendre_polynomial_p"}) {
    OneNode p({});
    p.AddInput(F32({p.Symbol("s0"), 1}));
    p.AddInput(F32({3}));
    EXPECT_EQ(p.Legalized(text::StrCat("aten.", op, ".default"), {p.x[0], p.x[1]}), "") << op;
  }
  for (std::string_view op : {"gcd", "lcm"}) {
    OneNode p({I64({2, 3}), Type::Tensor(DType::kInt16, {3})});
    EXPECT_EQ(p.Legalized(text::StrCat("aten.", op, ".default"), {p.x[1], p.x[0]}), "") << op;
  }
  OneNode p({F16({4}), F32({4})});
  EXPECT_EQ(p.Legalized("aten.polygamma.default", {3, p.x[0]}), "");
  OneNode q({F16({4, 2})});
  EXPECT_EQ(q.Legalized("aten.frexp.Tensor", {q.x[0]}), "");
  OneNode r({F32({4, 2})});
  EXPECT_EQ(r.Legalized("aten.hash_tensor.default", {r.x[0], ir::Ints{1}}, {{"keepdim", true}}), "");
}

TEST(Decompositions, LinearAlgebraKeepsItsTypes) {
  for (std::string_view op :
       {"aten.linalg_lu.default", "aten.linalg_lu_factor_ex.default", "aten.linalg_qr.default", "aten.geqrf.default",
        "aten.linalg_svdvals.default", "aten.linalg_pinv.atol_rtol_float", "aten.linalg_matrix_rank.atol_rtol_float",
        "aten.linalg_cond.default", "aten.pinverse.default", "aten._lu_with_info.default"}) {
    OneNode q({});
    q.AddInput(F32({q.Symbol("s0"), q.Symbol("s1"), q.Symbol("s2")}));
    EXPECT_EQ(q.Legalized(op, {q.x[0]}), "") << op;
    OneNode tall({F32({5, 3})}), wide({F32({0, 2, 7})});
    EXPECT_EQ(tall.Legalized(op, {tall.x[0]}), "") << op;
    EXPECT_EQ(wide.Legalized(op, {wide.x[0]}), "") << op;
  }
  for (std::string_view op :
       {"aten.linalg_det.default", "aten.linalg_slogdet.default", "aten.logdet.default", "aten.linalg_inv_ex.default",
        "aten.linalg_cholesky_ex.default", "aten.cholesky_inverse.default", "aten.linalg_ldl_factor_ex.default",
        "aten.linalg_eigvalsh.default", "aten.matrix_exp.default"}) {
    OneNode q({});
    q.AddInput(F32({q.Symbol("s0"), q.Symbol("s1"), q.Symbol("s1")}));
    EXPECT_EQ(q.Legalized(op, {q.x[0]}), "") << op;
    OneNode one({F32({1, 1})}), none({F32({0, 0})});
    EXPECT_EQ(one.Legalized(op, {one.x[0]}), "") << op;
    EXPECT_EQ(none.Legalized(op, {none.x[0]}), "") << op;
  }
}

TEST(Decompositions, EigenvectorsOfFewRowsAreReturned) {
  for (int n : {0, 1, 2, 3}) {
    OneNode one({F32({n, n})}), stack({});
    EXPECT_EQ(one.Legalized("aten.linalg_eigh.default", {one.x[0], "U"}), "") << n;
    stack.AddInput(Type::Tensor(DType::kFloat64, {stack.Symbol("s0"), 2, n, n}));
    EXPECT_EQ(stack.Legalized("aten.linalg_eigh.default", {stack.x[0]}), "") << n;
  }
}

TEST(Decompositions, LinearAlgebraRefusesWhatHasNoOneAnswer) {
  OneNode eigh({F32({4, 4})}), unknown({});
  EXPECT_TRUE(text::Contains(eigh.Legalized("aten.linalg_eigh.default", {eigh.x[0]}), "LAPACK leaves their signs"));
  unknown.AddInput(F32({unknown.Symbol("s0"), unknown.Symbol("s0")}));
  EXPECT_TRUE(
      text::Contains(unknown.Legalized("aten.linalg_eigh.default", {unknown.x[0]}), "LAPACK leaves their signs"));
  OneNode complex({Type::Tensor(DType::kComplex64, {3, 3})});
  EXPECT_TRUE(text::Contains(complex.Legalized("aten.linalg_inv.default", {complex.x[0]}), "complex A"));
  OneNode lu({F32({3, 3})});
  EXPECT_TRUE(
      text::Contains(lu.Legalized("aten.linalg_lu.default", {lu.x[0]}, {{"pivot", false}}), "without pivoting"));
}

TEST(Decompositions, SayWhyTheyRefuse) {
  OneNode g({F32({3})});
  EXPECT_TRUE(text::Contains(g.Legalized("aten.polygamma.default", {1000, g.x[0]}), "an order above"));
  OneNode h({});
  h.AddInput(F32({h.Symbol("s0")}));
  EXPECT_TRUE(text::Contains(h.Legalized("aten.hash_tensor.default", {h.x[0]}), "over a symbolic size"));

  OneNode p({F32({3})});
  std::string why = p.Legalized("aten.rrelu.default", {p.x[0], 0.1, 0.3, true});
  EXPECT_TRUE(text::Contains(why, "aten.rrelu.default: random slopes")) << why;
}

}  // namespace
}  // namespace slipway::passes
