// Decompositions: data movement made of simpler movement, and what compares or differences neighbours.
#include <algorithm>

#include "base/text.h"
#include "passes/decompositions/util.h"

namespace slipway::passes {
namespace {

// ---- More dims, stacking

Value* AtLeast(Decomposer& d, Value* x, int rank) {
  if (x->rank() >= rank) return x;
  if (x->rank() == 0) return Reshape(d, x, SymInts(rank, 1));
  if (x->rank() == 1) x = Unsqueeze(d, x, 0);         // (n) -> (1, n)
  return x->rank() < rank ? Unsqueeze(d, x, -1) : x;  // (1, n) -> (1, n, 1)
}
template <int rank>
void AtLeastOp(Decomposer& d) {
  if (!Declares(d, "tensors")) return d.Return(AtLeast(d, d.tensor("self"), rank));
  Values out;
  for (Value* x : d.tensors("tensors")) out.push_back(AtLeast(d, x, rank));
  d.Return(out);
}
// Joins tensors of at least `rank` dims.
void Join(Decomposer& d, int rank, int dim) {
  Values xs;
  for (Value* x : d.tensors("tensors")) xs.push_back(AtLeast(d, x, rank));
  if (xs.empty()) return d.Fail("no tensors");
  d.Return(Cat(d, xs, dim));
}
void HStack(Decomposer& d) {
  Values xs = d.tensors("tensors");
  Join(d, 1, !xs.empty() && xs[0]->rank() > 1 ? 1 : 0);
}
void VStack(Decomposer& d) { Join(d, 2, 0); }
void DStack(Decomposer& d) { Join(d, 3, 2); }
void ColumnStack(Decomposer& d) {
  Values xs;
  for (Value* x : d.tensors("tensors")) xs.push_back(x->rank() < 2 ? Reshape(d, x, {d.b.Numel(x), 1}) : x);
  if (xs.empty()) return d.Fail("no tensors");
  d.Return(Cat(d, xs, 1));
}
void BlockDiag(Decomposer& d) {
  Values blocks;
  DType t = d.out_type().dtype;
  for (Value* x : d.tensors("tensors")) blocks.push_back(d.b.Cast(AtLeast(d, x, 2), t));
  if (blocks.empty()) return d.Return(d.b.Full({1, 0}, 0.0, t));
  IntOrValue left = 0, width = 0;
  for (Value* x : blocks) width = d.b.Add(width, d.b.Size(x, 1));
  Values rows;
  for (Value* x : blocks) {
    if (x->rank() != 2) return d.Fail("a tensor of more than two dims");
    IntOrValue h = d.b.Size(x, 0), end = d.b.Add(left, d.b.Size(x, 1));
    Values row;
    auto zeros = [&](IntOrValue w) {
      if (w.value || w.constant != 0) row.push_back(d.b.Full({h, w}, 0, t));
    };
    zeros(left);
    row.push_back(x);
    zeros(d.b.Sub(width, end));
    rows.push_back(row.size() == 1 ? x : Cat(d, row, 1));
    left = end;
  }
  d.Return(Cat(d, rows, 0));
}

// ---- Grids

// Each 1-D tensor along its own dim of a grid of all of them.
Values Grid(Decomposer& d, const Values& xs) {
  Values out;
  SymInts sizes;
  for (Value* x : xs) sizes.push_back(x->rank() == 0 ? IntOrValue(1) : d.b.Size(x, 0));
  int n = static_cast<int>(xs.size());
  for (int i = 0; i < n; ++i) {
    SymInts own(n, 1);
    own[i] = sizes[i];
    out.push_back(Expand(d, Reshape(d, xs[i], own), sizes));
  }
  return out;
}
void MeshGrid(Decomposer& d) {
  Values xs = d.tensors("tensors");
  for (Value* x : xs)
    if (x->rank() > 1) return d.Fail("a tensor of more than one dim");
  bool swapped = Declares(d, "indexing") && d.str("indexing") == "xy" && xs.size() > 1;
  if (swapped) std::swap(xs[0], xs[1]);
  Values grid = Grid(d, xs);
  if (swapped) std::swap(grid[0], grid[1]);
  d.Return(grid);
}
void CartesianProd(Decomposer& d) {
  Values xs = d.tensors("tensors");
  if (xs.empty()) return d.Fail("no tensors");
  if (xs.size() == 1) return d.Return(Reshape(d, xs[0], {-1}));
  Values columns;
  for (Value* g : Grid(d, xs)) columns.push_back(Reshape(d, g, {d.b.Numel(g)}));
  d.Return(Stack(d, columns, 1));
}
// The r-subsets (or multisets) of a vector's elements, in lexicographic order of their positions.
void Combinations(Decomposer& d) {
  Value* x = d.tensor("self");
  int64_t r = d.i("r");
  if (x->rank() != 1 || r < 0 || r > 32) return d.Fail("a vector and a small number of elements are needed");
  if (r == 0) return d.Return(d.b.Full({0}, 0, x->dtype()));
  if (r == 1) return d.Return(Unsqueeze(d, x, 1));
  Values grid = Grid(d, Values(r, Iota(d, d.b.Size(x, 0))));
  Value* chosen = nullptr;
  for (int64_t i = 0; i + 1 < r; ++i) {
    Value* ordered = d.Cmp(d.flag("with_replacement") ? "le" : "lt", grid[i], grid[i + 1]);
    chosen = chosen ? And(d, chosen, ordered) : ordered;
  }
  Value* positions = d.b.Call("aten.nonzero.default", {chosen});  // (combination, element)
  Value* flat = d.b.Call("aten.index_select.default", {x, 0, Reshape(d, positions, {-1})});
  d.Return(Reshape(d, flat, {-1, r}));
}

// ---- Splitting

void SplitAt(Decomposer& d, Value* x, const SymInts& indices, int dim) {
  Values out;
  IntOrValue start = 0;
  for (const IntOrValue& end : indices) {
    out.push_back(Slice(d, x, dim, start, end));
    start = end;
  }
  out.push_back(Slice(d, x, dim, start));
  d.Return(out);
}
// n parts, the first size % n of them one longer.
void SplitInto(Decomposer& d, Value* x, int64_t n, int dim) {
  if (n <= 0 || x->rank() == 0) return d.Fail("bad number of parts");
  IntOrValue size = d.b.Size(x, dim), each = d.b.FloorDiv(size, n), rest = d.b.Sub(size, d.b.Mul(each, n));
  SymInts indices;
  for (int64_t i = 1; i < n; ++i) {
    IntOrValue longer = std::min<int64_t>(i, rest.constant);
    if (rest.value) {
      // What i of n such parts hold beyond `each`: min(i, rest).
      Value* v = d.b.Call("torch.sym_min", {Arg(rest), i});
      auto c = v->type().expr.constant();
      longer = c ? IntOrValue(*c) : IntOrValue(v);
    }
    indices.push_back(d.b.Add(d.b.Mul(each, i), longer));
  }
  SplitAt(d, x, indices, dim);
}
void TensorSplitSections(Decomposer& d) {
  Value* x = d.tensor("self");
  SplitInto(d, x, static_cast<int64_t>(d.node().outputs().size()), d.dim("dim", x->rank()));
}
void TensorSplitIndices(Decomposer& d) {
  Value* x = d.tensor("self");
  SplitAt(d, x, d.sym_ints("indices"), d.dim("dim", x->rank()));
}
void TensorSplitTensor(Decomposer& d) {
  Value *x = d.tensor("self"), *at = d.tensor("tensor_indices_or_sections");
  int dim = d.dim("dim", x->rank());
  if (at->rank() == 0) return TensorSplitSections(d);
  SymInts indices;
  for (size_t i = 0; i + 1 < d.node().outputs().size(); ++i)
    indices.push_back(d.b.Call("aten.item.default", {Select(d, at, 0, static_cast<int>(i))}));
  SplitAt(d, x, indices, dim);
}
// hsplit, vsplit, dsplit: along dim `nth` (hsplit of a vector: along its only one).
template <int nth>
void SplitAlong(Decomposer& d) {
  Value* x = d.tensor("self");
  int dim = nth == 1 && x->rank() == 1 ? 0 : nth;
  if (dim >= x->rank()) return d.Fail("the tensor has too few dims");
  if (Declares(d, "indices")) return SplitAt(d, x, d.sym_ints("indices"), dim);
  SplitInto(d, x, d.i("sections"), dim);
}

// ---- Turning and shifting

void Rot90(Decomposer& d) {
  Value* x = d.tensor("self");
  std::vector<int> dims = d.dims("dims", x->rank());
  if (dims.size() != 2) return d.Fail("two dims are needed");
  int64_t k = ((d.i("k") % 4) + 4) % 4;
  switch (k) {
    case 1: return d.Return(Transpose(d, Flip(d, x, {dims[1]}), dims[0], dims[1]));
    case 2: return d.Return(Flip(d, x, dims));
    case 3: return d.Return(Transpose(d, Flip(d, x, {dims[0]}), dims[0], dims[1]));
    default: return d.Return(x);
  }
}
template <int dim>
void FlipOp(Decomposer& d) {
  d.Return(Flip(d, d.tensor("self"), {dim}));
}
template <bool inverse>
void FftShift(Decomposer& d) {
  Value* x = d.tensor("self");
  for (int dim : d.dims("dim", x->rank(), false)) {
    if (dim >= x->rank()) continue;  // 0-d
    IntOrValue n = d.b.Size(x, dim);
    IntOrValue by = d.b.FloorDiv(inverse ? d.b.Add(n, 1) : n, 2);
    x = d.b.Call("aten.roll.default", {x, SymInts{by}, ir::Ints{dim}});
  }
  d.Return(x);
}

// ---- Sums over what broadcasting added

void SumToSize(Decomposer& d) {
  Value* x = d.in("self");
  const ir::Sizes& want = d.out_type().sizes;
  int lead = x->rank() - static_cast<int>(want.size());
  if (lead < 0) return d.Fail("a size of more dims than the tensor");
  std::vector<int> kept;
  for (size_t k = 0; k < want.size(); ++k)
    if (IsOne(want[k]) && !IsOne(x->sizes()[lead + k])) kept.push_back(lead + static_cast<int>(k));
  if (!kept.empty()) x = d.Sum(x, kept, true);
  if (lead > 0) {
    std::vector<int> front;
    for (int k = 0; k < lead; ++k) front.push_back(k);
    x = d.Sum(x, front);
  }
  d.Return(x);
}
// Pads each tensor along dim to a multiple of the chunks, lays the chunks out, and joins them chunk by chunk.
void Append(Decomposer& d) {
  Values all = d.tensors("tensors");
  all.insert(all.begin(), d.in("past"));
  if (d.ok()) d.Return(d.b.Call("aten.cat.default", {all, d.i("dim")}));
}
void ChunkCat(Decomposer& d) {
  int64_t chunks = d.i("num_chunks");
  Values xs = d.tensors("tensors"), rows;
  if (xs.empty() || chunks <= 0) return d.Fail("no tensors or no chunks");
  int dim = d.dim("dim", xs[0]->rank());
  for (Value* x : xs) {
    if (dim >= x->rank()) return d.Fail("a tensor has too few dims");
    SymInts sizes = d.b.SizesOf(x);
    IntOrValue n = sizes[dim], per = d.b.FloorDiv(d.b.Add(n, chunks - 1), chunks);
    IntOrValue pad = d.b.Sub(d.b.Mul(per, chunks), n);
    if (pad.value || pad.constant != 0) {
      SymInts extra = sizes;
      extra[dim] = pad;
      x = Cat(d, {x, d.b.Full(extra, 0, x->dtype())}, dim);
    }
    SymInts shape(sizes.begin(), sizes.begin() + dim), rest(sizes.begin() + dim + 1, sizes.end());
    shape.push_back(chunks);
    shape.push_back(d.b.Mul(per, Product(d, rest)));
    rows.push_back(Reshape(d, x, shape));
  }
  d.Return(Cat(d, rows, dim + 1));
}

// ---- Differences of neighbours

void Diff(Decomposer& d) {
  Value* x = d.in("self");
  if (x->rank() == 0) return d.Fail("a 0-d tensor");
  int dim = d.dim("dim", x->rank());
  if (d.i("n") == 0) return d.Return(x);  // nothing is put around it then
  Values parts;
  if (Value* v = d.opt_in("prepend")) parts.push_back(v);
  parts.push_back(x);
  if (Value* v = d.opt_in("append")) parts.push_back(v);
  if (parts.size() > 1) x = Cat(d, parts, dim);
  int64_t n = d.i("n");
  if (n < 0) return d.Fail("a negative order");
  // Beyond the size nothing is left whatever the order.
  if (auto size = x->sizes()[dim].constant()) n = std::min(n, *size);
  if (n > 64) return d.Unsupported(text::StrCat("differences of order ", n));
  for (int64_t k = 0; k < n; ++k) {
    Value *high = Slice(d, x, dim, 1), *low = Slice(d, x, dim, 0, -1);
    x = ir::IsBool(x->dtype()) ? d.b.Call("aten.logical_xor.default", {high, low}) : d.Sub(high, low);
  }
  d.Return(x);
}

Value* At(Decomposer& d, Value* x, int dim, int i) {
  return i == -1 ? Slice(d, x, dim, -1) : Slice(d, x, dim, i, i + 1);
}
// Derivatives along one dim with equal steps h.
Value* GradientEven(Decomposer& d, Value* x, int dim, double h, int64_t edge) {
  Value* middle = d.Div(d.Sub(Slice(d, x, dim, 2), Slice(d, x, dim, 0, -2)), 2 * h);
  Value *first, *last;
  if (edge == 1) {
    first = d.Div(d.Sub(At(d, x, dim, 1), At(d, x, dim, 0)), h);
    last = d.Div(d.Sub(At(d, x, dim, -1), Slice(d, x, dim, -2, -1)), h);
  } else {
    // One-sided differences over three points.
    auto end = [&](Value* a, Value* b, Value* c) {
      return d.Div(d.Sub(d.Sub(d.Mul(b, 4.0), d.Mul(a, 3.0)), c), 2 * h);
    };
    first = end(At(d, x, dim, 0), At(d, x, dim, 1), At(d, x, dim, 2));
    last = d.Unary("neg", end(At(d, x, dim, -1), Slice(d, x, dim, -2, -1), Slice(d, x, dim, -3, -2)));
  }
  return Cat(d, {first, middle, last}, dim);
}
// With the coordinates given.
Value* GradientUneven(Decomposer& d, Value* x, int dim, Value* coordinates, int64_t edge) {
  Value* at = Along(d, coordinates, dim, x->rank());
  Value* h = d.Sub(Slice(d, at, dim, 1), Slice(d, at, dim, 0, -1));
  // The derivative in the second of three points h1, h2 apart.
  Value *h1 = Slice(d, h, dim, 0, -1), *h2 = Slice(d, h, dim, 1), *both = d.Add(h1, h2);
  Value* a = d.Div(d.Unary("neg", h2), d.Mul(h1, both));
  Value* b = d.Div(d.Sub(h2, h1), d.Mul(h1, h2));
  Value* c = d.Div(h1, d.Mul(h2, both));
  Value* middle =
      d.Add(d.Add(d.Mul(a, Slice(d, x, dim, 0, -2)), d.Mul(b, Slice(d, x, dim, 1, -1))), d.Mul(c, Slice(d, x, dim, 2)));
  Value *first, *last;
  if (edge == 1) {
    first = d.Div(d.Sub(At(d, x, dim, 1), At(d, x, dim, 0)), At(d, h, dim, 0));
    last = d.Div(d.Sub(At(d, x, dim, -1), Slice(d, x, dim, -2, -1)), At(d, h, dim, -1));
  } else {
    // The derivative in the first of three points p, q, r with p-q h1 and q-r h2 apart.
    auto end = [&](Value* p, Value* q, Value* r, Value* s1, Value* s2) {
      Value* sum = d.Add(s1, s2);
      Value* wp = d.Div(d.Unary("neg", d.Add(sum, s1)), d.Mul(s1, sum));
      Value* wq = d.Div(sum, d.Mul(s1, s2));
      Value* wr = d.Div(d.Unary("neg", s1), d.Mul(s2, sum));
      return d.Add(d.Add(d.Mul(wp, p), d.Mul(wq, q)), d.Mul(wr, r));
    };
    first = end(At(d, x, dim, 0), At(d, x, dim, 1), At(d, x, dim, 2), At(d, h, dim, 0), At(d, h, dim, 1));
    last = d.Unary("neg", end(At(d, x, dim, -1), Slice(d, x, dim, -2, -1), Slice(d, x, dim, -3, -2), At(d, h, dim, -1),
                              Slice(d, h, dim, -2, -1)));
  }
  return Cat(d, {first, middle, last}, dim);
}
void Gradient(Decomposer& d) {
  Value* x = d.in("self");
  if (!ir::IsFloating(x->dtype()) && !ir::IsComplex(x->dtype())) x = d.b.Cast(x, d.compute_dtype());
  std::vector<int> dims = d.dims("dim", x->rank());
  int64_t edge = d.i("edge_order");
  if (edge != 1 && edge != 2) return d.Fail("edge_order is neither 1 nor 2");
  const Arg* spacing = Declares(d, "spacing") ? &d.node().Get("spacing") : nullptr;
  bool uneven = spacing && spacing->is<Values>();
  Values coordinates = uneven ? d.ins("spacing") : Values();
  std::vector<double> steps;
  if (!uneven) {
    bool list = spacing && (spacing->is<ir::Ints>() || spacing->is<std::vector<double>>());
    steps = list ? d.floats("spacing") : std::vector<double>{spacing ? d.opt_f("spacing").value_or(1) : 1};
    if (!list) steps.resize(dims.size(), steps[0]);
  }
  if ((uneven ? coordinates.size() : steps.size()) != dims.size())
    return d.Fail("another number of spacings than dims");
  Values out;
  for (size_t i = 0; i < dims.size(); ++i)
    out.push_back(uneven ? GradientUneven(d, x, dims[i], coordinates[i], edge)
                         : GradientEven(d, x, dims[i], steps[i], edge));
  d.Return(out);
}

// The trapezoidal rule: halves of sums of neighbours times the steps between them.
void Trapezoid(Decomposer& d, bool cumulative) {
  Value* y = d.in("y");
  if (y->rank() == 0) return d.Fail("a 0-d tensor");
  int dim = d.dim("dim", y->rank());
  Value* pairs = d.Add(Slice(d, y, dim, 1), Slice(d, y, dim, 0, -1));
  if (Declares(d, "x")) {
    Value* x = d.in("x");
    if (x->rank() == 1) {
      x = Along(d, x, dim, y->rank());
    } else if (x->rank() < y->rank()) {
      SymInts sizes(y->rank() - x->rank(), 1);
      for (const IntOrValue& s : d.b.SizesOf(x)) sizes.push_back(s);
      x = Reshape(d, x, sizes);
    }
    pairs = d.Mul(d.Sub(Slice(d, x, dim, 1), Slice(d, x, dim, 0, -1)), pairs);
  } else {
    // torch multiplies by half of dx, then adds up
    if (ir::IsIntegral(pairs->dtype())) pairs = d.b.Cast(pairs, d.compute_dtype());
    pairs = d.Mul(pairs, d.node().Get("dx"));
  }
  Value* sum = cumulative ? d.b.Call("aten.cumsum.default", {pairs, dim}) : d.Sum(pairs, {dim});
  d.Return(d.Div(sum, 2.0));
}
void TrapezoidOp(Decomposer& d) { Trapezoid(d, false); }
void CumulativeTrapezoid(Decomposer& d) { Trapezoid(d, true); }

// ---- Windows added up where they overlap
void UnfoldBackward(Decomposer& d) {
  Value* x = d.in("grad_in");
  const SymInts sizes = d.sym_ints("input_sizes");
  const int64_t size = d.i("size"), step = d.i("step");
  const int rank = static_cast<int>(sizes.size());
  if (rank == 0 || x->rank() != rank + 1) return d.Fail("the ranks do not agree");
  const int dim = d.dim("dim", rank);
  const IntOrValue windows = d.b.Size(x, dim), all = d.b.Mul(windows, size);
  Value* places = d.Add(Reshape(d, d.Mul(Iota(d, windows), step), {windows, 1}), Iota(d, size));
  SymInts flat = d.b.SizesOf(x);
  flat.pop_back();
  flat[static_cast<size_t>(dim)] = all;
  x = Reshape(d, d.b.Call("aten.movedim.int", {x, -1, dim + 1}), flat);
  d.Return(d.b.Call("aten.index_add.default", {d.b.Full(sizes, 0, x->dtype()), dim, Reshape(d, places, {all}), x}));
}

// ---- Closeness

Value* IsClose(Decomposer& d) {
  Value *x = d.tensor("self"), *y = d.tensor("other");
  double rtol = d.f("rtol"), atol = d.f("atol");
  if (ir::IsComplex(x->dtype())) return d.Unsupported("complex numbers"), x;
  Value* close = d.Cmp("eq", x, y);
  bool floating = ir::IsFloating(x->dtype());
  if (d.flag("equal_nan") && floating) close = Or(d, close, And(d, d.Unary("isnan", x), d.Unary("isnan", y)));
  if (rtol == 0 && atol == 0) return close;
  if (ir::IsBool(x->dtype())) x = d.b.Cast(x, DType::kFloat32);
  if (!floating) y = d.b.Cast(y, DType::kFloat32);
  Value* allowed = d.Add(d.Unary("abs", d.Mul(y, rtol)), atol);
  Value* error = d.Unary("abs", d.Sub(x, y));
  return Or(d, close, And(d, d.Unary("isfinite", error), d.Cmp("le", error, allowed)));
}
void IsCloseOp(Decomposer& d) { d.Return(IsClose(d)); }
void AllClose(Decomposer& d) { d.Return(d.b.Call("aten.item.default", {d.b.Call("aten.all.default", {IsClose(d)})})); }

constexpr DecomposeRow kShapeRows[] = {
    {"aten.atleast_1d.default", AtLeastOp<1>, false},
    {"aten.atleast_1d.Sequence", AtLeastOp<1>, false},
    {"aten.atleast_2d.default", AtLeastOp<2>, false},
    {"aten.atleast_2d.Sequence", AtLeastOp<2>, false},
    {"aten.atleast_3d.default", AtLeastOp<3>, false},
    {"aten.atleast_3d.Sequence", AtLeastOp<3>, false},
    {"aten.hstack.default", HStack, false},
    {"aten.vstack.default", VStack, false},
    {"aten.dstack.default", DStack, false},
    {"aten.column_stack.default", ColumnStack, false},
    {"aten.block_diag.default", BlockDiag, false},
    {"aten.meshgrid.default", MeshGrid, false},
    {"aten.meshgrid.indexing", MeshGrid, false},
    {"aten.cartesian_prod.default", CartesianProd, false},
    {"aten.combinations.default", Combinations, false},
    {"aten.tensor_split.sections", TensorSplitSections, false},
    {"aten.tensor_split.indices", TensorSplitIndices, false},
    {"aten.tensor_split.tensor_indices_or_sections", TensorSplitTensor, false},
    {"aten.hsplit.int", SplitAlong<1>, false},
    {"aten.hsplit.array", SplitAlong<1>, false},
    {"aten.vsplit.int", SplitAlong<0>, false},
    {"aten.vsplit.array", SplitAlong<0>, false},
    {"aten.dsplit.int", SplitAlong<2>, false},
    {"aten.dsplit.array", SplitAlong<2>, false},
    {"aten.rot90.default", Rot90, false},
    {"aten.fliplr.default", FlipOp<1>, false},
    {"aten.flipud.default", FlipOp<0>, false},
    {"aten.fft_fftshift.default", FftShift<false>, false},
    {"aten.fft_ifftshift.default", FftShift<true>, false},
    {"aten.sum_to_size.default", SumToSize},
    {"aten._chunk_cat.default", ChunkCat, false},
    {"slipway.append.default", Append, false},
    {"aten.unfold_backward.default", UnfoldBackward},
    {"aten.diff.default", Diff, false},
    {"aten.gradient.scalarint", Gradient},
    {"aten.gradient.scalararray", Gradient},
    {"aten.gradient.array", Gradient},
    {"aten.gradient.scalarrayint", Gradient},
    {"aten.gradient.scalarrayarray", Gradient},
    {"aten.gradient.tensorarrayint", Gradient},
    {"aten.gradient.tensorarray", Gradient},
    {"aten.trapezoid.x", TrapezoidOp},
    {"aten.trapezoid.dx", TrapezoidOp},
    {"aten.cumulative_trapezoid.x", CumulativeTrapezoid},
    {"aten.cumulative_trapezoid.dx", CumulativeTrapezoid},
    // In the dtype itself: torch rounds each step, and the answer is yes or no.
    {"aten.isclose.default", IsCloseOp, false},
    {"aten.allclose.default", AllClose, false},
};

}  // namespace

absl::Span<const DecomposeRow> ShapeDecompositions() { return kShapeRows; }

}  // namespace slipway::passes
