// Shape functions: views of all elements, expansion, dimensions, diagonals.
#include <algorithm>

#include "base/text.h"
#include "ir/ops/shape_rules.h"

namespace slipway::ir {

namespace {

// `given` with its -1, if any, replaced by what `numel` leaves.
Sizes ResolveMinusOne(InferContext& c, Sym numel, Sizes given) {
  int unknown = -1;
  Sym known = 1;
  for (int d = 0; d < static_cast<int>(given.size()); ++d) {
    if (given[d].is(-1)) {
      if (unknown >= 0) c.Fail("more than one size is -1");
      unknown = d;
    } else {
      known = known * given[d];
    }
  }
  if (unknown >= 0) {
    if (known.is(0))
      c.Fail("a size of -1 beside a size of 0 is ambiguous");
    else
      given[unknown] = FloorDiv(numel, known);
    if (known.is(0)) return given;
    if (numel.is_constant() && known.is_constant() && !Mod(numel, known).is(0))
      c.Fail(text::StrCat(numel.ToString(), " elements do not divide by ", known.ToString()));
    else
      c.RequireEqual(Mod(numel, known), 0, "the elements that do not divide");
  } else {
    c.RequireEqual(numel, known, "the number of elements");
  }
  return given;
}

void View(InferContext& c) {
  Value* x = Self(c);
  Sizes given = c.ToSizes(c.sym_ints(c.node().op().args[1].name));
  c.Out(x->dtype(), ResolveMinusOne(c, NumelOf(x), std::move(given)));
}

void ViewAs(InferContext& c) {
  c.RequireEqual(NumelOf(Self(c)), NumelOf(TensorAt(c, 1)), "the number of elements");
  c.Out(Self(c)->dtype(), TensorAt(c, 1)->sizes());
}

void ExpandAs(InferContext& c) {
  NeedExpands(c, Self(c)->sizes(), TensorAt(c, 1)->sizes(), "a size does not expand");
  c.Out(Self(c)->dtype(), TensorAt(c, 1)->sizes());
}

void ResizeAs(InferContext& c) { c.Out(Self(c)->dtype(), TensorAt(c, 1)->sizes()); }
void ViewDType(InferContext& c) {
  Value* x = Self(c);
  DType to = c.dtype("dtype").value_or(x->dtype());
  int64_t from_bits = BitSize(x->dtype()), to_bits = BitSize(to);
  if (from_bits == to_bits || from_bits == 0 || to_bits == 0) return c.Out(to, x->sizes());
  if (x->rank() == 0) return c.Fail("a 0-d tensor cannot be viewed as a dtype of another size");
  Sym last = x->sizes().back();
  c.Out(to, WithDim(x->sizes(), x->rank() - 1,
                    from_bits > to_bits ? last * (from_bits / to_bits) : FloorDiv(last, to_bits / from_bits)));
}

void ViewAsComplex(InferContext& c) {
  Value* x = Self(c);
  Sizes s = x->sizes();
  if (s.empty()) return c.Fail("a complex view needs a last dimension of 2");
  NeedDType(c, x, IsFloating, "a floating-point type");
  c.RequireEqual(s.back(), 2, "the last dimension of a complex view");
  s.pop_back();
  c.Out(ToComplex(x->dtype()), s);
}

void ViewAsReal(InferContext& c) {
  Value* x = Self(c);
  NeedDType(c, x, IsComplex, "a complex type");
  Sizes s = x->sizes();
  s.push_back(2);
  c.Out(ToReal(x->dtype()), s);
}

void Flatten(InferContext& c) {
  Value* x = Self(c);
  int first = c.dim("start_dim", x->rank()), last = c.dim("end_dim", x->rank());
  if (x->rank() == 0) return c.Out(x->dtype(), {1});
  if (first > last) return c.Fail("start_dim is after end_dim");
  Sizes out;
  Sym merged = 1;
  for (int d = 0; d < x->rank(); ++d) {
    if (d < first || d > last)
      out.push_back(x->sizes()[d]);
    else
      merged = merged * x->sizes()[d];
    if (d == last) out.push_back(merged);
  }
  c.Out(x->dtype(), out);
}

void Ravel(InferContext& c) { c.Out(Self(c)->dtype(), {NumelOf(Self(c))}); }
void Unflatten(InferContext& c) {
  Value* x = Self(c);
  int dim = c.dim("dim", x->rank());
  if (!c.ok()) return;
  Sym size = x->rank() ? x->sizes()[dim] : Sym(1);
  Sizes parts = ResolveMinusOne(c, size, c.ToSizes(c.sym_ints("sizes")));
  Sizes out(x->sizes().begin(), x->sizes().begin() + std::min(dim, x->rank()));
  out.insert(out.end(), parts.begin(), parts.end());
  if (x->rank()) out.insert(out.end(), x->sizes().begin() + dim + 1, x->sizes().end());
  c.Out(x->dtype(), out);
}

void AsStrided(InferContext& c) { c.Out(Self(c)->dtype(), c.ToSizes(c.sym_ints("size"))); }
void ReshapeAny(InferContext& c) {  // resize: the number of elements may change
  AsStrided(c);
}

void Expand(InferContext& c) {
  Value* x = Self(c);
  Sizes out = c.ToSizes(c.sym_ints("size"));
  size_t rank = x->sizes().size();
  if (out.size() < rank) return c.Fail("fewer sizes than the tensor has dimensions");
  for (size_t i = 0; i < out.size(); ++i) {
    bool added = i < out.size() - rank;
    if (!out[i].is(-1)) {
      if (added) continue;
      Sym from = x->sizes()[i - (out.size() - rank)];
      if (!from.is(1) && !c.RequireEqual(from, out[i], "a size does not expand")) return;
      continue;
    }
    if (added) return c.Fail("a new dimension cannot be -1");
    out[i] = x->sizes()[i - (out.size() - rank)];
  }
  c.Out(x->dtype(), out);
}

void BroadcastTensors(InferContext& c) {
  Values all = c.tensors("tensors");
  if (all.empty()) return c.Fail("no tensors");
  Sizes out;
  for (Value* v : all)
    if (v) out = c.Broadcast(out, v->sizes());
  for (Value* v : all)
    if (v) c.Out(v->dtype(), out);
}

void MeshGrid(InferContext& c) {
  Values all = c.tensors("tensors");
  Sizes out;
  for (Value* v : all) {
    if (v && v->rank() > 1) return c.Fail(text::StrCat("'", v->name(), "' is no vector"));
    if (v) NeedSameDType(c, {all[0], v});
    out.push_back(v ? NumelOf(v) : Sym(1));
  }
  bool xy = c.node().op().ArgIndex("indexing") >= 0 && c.str("indexing") == "xy";
  if (xy && out.size() >= 2) std::swap(out[0], out[1]);
  for (Value* v : all)
    if (v) c.Out(v->dtype(), out);
}

void Repeat(InferContext& c) {  // repeat and tile; tile may name fewer dims than there are
  Value* x = Self(c);
  Sizes times = c.ToSizes(c.sym_ints(c.node().op().args[1].name)), sizes = x->sizes();
  if (c.node().op().base == "repeat" && times.size() < sizes.size())
    return c.Fail("fewer repeats than the tensor has dimensions");
  NeedNotNegative(c, times, "a number of repeats");
  while (times.size() < sizes.size()) times.insert(times.begin(), 1);
  while (sizes.size() < times.size()) sizes.insert(sizes.begin(), 1);
  for (size_t i = 0; i < sizes.size(); ++i) sizes[i] = sizes[i] * times[i];
  c.Out(x->dtype(), sizes);
}

void ChannelShuffle(InferContext& c) {
  if (Self(c)->rank() < 3) return c.Fail("fewer than 3 dimensions");
  Sym groups = ExprOf(c.sym("groups"));
  if (ProvablyLess(groups, 1)) return c.Fail("the number of groups is not positive");
  c.RequireEqual(Mod(Self(c)->sizes()[1], groups), 0, "channels that the groups do not divide");
  SameAsSelf(c);
}

void Unsqueeze(InferContext& c) {
  Value* x = Self(c);
  Sizes out = x->sizes();
  int dim = c.WrapDim(c.i("dim"), x->rank() + 1);
  out.insert(out.begin() + dim, 1);
  c.Out(x->dtype(), out);
}

// Sizes without those dims that are 1; a symbolic size counts as not 1 (torch makes no symbol for a size of 1).
void SqueezeDims(InferContext& c, const std::vector<int>& dims) {
  Value* x = Self(c);
  Sizes out;
  for (int d = 0; d < x->rank(); ++d) {
    bool named = std::find(dims.begin(), dims.end(), d) != dims.end();
    if (!named || !ProvablyEqual(x->sizes()[d], 1)) out.push_back(x->sizes()[d]);
  }
  c.Out(x->dtype(), out);
}

void Squeeze(InferContext& c) {
  std::vector<int> all(Self(c)->rank());
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
  SqueezeDims(c, all);
}

void SqueezeDim(InferContext& c) { SqueezeDims(c, {c.dim("dim", Self(c)->rank())}); }
void SqueezeList(InferContext& c) { SqueezeDims(c, c.dims("dim", Self(c)->rank(), /*empty_is_all=*/false)); }

Sizes Permuted(const Sizes& in, const std::vector<int>& order) {
  Sizes out;
  for (int d : order) out.push_back(in[d]);
  return out;
}

void Permute(InferContext& c) {
  Value* x = Self(c);
  std::vector<int> order = c.dims("dims", x->rank(), /*empty_is_all=*/false), sorted = order;
  std::sort(sorted.begin(), sorted.end());
  if (static_cast<int>(order.size()) != x->rank() || std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    return c.Fail("dims are not a permutation");
  c.Out(x->dtype(), Permuted(x->sizes(), order));
}

void OutSwapped(InferContext& c, int a, int b) {
  Value* x = Self(c);
  Sizes out = x->sizes();
  if (!out.empty()) std::swap(out[a], out[b]);
  c.Out(x->dtype(), out);
}

void Transpose(InferContext& c) {
  const OpDef& op = c.node().op();
  int rank = Self(c)->rank();
  int a = c.dim(op.args[1].name, rank), b = c.dim(op.args[2].name, rank);
  OutSwapped(c, a, b);
}

void T(InferContext& c) {
  int rank = Self(c)->rank();
  if (rank > 2) return c.Fail("t of a tensor of more than 2 dimensions");
  rank < 2 ? OutSwapped(c, 0, 0) : OutSwapped(c, 0, 1);
}

void MatrixT(InferContext& c) {
  int rank = Self(c)->rank();
  rank < 2 ? OutSwapped(c, 0, 0) : OutSwapped(c, rank - 2, rank - 1);
}

void NumpyT(InferContext& c) {
  Value* x = Self(c);
  c.Out(x->dtype(), Sizes(x->sizes().rbegin(), x->sizes().rend()));
}

void MoveDim(InferContext& c) {
  Value* x = Self(c);
  int rank = x->rank();
  std::vector<int> from = c.dims("source", rank, false), to = c.dims("destination", rank, false);
  if (from.size() != to.size()) return c.Fail("source and destination differ in length");
  if (rank == 0) return c.Out(x->dtype(), {});
  std::vector<int> order(rank, -1);
  std::vector<bool> used(rank);
  for (size_t i = 0; i < from.size(); ++i) {
    if (order[to[i]] >= 0 || used[from[i]]) return c.Fail("a dimension is moved twice");
    order[to[i]] = from[i];
    used[from[i]] = true;
  }
  int next = 0;
  for (int& o : order) {
    if (o >= 0) continue;
    while (used[next]) ++next;
    o = next++;
  }
  c.Out(x->dtype(), Permuted(x->sizes(), order));
}

void Rot90(InferContext& c) {
  Value* x = Self(c);
  std::vector<int> dims = c.dims("dims", x->rank(), false);
  if (dims.size() != 2) return c.Fail("dims must be two");
  if (x->rank() < 2 || dims[0] == dims[1]) return c.Fail("a rotation needs two different dimensions");
  c.i("k") % 2 == 0 ? OutSwapped(c, 0, 0) : OutSwapped(c, dims[0], dims[1]);
}

}  // namespace

Sizes AtLeastRank(Sizes s, int rank) {
  if (rank >= 1 && s.empty()) s.push_back(1);
  if (rank >= 2 && s.size() == 1) s.insert(s.begin(), 1);
  if (rank >= 3 && s.size() == 2) s.push_back(1);
  return s;
}

namespace {

template <int kRank>
void AtLeastND(InferContext& c) {
  const ArgDef& arg = c.node().op().args[0];
  if (!arg.is_list) return c.Out(Self(c)->dtype(), AtLeastRank(Self(c)->sizes(), kRank));
  for (Value* v : c.tensors(arg.name))
    if (v) c.Out(v->dtype(), AtLeastRank(v->sizes(), kRank));
}

Sym DiagonalLength(Sym rows, Sym columns, int64_t offset) {
  Sym a = offset < 0 ? rows + offset : rows, b = offset > 0 ? columns - offset : columns;
  return LargerOf(SmallerOf(a, b), 0);
}

}  // namespace

Sizes DiagonalSizes(InferContext& c, Value* x, int64_t offset, int dim1, int dim2) {
  if (x->rank() < 2 || dim1 == dim2) c.Fail("a diagonal needs two different dimensions");
  Sizes out;
  for (int d = 0; d < x->rank(); ++d)
    if (d != dim1 && d != dim2) out.push_back(x->sizes()[d]);
  out.push_back(DiagonalLength(x->sizes()[dim1], x->sizes()[dim2], offset));
  return out;
}

namespace {

void OutDiagonal(InferContext& c, Value* x, int64_t offset, int dim1, int dim2) {
  c.Out(x->dtype(), DiagonalSizes(c, x, offset, dim1, dim2));
}

void Diagonal(InferContext& c) {
  Value* x = Self(c);
  OutDiagonal(c, x, c.i("offset"), c.dim("dim1", x->rank()), c.dim("dim2", x->rank()));
}

void OutVectorDiagonal(InferContext& c, Value* x, Sym length, int64_t offset) {
  Sym side = length + (offset < 0 ? -Sym(offset) : Sym(offset));
  c.Out(x->dtype(), {side, side});
}

void Diag(InferContext& c) {
  Value* x = Self(c);
  if (x->rank() == 1) return OutVectorDiagonal(c, x, x->sizes()[0], c.i("diagonal"));
  OutDiagonal(c, x, c.i("diagonal"), 0, 1);
}

void DiagFlat(InferContext& c) { OutVectorDiagonal(c, Self(c), NumelOf(Self(c)), c.i("offset")); }
void DiagEmbed(InferContext& c) {
  Value* x = Self(c);
  if (x->rank() == 0) return c.Fail("diag_embed of a 0-d tensor");
  int64_t offset = c.i("offset");
  int rank = x->rank() + 1, dim1 = c.dim("dim1", rank), dim2 = c.dim("dim2", rank);
  if (dim1 == dim2) return c.Fail("a diagonal needs two different dimensions");
  Sym side = x->sizes().back() + (offset < 0 ? -Sym(offset) : Sym(offset));
  Sizes out;
  for (int d = 0, from = 0; d < rank; ++d) out.push_back(d == dim1 || d == dim2 ? side : x->sizes()[from++]);
  c.Out(x->dtype(), out);
}

constexpr ShapeFamily kViewFamilies[] = {
    {View,
     "view reshape _unsafe_view view_copy _reshape_copy _reshape_alias _reshape_alias_copy /prims.reshape.default"},
    {ViewAs, "view_as reshape_as"},
    {ExpandAs, "expand_as"},
    {ViewDType, "view.dtype view_copy.dtype"},
    {ViewAsComplex, "view_as_complex view_as_complex_copy"},
    {ViewAsReal, "view_as_real view_as_real_copy"},
    {Flatten, "flatten.using_ints"},
    {Ravel, "ravel"},
    {Unflatten, "unflatten.int"},
    {AsStrided, "as_strided as_strided_copy as_strided_"},
    {ReshapeAny, "resize resize_"},
    {ResizeAs, "resize_as resize_as_"},
    {ChannelShuffle, "channel_shuffle native_channel_shuffle"},
    {Expand, "expand expand_copy broadcast_to"},
    {BroadcastTensors, "broadcast_tensors"},
    {MeshGrid, "meshgrid meshgrid.indexing"},
    {Repeat, "repeat tile"},
    {Unsqueeze, "unsqueeze unsqueeze_copy unsqueeze_"},
    {Squeeze, "squeeze squeeze_copy squeeze_"},
    {SqueezeDim, "squeeze.dim squeeze_copy.dim squeeze_.dim"},
    {SqueezeList, "squeeze.dims squeeze_copy.dims squeeze_.dims"},
    {Permute, "permute permute_copy"},
    {Transpose, "transpose.int transpose_copy.int transpose_ swapaxes swapaxes_ swapdims swapdims_"},
    {T, "t t_copy t_"},
    {MatrixT, "mT mH adjoint matrix_H"},
    {NumpyT, "numpy_T"},
    {MoveDim, "movedim.int movedim.intlist moveaxis.int moveaxis.intlist"},
    {Rot90, "rot90"},
    {AtLeastND<1>, "atleast_1d atleast_1d.Sequence"},
    {AtLeastND<2>, "atleast_2d atleast_2d.Sequence"},
    {AtLeastND<3>, "atleast_3d atleast_3d.Sequence"},
    {Diagonal, "diagonal diagonal_copy linalg_diagonal"},
    {Diag, "diag"},
    {DiagFlat, "diagflat"},
    {DiagEmbed, "diag_embed"},
};

}  // namespace

absl::Span<const ShapeRow> ViewShapes() {
  static const absl::Span<const ShapeRow> rows = ExpandFamilies(kViewFamilies);
  return rows;
}

}  // namespace slipway::ir
