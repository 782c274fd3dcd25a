// Shape functions: parts of tensors and their joins, padding, rearrangement.
#include <algorithm>

#include "base/text.h"
#include "ir/ops/shape_rules.h"

namespace slipway::ir {

namespace {

constexpr int64_t kMaxParts = 1 << 16;  // results of one split; more is a damaged program

std::optional<Sym> OptSym(InferContext& c, std::string_view name) {
  auto v = c.opt_sym(name);
  return v ? std::optional<Sym>(ExprOf(*v)) : std::nullopt;
}

// Size of a dimension that must exist.
Sym SizeAt(InferContext& c, Value* x, int dim) {
  if (dim < x->rank()) return x->sizes()[dim];
  c.Fail("a 0-d tensor has no dimension to take from");
  return 1;
}

Sizes SliceSizes(InferContext& c, Value* x) {
  int dim = c.dim("dim", x->rank());
  Sym step = ExprOf(c.sym("step"));
  if (ProvablyLess(step, 1)) c.Fail("the step is not positive");
  Sym size = SizeAt(c, x, dim);
  return WithDim(x->sizes(), dim, SliceLength(size, OptSym(c, "start"), OptSym(c, "end"), step));
}

void Slice(InferContext& c) { c.Out(Self(c)->dtype(), SliceSizes(c, Self(c))); }
Sizes SelectSizes(InferContext& c, Value* x) {
  int dim = c.dim("dim", x->rank());
  if (x->rank() == 0) c.Fail("select of a 0-d tensor");
  Sizes out = x->sizes();
  Sym index = ExprOf(c.sym("index")), size = out[dim];
  if (ProvablyLessEqual(size, index) || ProvablyLess(index + size, 0))
    c.Fail(text::StrCat("index ", index.ToString(), " of a size of ", size.ToString()));
  out.erase(out.begin() + dim);
  return out;
}

void Select(InferContext& c) { c.Out(Self(c)->dtype(), SelectSizes(c, Self(c))); }
void Narrow(InferContext& c) {
  Value* x = Self(c);
  int dim = c.dim("dim", x->rank());
  Sym size = SizeAt(c, x, dim), length = ExprOf(c.sym("length"));
  Sym start = c.node().op().overload == "Tensor" ? Sym(0) : ExprOf(c.sym("start"));
  NeedNotNegative(c, {length}, "the length");
  if (ProvablyLess(start, 0)) start = start + size;
  if (ProvablyLess(size, start + length) || ProvablyLess(start, 0)) return c.Fail("the part reaches beyond the size");
  c.Out(x->dtype(), WithDim(x->sizes(), dim, length));
}

void Unbind(InferContext& c) {
  Value* x = Self(c);
  int dim = c.dim("dim", x->rank());
  Sym size = SizeAt(c, x, dim);
  if (!c.ok()) return;
  size_t n = c.node().outputs().size();  // a node of a program has them; torch fixed the number when it was exported
  if (auto k = size.constant()) {
    if (*k < 0 || *k > kMaxParts) return c.Fail("too many parts");
    n = static_cast<size_t>(*k);
  } else if (n == 0) {
    return c.Unsupported(text::StrCat("a number of results that depends on ", size.ToString()));
  }
  Sizes out = x->sizes();
  out.erase(out.begin() + dim);
  for (size_t i = 0; i < n; ++i) c.Out(x->dtype(), out);
}

// Parts of `part` elements along dim, the last one smaller.
void OutSplit(InferContext& c, Value* x, int dim, Sym part) {
  Sym size = SizeAt(c, x, dim);
  if (!c.ok()) return;
  if (part.is_constant() && *part.constant() < 0) return c.Fail("the size of the parts is negative");
  if (part.is(0) && !size.is(0)) return c.Fail("parts of no elements");
  Sym count = part.is(0) ? Sym(1) : FloorDiv(size + part - 1, part);
  size_t n = c.node().outputs().size();
  if (auto k = count.constant()) {
    if (*k < 0 || *k > kMaxParts) return c.Fail("too many parts");
    n = static_cast<size_t>(std::max<int64_t>(*k, 1));
  } else if (n == 0) {
    return c.Unsupported(text::StrCat("a number of results that depends on ", count.ToString()));
  }
  for (size_t i = 0; i + 1 < n; ++i) c.Out(x->dtype(), WithDim(x->sizes(), dim, part));
  c.Out(x->dtype(), WithDim(x->sizes(), dim, size - part * static_cast<int64_t>(n - 1)));
}

void Split(InferContext& c) {
  Value* x = Self(c);
  OutSplit(c, x, c.dim("dim", x->rank()), ExprOf(c.sym("split_size")));
}

void Chunk(InferContext& c) {
  Value* x = Self(c);
  int dim = c.dim("dim", x->rank());
  int64_t chunks = c.i("chunks");
  if (chunks <= 0 || chunks > kMaxParts) return c.Fail("the number of chunks is not positive");
  Sym size = SizeAt(c, x, dim);
  if (size.is(0)) {  // as many empty parts as asked for
    for (int64_t i = 0; i < chunks; ++i) c.Out(x->dtype(), x->sizes());
    return;
  }
  OutSplit(c, x, dim, FloorDiv(size + chunks - 1, chunks));
}

void SplitSizes(InferContext& c) {
  Value* x = Self(c);
  int dim = c.dim("dim", x->rank());
  Sym sum = 0, size = SizeAt(c, x, dim);
  for (Sym s : c.ToSizes(c.sym_ints(c.node().op().args[1].name))) {
    sum = sum + s;
    c.Out(x->dtype(), WithDim(x->sizes(), dim, s));
  }
  if (c.ok()) c.RequireEqual(sum, size, "the parts do not add up to the size");
}

void OutSections(InferContext& c, Value* x, int dim, Sym sections) {
  if (!sections.is_constant()) return c.Unsupported("a symbolic number of sections");
  int64_t n = *sections.constant();
  if (n <= 0 || n > kMaxParts) return c.Fail("the number of sections is not positive");
  Sym size = SizeAt(c, x, dim);
  if (!c.ok()) return;
  // The first size % n sections have one element more.
  Sym base = FloorDiv(size, n), more = Mod(size, n);
  for (int64_t i = 0; i < n; ++i)
    c.Out(x->dtype(),
          WithDim(x->sizes(), dim,
                  more.is_constant() ? base + (i < *more.constant() ? 1 : 0) : FloorDiv(size + (n - 1 - i), n)));
}

void OutAtIndices(InferContext& c, Value* x, int dim, const Sizes& indices) {
  Sym size = SizeAt(c, x, dim);
  if (!c.ok()) return;
  std::optional<Sym> from;
  for (size_t i = 0; i <= indices.size(); ++i) {
    std::optional<Sym> to = i < indices.size() ? std::optional<Sym>(indices[i]) : std::nullopt;
    c.Out(x->dtype(), WithDim(x->sizes(), dim, SliceLength(size, from, to, 1)));
    from = to;
  }
}

void TensorSplitSections(InferContext& c) {
  Value* x = Self(c);
  OutSections(c, x, c.dim("dim", x->rank()), ExprOf(c.sym("sections")));
}

void TensorSplitIndices(InferContext& c) {
  Value* x = Self(c);
  OutAtIndices(c, x, c.dim("dim", x->rank()), c.ToSizes(c.sym_ints("indices")));
}

void TensorSplitTensor(InferContext& c) {  // the parts are where the tensor's values say
  Value* x = Self(c);
  int dim = c.dim("dim", x->rank());
  size_t n = c.node().outputs().size();
  Value* at = TensorAt(c, 1);
  if (at->rank() == 1 && at->sizes()[0].is_constant()) {
    int64_t k = *at->sizes()[0].constant();
    if (k < 0 || k > kMaxParts) return c.Fail("too many parts");
    n = static_cast<size_t>(k) + 1;
  }
  if (n == 0) return c.Unsupported("a number of results that depends on a tensor's value");
  for (size_t i = 0; i < n; ++i) c.Out(x->dtype(), WithDim(x->sizes(), dim, c.FreshSize()));
}

// hsplit, vsplit, dsplit: along dim 1, 0 and 2 (hsplit of a vector along 0).
template <int kDim>
void SplitAlong(InferContext& c) {
  Value* x = Self(c);
  int dim = kDim == 1 && x->rank() == 1 ? 0 : kDim;
  if (c.node().op().overload == "int") {  // the sections are equal
    int64_t n = c.i("sections");
    if (n <= 0 || n > kMaxParts) return c.Fail("the number of sections is not positive");
    c.RequireEqual(Mod(SizeAt(c, x, dim), n), 0, "a size that the sections do not divide");
    Sym part = FloorDiv(SizeAt(c, x, dim), n);
    for (int64_t i = 0; i < n; ++i) c.Out(x->dtype(), WithDim(x->sizes(), dim, part));
    return;
  }
  OutAtIndices(c, x, dim, c.ToSizes(c.sym_ints("indices")));
}

void UnfoldDim(InferContext& c) {
  Value* x = Self(c);
  int dim = c.dim("dimension", x->rank());
  Sym size = c.i("size"), step = c.i("step");
  if (step.is_constant() && *step.constant() <= 0) return c.Fail("the step is not positive");
  Sizes out = x->sizes();
  NeedNotNegative(c, {size}, "the size of a window");
  if (ProvablyLess(out.empty() ? Sym(1) : out[dim], size)) return c.Fail("a window is larger than the size");
  if (!out.empty()) out[dim] = FloorDiv(out[dim] - size, step) + 1;
  out.push_back(size);
  c.Out(x->dtype(), out);
}

// The sums of what windows of a tensor of these sizes hold.
void UnfoldBackward(InferContext& c) {
  Value* x = c.tensor("grad_in");
  const Sizes out = c.ToSizes(c.sym_ints("input_sizes"));
  const int64_t size = c.i("size"), step = c.i("step");
  if (x->rank() != static_cast<int>(out.size()) + 1 || out.empty()) return c.Fail("the ranks do not agree");
  if (size < 1 || step < 1) return c.Fail("the size or the step of windows is not positive");
  const int dim = c.dim("dim", static_cast<int>(out.size()));
  c.RequireEqual(x->sizes().back(), size, "the windows are not of the size");
  c.RequireEqual(x->sizes()[dim], FloorDiv(out[dim] - size, step) + 1, "the number of windows is not that of the size");
  c.Out(x->dtype(), out);
}

void OutScattered(InferContext& c, const Sizes& part) {
  NeedSameSizes(c, TensorAt(c, 1)->sizes(), part, "sizes of what is written");
  SameAsSelf(c);
}

void SliceScatter(InferContext& c) { OutScattered(c, SliceSizes(c, Self(c))); }
void SelectScatter(InferContext& c) { OutScattered(c, SelectSizes(c, Self(c))); }
void AsStridedScatter(InferContext& c) { OutScattered(c, c.ToSizes(c.sym_ints("size"))); }
void DiagonalScatter(InferContext& c) {
  Value* x = Self(c);
  OutScattered(c, DiagonalSizes(c, x, c.i("offset"), c.dim("dim1", x->rank()), c.dim("dim2", x->rank())));
}

void Flip(InferContext& c) {
  std::vector<int> dims = c.dims("dims", Self(c)->rank(), /*empty_is_all=*/false);
  std::sort(dims.begin(), dims.end());
  if (std::adjacent_find(dims.begin(), dims.end()) != dims.end()) return c.Fail("a dimension is flipped twice");
  SameAsSelf(c);
}

void Roll(InferContext& c) {
  const size_t shifts = c.sym_ints("shifts").size(),
               dims = c.dims("dims", Self(c)->rank(), /*empty_is_all=*/false).size();
  if (dims == 0 ? shifts != 1 : shifts != dims) return c.Fail("shifts and dims differ in number");
  SameAsSelf(c);
}

template <int kRank>
void LikeSelfOfRank(InferContext& c) {
  NeedRankAtLeast(c, Self(c), kRank);
  SameAsSelf(c);
}

Values Tensors(InferContext& c) {
  Values all = c.tensors(c.node().op().args[0].name);
  all.erase(std::remove(all.begin(), all.end(), nullptr), all.end());
  if (all.empty()) c.Fail("no tensors");
  return all;
}

void OutJoined(InferContext& c, const Values& all, const std::vector<Sizes>& shapes, int64_t dim) {
  // A 1-d tensor without elements is skipped, whatever the rank of the others.
  auto skipped = [](const Sizes& s) { return s.size() == 1 && s[0].is(0); };
  const Sizes* first = nullptr;
  for (const Sizes& s : shapes)
    if (!skipped(s) && !first) first = &s;
  if (!first) first = &shapes[0];
  Sizes out = *first;
  if (out.empty()) return c.Fail("0-d tensors cannot be joined");
  int d = c.WrapDim(dim, static_cast<int>(out.size()));
  Sym sum = 0;
  for (const Sizes& s : shapes) {
    if (skipped(s) && out.size() != 1) continue;
    if (s.size() != out.size()) return c.Fail("tensors of different ranks");
    sum = sum + s[d];
    for (size_t i = 0; i < out.size(); ++i) {
      if (static_cast<int>(i) == d) continue;
      if (!c.RequireEqual(out[i], s[i], "sizes of joined tensors")) return;
      if (s[i].is_constant()) out[i] = s[i];
    }
  }
  out[d] = sum;
  c.Out(c.ResultType(all), out);
}

std::vector<Sizes> ShapesOf(const Values& all) {
  std::vector<Sizes> out;
  for (Value* v : all) out.push_back(v->sizes());
  return out;
}

void Cat(InferContext& c) {
  Values all = Tensors(c);
  if (c.ok()) OutJoined(c, all, ShapesOf(all), c.i("dim"));
}

void Append(InferContext& c) {
  Values all = c.tensors("tensors");
  all.insert(all.begin(), TensorAt(c, 0));
  if (c.ok()) OutJoined(c, all, ShapesOf(all), c.i("dim"));
}

void Stack(InferContext& c) {
  Values all = Tensors(c);
  if (!c.ok()) return;
  Sizes out = all[0]->sizes();
  for (Value* v : all) {
    if (v->rank() != all[0]->rank()) return c.Fail("tensors of different ranks");
    for (size_t i = 0; i < out.size(); ++i) {
      if (!c.RequireEqual(out[i], v->sizes()[i], "sizes of stacked tensors")) return;
      if (v->sizes()[i].is_constant()) out[i] = v->sizes()[i];
    }
  }
  int dim = c.WrapDim(c.i("dim"), static_cast<int>(out.size()) + 1);
  out.insert(out.begin() + dim, static_cast<int64_t>(all.size()));
  c.Out(c.ResultType(all), out);
}

void StackAlong(InferContext& c) {  // hstack, vstack, dstack
  Values all = Tensors(c);
  if (!c.ok()) return;
  std::string_view base = c.node().op().base;
  int rank = base == "hstack" ? 1 : base == "dstack" ? 3 : 2;
  std::vector<Sizes> shapes = ShapesOf(all);
  for (Sizes& s : shapes) s = AtLeastRank(s, rank);
  OutJoined(c, all, shapes, rank == 1 ? (shapes[0].size() == 1 ? 0 : 1) : rank == 2 ? 0 : 2);
}

void ColumnStack(InferContext& c) {
  Values all = Tensors(c);
  if (!c.ok()) return;
  std::vector<Sizes> shapes = ShapesOf(all);
  for (Sizes& s : shapes)
    if (s.size() <= 1) s = {s.empty() ? Sym(1) : s[0], 1};
  OutJoined(c, all, shapes, 1);
}

void BlockDiag(InferContext& c) {
  Values all = Tensors(c);
  Sym rows = 0, columns = 0;
  for (Value* v : all) {
    if (v->rank() > 2) return c.Fail("tensors of more than 2 dimensions");
    Sizes s = AtLeastRank(v->sizes(), 2);
    rows = rows + s[0];
    columns = columns + s[1];
  }
  c.Out(c.ResultType(all), {rows, columns});
}

void CartesianProd(InferContext& c) {
  Values all = Tensors(c);
  if (!c.ok()) return;
  Sym n = 1;
  for (Value* v : all) {
    NeedRank(c, v, 1);
    NeedSameDType(c, {all[0], v});
    n = n * NumelOf(v);
  }
  if (all.size() == 1) return c.Out(all[0]->dtype(), {n});
  c.Out(c.ResultType(all), {n, static_cast<int64_t>(all.size())});
}

void ChunkCat(InferContext& c) {
  Values all = Tensors(c);
  int64_t chunks = c.i("num_chunks");
  if (!c.ok()) return;
  if (chunks <= 0) return c.Fail("the number of chunks is not positive");
  int dim = c.WrapDim(c.i("dim"), all[0]->rank());
  if (!c.ok() || all[0]->rank() == 0) return c.Fail("tensors without dimensions");
  Sizes out(all[0]->sizes().begin(), all[0]->sizes().begin() + dim);
  Sym sum = 0;
  for (Value* v : all) {
    if (v->rank() <= dim) return c.Fail("tensors of different ranks");
    Sym inner = FloorDiv(v->sizes()[dim] + chunks - 1, chunks);
    for (int d = dim + 1; d < v->rank(); ++d) inner = inner * v->sizes()[d];
    sum = sum + inner;
  }
  out.push_back(chunks);
  out.push_back(sum);
  c.Out(c.ResultType(all), out);
}

void Pad(InferContext& c) {
  Value* x = Self(c);
  Sizes pad = c.ToSizes(c.sym_ints(c.node().op().args[1].name)), out = x->sizes();
  if (pad.size() % 2 || pad.size() / 2 > out.size()) return c.Fail("padding does not fit the tensor's rank");
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    Sym& s = out[out.size() - 1 - i];
    s = s + pad[2 * i] + pad[2 * i + 1];
    if (s.is_constant() && *s.constant() < 0) return c.Fail("padding makes a size negative");
  }
  c.Out(x->dtype(), out);
}

template <bool kShuffle>
void PixelShuffle(InferContext& c) {
  Value* x = Self(c);
  int64_t r = c.i(c.node().op().args[1].name);
  int n = x->rank();
  if (n < 3 || r <= 0 || r > 1 << 20) return c.Fail("needs 3 dimensions and a positive factor");
  Sizes out = x->sizes();
  if (kShuffle)
    c.RequireEqual(Mod(out[n - 3], r * r), 0, "channels that the factor does not divide");
  else
    for (int d : {n - 2, n - 1}) c.RequireEqual(Mod(out[d], r), 0, "a size that the factor does not divide");
  out[n - 3] = kShuffle ? FloorDiv(out[n - 3], r * r) : out[n - 3] * (r * r);
  for (int d : {n - 2, n - 1}) out[d] = kShuffle ? out[d] * r : FloorDiv(out[d], r);
  c.Out(x->dtype(), out);
}

void Combinations(InferContext& c) {
  Value* x = Self(c);
  int64_t r = c.i("r");
  bool again = c.b("with_replacement");
  if (x->rank() != 1 || r < 0 || r > 64) return c.Fail("needs a vector and a small r");
  if (r == 0) return c.Out(x->dtype(), {0});
  // n (n-1) … (n-r+1) / r!, or n (n+1) … with replacement
  Sym count = 1;
  for (int64_t i = 0; i < r; ++i) count = FloorDiv(count * (again ? x->sizes()[0] + i : x->sizes()[0] - i), i + 1);
  c.Out(x->dtype(), {count, r});
}

void RepeatInterleaveInt(InferContext& c) {
  Value* x = Self(c);
  Sym times = ExprOf(c.sym("repeats"));
  if (!c.has("dim")) return c.Out(x->dtype(), {NumelOf(x) * times});
  int dim = c.dim("dim", x->rank());
  if (x->rank() == 0) return c.Out(x->dtype(), {times});
  c.Out(x->dtype(), WithDim(x->sizes(), dim, x->sizes()[dim] * times));
}

void RepeatInterleaveTensor(InferContext& c) {  // as many as the counts add up to
  Value* x = Self(c);
  Sym n = OptSym(c, "output_size").value_or(Sym(-1));
  if (n.is(-1)) n = c.FreshSize();
  if (!c.has("dim")) return c.Out(x->dtype(), {n});
  c.Out(x->dtype(), WithDim(x->sizes(), c.dim("dim", x->rank()), n));
}

void RepeatInterleaveCounts(InferContext& c) {
  Sym n = OptSym(c, "output_size").value_or(Sym(-1));
  c.Out(Self(c)->dtype(), {n.is(-1) ? c.FreshSize() : n});
}

constexpr ShapeFamily kPartFamilies[] = {
    {AsStridedScatter, "as_strided_scatter"},
    {SelectScatter, "select_scatter"},
    {SliceScatter, "slice_scatter"},
    {DiagonalScatter, "diagonal_scatter"},
    {Flip, "flip"},
    {LikeSelfOfRank<2>, "fliplr tril triu"},
    {LikeSelfOfRank<1>, "flipud"},
    {Roll, "roll"},
    {Slice, "slice.Tensor slice_copy.Tensor"},
    {Select, "select.int select_copy.int"},
    {Narrow, "narrow narrow_copy narrow.Tensor"},
    {Unbind, "unbind.int unbind_copy.int"},
    {Split, "split.Tensor split_copy.Tensor unsafe_split.Tensor"},
    {Chunk, "chunk unsafe_chunk"},
    {SplitSizes, "split.sizes split split_with_sizes split_with_sizes_copy unsafe_split_with_sizes"},
    {TensorSplitSections, "tensor_split.sections"},
    {TensorSplitIndices, "tensor_split.indices"},
    {TensorSplitTensor, "tensor_split.tensor_indices_or_sections"},
    {SplitAlong<1>, "hsplit.int hsplit.array"},
    {SplitAlong<0>, "vsplit.int vsplit.array"},
    {SplitAlong<2>, "dsplit.int dsplit.array"},
    {UnfoldDim, "unfold unfold_copy"},
    {UnfoldBackward, "unfold_backward"},
    {Cat, "cat concat concatenate"},
    {Append, "/slipway.append.default"},
    {Stack, "stack _stack"},
    {StackAlong, "hstack vstack dstack row_stack"},
    {ColumnStack, "column_stack"},
    {BlockDiag, "block_diag"},
    {CartesianProd, "cartesian_prod"},
    {ChunkCat, "_chunk_cat"},
    {Pad,
     "pad constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d "
     "replication_pad3d _pad_enum _pad_circular"},
    {PixelShuffle<true>, "pixel_shuffle"},
    {PixelShuffle<false>, "pixel_unshuffle"},
    {Combinations, "combinations"},
    {RepeatInterleaveInt, "repeat_interleave.self_int"},
    {RepeatInterleaveTensor, "repeat_interleave.self_Tensor"},
    {RepeatInterleaveCounts, "repeat_interleave.Tensor"},
};

}  // namespace

absl::Span<const ShapeRow> PartShapes() {
  static const absl::Span<const ShapeRow> rows = ExpandFamilies(kPartFamilies);
  return rows;
}

}  // namespace slipway::ir
