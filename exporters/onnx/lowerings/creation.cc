// Creation operators: filled tensors, ranges, identity, windows, random numbers, and tensors built by combining others.
#include <cmath>

#include "exporters/onnx/lowerings/data.h"

namespace slipway::exporters::onnx_out {
namespace {

using ir::IntOrValue;
using ir::Scalar;
using ir::SymInts;

// ---- Filled.
// The result's shape: constant where its type is static, else the argument.
V ShapeArg(LoweringContext& c, const char* name) {
  if (auto s = c.out_type().StaticSizes()) return c.e.I64(*s);
  return c.shape(c.sym_ints(name));
}
template <int value>
void Constant(LoweringContext& c) {
  c.Return(Filled(c.e, c.e.Integer(value, c.out_dtype()), ShapeArg(c, "size"), c.out_rank()));
}
void Full(LoweringContext& c) {
  if (c.out_rank() == 0) return c.Return(c.number(c.scalar("fill_value"), c.out_dtype()));
  c.Return(Filled(c.e, c.number(c.scalar("fill_value"), c.out_dtype()), ShapeArg(c, "size"), c.out_rank()));
}
template <int value>
void ConstantLike(LoweringContext& c) {
  c.Return(Filled(c.e, c.e.Integer(value, c.out_dtype()), c.shape_of(c.tensor("self")), c.out_rank()));
}
void FullLike(LoweringContext& c) {
  c.Return(Filled(c.e, c.number(c.scalar("fill_value"), c.out_dtype()), c.shape_of(c.tensor("self")), c.out_rank()));
}
void Fill(LoweringContext& c) {
  V v = Operand(c, "value", c.out_dtype());
  c.Return(Filled(c.e, v.rank > 0 ? c.e.Reshape(v, Ints{}) : v, c.shape_of(c.tensor("self")), c.out_rank()));
}

// ---- Ranges.
// A number that is whole, as the integer that a range of integers takes it for.
Scalar Whole(Scalar s) {
  constexpr double kExact = 1LL << 53;
  if (s.kind == Scalar::kFloat && s.d == std::trunc(s.d) && std::abs(s.d) <= kExact)
    s.kind = Scalar::kInt, s.i = static_cast<int64_t>(s.d);
  return s;
}
bool IsInteger(const Scalar& s) { return s.cls() == ir::DTypeClass::kIntegral || s.cls() == ir::DTypeClass::kBool; }

// start + i * step for i below `n` (0-d), in the precision torch uses.
V Ramp(LoweringContext& c, V n, const Scalar& start, const Scalar& step) {
  DType t = c.out_dtype();
  DType w = ir::IsFloating(t) || !IsInteger(start) || !IsInteger(step) ? DType::kFloat64 : DType::kInt64;
  V i = c.e.Cast(Iota(c.e, n), w);
  return c.e.Cast(c.e.Add(c.number(start, w), c.e.Mul(i, c.number(step, w))), t);
}
void Arange(LoweringContext& c) {
  const ir::OpDef& op = c.node().op();
  DType t = c.out_dtype();
  Scalar zero, one;
  one.i = 1, one.d = 1;
  Scalar start = op.ArgIndex("start") >= 0 ? c.scalar("start") : zero, end = c.scalar("end");
  Scalar step = op.ArgIndex("step") >= 0 ? c.scalar("step") : one;
  if (step.is_constant() && step.d == 0) return c.Fail("step is zero");
  if (!ir::IsFloating(t)) start = Whole(start), end = Whole(end), step = Whole(step);
  bool integers = IsInteger(start) && IsInteger(end) && IsInteger(step);
  if (integers) {
    V r = c.e.Op("Range", {c.number(start, DType::kInt64), c.number(end, DType::kInt64), c.number(step, DType::kInt64)},
                 {}, DType::kInt64, 1);
    return c.Return(c.e.Cast(r, t));
  }
  if (!ir::IsFloating(t) && (!IsInteger(start) || !IsInteger(step)))
    return c.Unsupported("an integer range with fractional bounds");
  V n;
  if (auto known = c.out_type().sizes[0].constant()) {
    n = c.e.I64Scalar(*known);
  } else {
    DType f = DType::kFloat64;
    V span = c.e.Div(c.e.Sub(c.number(end, f), c.number(start, f)), c.number(step, f));
    n = c.e.Max(c.e.Cast(c.e.Op("Ceil", {span}), DType::kInt64), c.e.I64Scalar(0));
  }
  c.Return(Ramp(c, n, start, step));
}
void RangeOp(LoweringContext& c) {  // torch.range: the end belongs to it
  const ir::OpDef& op = c.node().op();
  Scalar start = c.scalar("start"), step;
  step.i = 1, step.d = 1;
  if (op.ArgIndex("step") >= 0) step = c.scalar("step");
  auto n = c.out_type().sizes[0].constant();
  if (!n) return c.Unsupported("symbolic bounds");
  c.Return(Ramp(c, c.e.I64Scalar(*n), start, step));
}

// The points of linspace in `w`: counted from the start in the first half and from the end in the second, as torch
// rounds them. Integer results truncate the ends first.
V Points(LoweringContext& c, DType w) {
  int64_t steps = c.i("steps");
  DType t = c.out_dtype();
  auto end_point = [&](const char* name) {
    const ir::Arg& a = c.node().Get(name);
    V v;
    if (ir::Value* x = a.value(); x && x->type().is_tensor()) {
      v = c.value(x);
      if (v.rank > 0) v = c.e.Reshape(v, Ints{});
    } else {
      v = c.number(c.scalar(name), DType::kFloat64);
    }
    if (!ir::IsFloating(t)) v = c.e.Cast(v, DType::kInt64);
    return c.e.Cast(v, w);
  };
  V start = end_point("start"), end = end_point("end");
  if (steps < 0) return c.Fail("a negative number of steps"), start;
  if (steps == 1) return c.e.Reshape(start, {1});
  V n = c.e.I64Scalar(steps), i = Iota(c.e, n);
  V step = c.e.Div(c.e.Sub(end, start), c.e.Number(static_cast<double>(steps - 1), w));
  V up = c.e.Add(start, c.e.Mul(step, c.e.Cast(i, w)));
  V down = c.e.Sub(end, c.e.Mul(step, c.e.Cast(c.e.Sub(c.e.I64Scalar(steps - 1), i), w)));
  return c.e.Where(c.e.Less(i, c.e.I64Scalar(steps / 2)), up, down);
}
DType PointType(DType t) { return ir::IsFloating(t) ? Widened(t) : DType::kFloat64; }
void Linspace(LoweringContext& c) {
  V p = Points(c, PointType(c.out_dtype()));
  c.Return(c.e.Cast(ir::IsFloating(c.out_dtype()) ? p : c.e.Cast(p, DType::kInt64), c.out_dtype()));
}
void Logspace(LoweringContext& c) {
  V p = c.e.Cast(Points(c, PointType(c.out_dtype())), DType::kFloat64);
  V y = c.e.Pow(c.e.Number(c.f("base"), DType::kFloat64), p);
  c.Return(c.e.Cast(ir::IsFloating(c.out_dtype()) ? y : c.e.Cast(y, DType::kInt64), c.out_dtype()));
}

void Eye(LoweringContext& c) {
  IntOrValue n = c.sym("n"), m = c.node().op().ArgIndex("m") >= 0 ? c.sym("m") : n;
  V row = c.e.Unsqueeze(Iota(c.e, c.dim0(n)), {1}), column = Iota(c.e, c.dim0(m));
  c.Return(c.e.Cast(c.e.Equal(row, column), c.out_dtype()));
}

// ---- Windows: known lengths, so the numbers themselves.
double BesselI0(double x) {  // the series converges fast where windows use it
  double sum = 1, term = 1, q = x * x / 4;
  for (int k = 1; k < 500 && term > sum * 1e-17; ++k) sum += term *= q / (static_cast<double>(k) * k);
  return sum;
}
constexpr int64_t kMaxWindow = 1 << 22;

template <typename F>
void Window(LoweringContext& c, F&& value) {
  int64_t length = c.i("window_length");
  if (length < 0 || length > kMaxWindow) return c.Unsupported("a window of this length");
  bool periodic = c.node().op().ArgIndex("periodic") >= 0 ? c.b("periodic") : true;
  double n = static_cast<double>(periodic ? length : length - 1);
  std::vector<double> w;
  for (int64_t i = 0; i < length; ++i) w.push_back(length == 1 ? 1.0 : value(static_cast<double>(i) / n));
  c.Return(c.e.Numbers(w, c.out_dtype(), {length}));
}
constexpr double kTwoPi = 6.283185307179586476925286766559;

void Hann(LoweringContext& c) {
  Window(c, [](double u) { return 0.5 - 0.5 * std::cos(kTwoPi * u); });
}
void Hamming(LoweringContext& c) {
  const ir::OpDef& op = c.node().op();
  double alpha = op.ArgIndex("alpha") >= 0 ? c.f("alpha") : 0.54, beta = op.ArgIndex("beta") >= 0 ? c.f("beta") : 0.46;
  Window(c, [=](double u) { return alpha - beta * std::cos(kTwoPi * u); });
}
void Blackman(LoweringContext& c) {
  Window(c, [](double u) { return 0.42 - 0.5 * std::cos(kTwoPi * u) + 0.08 * std::cos(2 * kTwoPi * u); });
}
void Bartlett(LoweringContext& c) {
  Window(c, [](double u) { return u <= 0.5 ? 2 * u : 2 - 2 * u; });
}
void Kaiser(LoweringContext& c) {
  double beta = c.node().op().ArgIndex("beta") >= 0 ? c.f("beta") : 12.0;
  Window(c, [=](double u) {
    return BesselI0(beta * std::sqrt(std::max(0.0, 1 - (2 * u - 1) * (2 * u - 1)))) / BesselI0(beta);
  });
}

// ---- Random numbers: of the runtime's generator, never torch's sequence.
V Random(LoweringContext& c, std::string_view op, V shape, int rank, double a, double b) {
  bool uniform = op == "RandomUniformLike";
  V like = Filled(c.e, c.e.Number(0, DType::kFloat32), shape, rank);
  return c.e.Op(op, {like}, {{uniform ? "low" : "mean", a}, {uniform ? "high" : "scale", b}}, DType::kFloat32, rank);
}
V Uniform(LoweringContext& c, V shape, int rank, double low = 0, double high = 1) {
  return Random(c, "RandomUniformLike", shape, rank, low, high);
}
V Normal(LoweringContext& c, V shape, int rank, double mean = 0, double std = 1) {
  return Random(c, "RandomNormalLike", shape, rank, mean, std);
}
V RandomShape(LoweringContext& c) {
  return c.node().op().ArgIndex("self") >= 0 ? c.shape_of(c.tensor("self")) : ShapeArg(c, "size");
}
void Rand(LoweringContext& c) { c.Return(c.e.Cast(Uniform(c, RandomShape(c), c.out_rank()), c.out_dtype())); }
void Randn(LoweringContext& c) { c.Return(c.e.Cast(Normal(c, RandomShape(c), c.out_rank()), c.out_dtype())); }
void RandInt(LoweringContext& c) {
  DType f = DType::kFloat64;
  V high = c.e.Cast(Operand(c, "high", DType::kInt64), f);
  V low = c.node().op().ArgIndex("low") >= 0 ? c.e.Cast(c.dim0(c.sym("low")), f) : c.e.Number(0, f);
  V u = c.e.Cast(Uniform(c, RandomShape(c), c.out_rank()), f);
  V span = c.e.Sub(high, low), one = c.e.Number(1, f);
  // f32 uniforms can round up to the bound itself.
  V k = c.e.Min(c.e.Op("Floor", {c.e.Mul(u, span)}), c.e.Sub(span, one));
  c.Return(c.e.Cast(c.e.Cast(c.e.Add(low, k), DType::kInt64), c.out_dtype()));
}
void RandPerm(LoweringContext& c) {
  V n = c.dim1(c.sym("n"));
  c.Return(c.e.Cast(TopK(c.e, Uniform(c, n, 1), n, 0, true, false).second, c.out_dtype()));
}
void UniformOp(LoweringContext& c) {
  c.Return(c.e.Cast(Uniform(c, RandomShape(c), c.out_rank(), c.f("from"), c.f("to")), c.out_dtype()));
}
void NormalLike(LoweringContext& c) {
  c.Return(c.e.Cast(Normal(c, RandomShape(c), c.out_rank(), c.f("mean"), c.f("std")), c.out_dtype()));
}
void NormalOf(LoweringContext& c) {  // mean and std each a tensor or a number
  V mean = Operand(c, "mean", DType::kFloat32), std = Operand(c, "std", DType::kFloat32);
  V shape = c.out_type().StaticSizes() ? c.e.I64(*c.out_type().StaticSizes()) : c.e.Shape(c.e.Add(mean, std));
  c.Return(c.e.Cast(c.e.Add(mean, c.e.Mul(Normal(c, shape, c.out_rank()), std)), c.out_dtype()));
}
void Bernoulli(LoweringContext& c) {
  V self = c.in("self"), p = c.e.Cast(self, DType::kFloat32);
  if (c.node().op().ArgIndex("p") >= 0) p = Operand(c, "p", DType::kFloat32);
  c.Return(c.e.Cast(c.e.Less(Uniform(c, c.shape_of(c.tensor("self")), c.out_rank()), p), c.out_dtype()));
}
void Exponential(LoweringContext& c) {
  V u = Uniform(c, RandomShape(c), c.out_rank());
  V y = c.e.Op("Neg", {c.e.Op("Log", {c.e.Sub(c.e.Number(1, DType::kFloat32), u)})});
  c.Return(c.e.Cast(c.e.Div(y, c.e.Number(c.f("lambd"), DType::kFloat32)), c.out_dtype()));
}
// Draws with replacement invert the cumulative sum; without, the largest of log(p) + Gumbel noise win.
void MultinomialOp(LoweringContext& c) {
  V p = c.e.Cast(c.in("self"), DType::kFloat32);
  V k = c.dim1(c.sym("num_samples"));
  int d = p.rank - 1;
  if (!c.b("replacement")) {
    V u = c.e.Op("Log", {c.e.Sub(c.e.Number(1, DType::kFloat32), Uniform(c, c.shape_of(c.tensor("self")), p.rank))});
    // Exponential races: the first arrivals at rates p.
    return c.Return(TopK(c.e, c.e.Div(u, p), k, d, true, false).second);
  }
  V sum = c.e.Op("CumSum", {p, c.e.I64Scalar(d)});
  V total = c.e.Reduce("ReduceSum", p, {d}, true);
  V shape = d ? c.e.Concat({c.e.Dim(p, 0), k}, 0) : k;
  V at = CountEdges(c.e, sum, c.e.Mul(Uniform(c, shape, p.rank), total), true);
  c.Return(c.e.Min(at, c.e.Sub(c.e.DimScalar(p, d), c.e.I64Scalar(1))));
}

// ---- Built from others.
// Each tensor along its own dim of the grid of all.
std::vector<V> Grid(LoweringContext& c, bool swap) {
  std::vector<V> in = c.ins("tensors");
  int n = static_cast<int>(in.size());
  std::vector<V> sizes(n), out;
  auto dim_of = [&](int i) { return swap && i < 2 && n > 1 ? 1 - i : i; };
  for (int i = 0; i < n; ++i) {
    if (in[i].rank == 0) in[i] = c.e.Reshape(in[i], {1});
    sizes[dim_of(i)] = c.e.Dim(in[i], 0);
  }
  if (n == 0) return out;
  V shape = c.e.Concat(sizes, 0);
  for (int i = 0; i < n; ++i) out.push_back(c.e.Expand(Along(c.e, in[i], dim_of(i), n), shape, n));
  return out;
}
void MeshGrid(LoweringContext& c) {
  std::string order = c.node().op().ArgIndex("indexing") >= 0 ? c.str("indexing") : "ij";
  if (order != "ij" && order != "xy") return c.Fail("indexing is neither ij nor xy");
  c.Return(Grid(c, order == "xy"));
}
void CartesianProd(LoweringContext& c) {
  std::vector<V> grid = Grid(c, false), columns;
  if (grid.empty()) return c.Fail("of no tensors");
  if (grid.size() == 1) return c.Return(grid[0]);
  for (V& g : grid) columns.push_back(c.e.Reshape(g, Ints{-1, 1}));
  c.Return(c.e.Concat(columns, 1));
}
constexpr int64_t kMaxGridRank = 6;
void Combinations(LoweringContext& c) {
  V x = c.in("self");
  int64_t r = c.i("r");
  if (r < 0) return c.Fail("r is negative");
  if (r == 0) return c.Return(c.e.Const(x.dtype, {0}, ""));
  if (r > kMaxGridRank) return c.Unsupported("combinations of this many");
  // Positions in the r-dim grid that ascend from dim to dim.
  V n = c.e.Dim(x, 0), i = Iota(c.e, c.e.Squeeze(n, {0})), kept;
  int rank = static_cast<int>(r);
  for (int d = 0; d + 1 < rank; ++d) {
    V a = Along(c.e, i, d, rank), b = Along(c.e, i, d + 1, rank);
    V ascends = c.b("with_replacement") ? c.e.LessEqual(a, b) : c.e.Less(a, b);
    kept = kept ? c.e.And(kept, ascends) : ascends;
  }
  if (!kept) return c.Return(c.e.Unsqueeze(x, {1}));
  V at = c.e.Transpose(c.e.Op("NonZero", {kept}, {}, DType::kInt64, 2), {1, 0});
  c.Return(c.e.Gather(x, at, 0));
}
void BlockDiag(LoweringContext& c) {
  DType t = c.out_dtype();
  std::vector<V> blocks, widths, rows;
  for (V x : c.ins("tensors")) {
    if (x.rank < 2) x = c.e.Reshape(x, Ints{1, -1});
    blocks.push_back(c.e.Cast(x, t));
    widths.push_back(c.e.Dim(x, 1));
  }
  if (blocks.empty()) return c.Return(c.e.Const(t, {1, 0}, ""));
  V zero = c.e.Number(0, t);
  for (size_t i = 0; i < blocks.size(); ++i) {
    V height = c.e.Dim(blocks[i], 0), left, right;
    std::vector<V> parts;
    auto zeros = [&](size_t from, size_t to) {
      V width;
      for (size_t k = from; k < to; ++k) width = width ? c.e.Add(width, widths[k]) : widths[k];
      if (width) parts.push_back(c.e.Expand(zero, c.e.Concat({height, width}, 0), 2));
    };
    zeros(0, i);
    parts.push_back(blocks[i]);
    zeros(i + 1, blocks.size());
    rows.push_back(c.e.Concat(parts, 1));
  }
  c.Return(c.e.Concat(rows, 0));
}
// Powers of each element along a new last dim.
template <Str count>
void Vander(LoweringContext& c) {
  V x = c.e.Cast(c.in("x"), c.compute_dtype());
  if (x.rank == 0) x = c.e.Reshape(x, {1});
  DType t = x.dtype;
  V n = c.has(count) ? c.dim0(c.sym(count)) : c.e.DimScalar(x, x.rank - 1);
  V i = Iota(c.e, n);
  bool increasing = c.node().op().ArgIndex("increasing") >= 0 ? c.b("increasing") : true;
  if (!increasing) i = c.e.Sub(c.e.Sub(n, c.e.I64Scalar(1)), i);
  // Integers in f64 would be exact up to 2^53 only, so multiply bit by bit of the exponent.
  if (ir::IsFloating(t)) return c.Return(c.e.Pow(c.e.Unsqueeze(x, {x.rank}), c.e.Cast(i, t)));
  V base = c.e.Cast(c.e.Unsqueeze(x, {x.rank}), DType::kInt64), one = c.e.I64Scalar(1), two = c.e.I64Scalar(2), y = one;
  V rest = i;
  auto known = c.out_type().sizes.back().constant();
  if (!known) return c.Unsupported("a symbolic number of integer powers");
  for (int64_t bit = 1; bit < std::max<int64_t>(*known, 2); bit *= 2) {
    V odd = c.e.Equal(c.e.Op("Mod", {rest, two}), one);
    y = c.e.Mul(y, c.e.Where(odd, base, one));
    rest = c.e.Div(rest, two);
    base = c.e.Mul(base, base);
  }
  c.Return(c.e.Cast(y, t));
}

// clang-format off
constexpr Row kCreationRows[] = {
    {"aten.zeros.default", Constant<0>}, {"aten.ones.default", Constant<1>}, {"aten.full.default", Full},
    {"aten.empty.memory_format", Constant<0>}, {"aten.empty_strided.default", Constant<0>},
    {"aten.empty_permuted.default", Constant<0>},
    {"aten.new_zeros.default", Constant<0>}, {"aten.new_ones.default", Constant<1>}, {"aten.new_full.default", Full},
    {"aten.new_empty.default", Constant<0>}, {"aten.new_empty_strided.default", Constant<0>},
    {"aten.zeros_like.default", ConstantLike<0>}, {"aten.ones_like.default", ConstantLike<1>},
    {"aten.empty_like.default", ConstantLike<0>}, {"aten.full_like.default", FullLike},
    {"aten.fill.Scalar", Fill}, {"aten.fill.Tensor", Fill}, {"aten.zero.default", ConstantLike<0>},
    {"aten.arange.default", Arange}, {"aten.arange.start", Arange}, {"aten.arange.start_step", Arange},
    {"aten.range.default", RangeOp}, {"aten.range.step", RangeOp},
    {"aten.linspace.default", Linspace}, {"aten.linspace.Tensor_Tensor", Linspace},
    {"aten.linspace.Tensor_Scalar", Linspace}, {"aten.linspace.Scalar_Tensor", Linspace},
    {"aten.logspace.default", Logspace}, {"aten.logspace.Tensor_Tensor", Logspace},
    {"aten.logspace.Tensor_Scalar", Logspace}, {"aten.logspace.Scalar_Tensor", Logspace},
    {"aten.eye.default", Eye}, {"aten.eye.m", Eye},
    {"aten.hann_window.default", Hann}, {"aten.hann_window.periodic", Hann},
    {"aten.hamming_window.default", Hamming}, {"aten.hamming_window.periodic", Hamming},
    {"aten.hamming_window.periodic_alpha", Hamming}, {"aten.hamming_window.periodic_alpha_beta", Hamming},
    {"aten.blackman_window.default", Blackman}, {"aten.blackman_window.periodic", Blackman},
    {"aten.bartlett_window.default", Bartlett}, {"aten.bartlett_window.periodic", Bartlett},
    {"aten.kaiser_window.default", Kaiser}, {"aten.kaiser_window.periodic", Kaiser},
    {"aten.kaiser_window.beta", Kaiser},
    {"aten.rand.default", Rand}, {"aten.rand.generator", Rand}, {"aten.rand_like.default", Rand},
    {"aten.rand_like.generator", Rand},
    {"aten.randn.default", Randn}, {"aten.randn.generator", Randn}, {"aten.randn_like.default", Randn},
    {"aten.randn_like.generator", Randn},
    {"aten.randint.default", RandInt}, {"aten.randint.generator", RandInt}, {"aten.randint.low", RandInt},
    {"aten.randint.low_generator", RandInt}, {"aten.randint_like.default", RandInt},
    {"aten.randint_like.low_dtype", RandInt}, {"aten.randint_like.generator", RandInt},
    {"aten.randint_like.low_generator_dtype", RandInt}, {"aten.randint_like.Tensor", RandInt},
    {"aten.randperm.default", RandPerm}, {"aten.randperm.generator", RandPerm},
    {"aten.uniform.default", UniformOp}, {"aten.normal_functional.default", NormalLike},
    {"aten.normal.float_float", NormalOf}, {"aten.normal.Tensor_float", NormalOf},
    {"aten.normal.float_Tensor", NormalOf}, {"aten.normal.Tensor_Tensor", NormalOf},
    {"aten.bernoulli.default", Bernoulli}, {"aten.bernoulli.p", Bernoulli}, {"aten.bernoulli.Tensor", Bernoulli},
    {"aten.exponential.default", Exponential}, {"aten.multinomial.default", MultinomialOp},
    {"aten.meshgrid.default", MeshGrid}, {"aten.meshgrid.indexing", MeshGrid},
    {"aten.cartesian_prod.default", CartesianProd}, {"aten.combinations.default", Combinations},
    {"aten.block_diag.default", BlockDiag},
    {"aten.vander.default", Vander<"N">, true}, {"aten.linalg_vander.default", Vander<"N">, true},
};
// clang-format on

}  // namespace

absl::Span<const Row> CreationRows() { return kCreationRows; }

}  // namespace slipway::exporters::onnx_out
