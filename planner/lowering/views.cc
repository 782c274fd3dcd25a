// Operators that see the same numbers otherwise: arithmetic on strides.
#include <algorithm>
#include <limits>

#include "base/text.h"
#include "ir/ops/args.h"
#include "ir/ops/op_table.h"
#include "ir/tensor.h"
#include "planner/choose_layouts.h"
#include "planner/lowering/rules.h"

namespace slipway::planner {
namespace {

void Reshaped(PlanContext& c) { c.Return(c.Reshape(c.in(size_t{0}), c.out_sizes())); }
// The same bytes as numbers of another type: as many of one size, or each row cut or joined.
void Reinterpreted(PlanContext& c) {
  Operand x = c.in("self");
  const DType to = c.out_dtype();
  if (to == x.dtype) return c.Return(x);
  if (to == DType::kBool) return c.Unsupported("bytes of numbers as bool");
  if (ir::ByteSize(to) != ir::ByteSize(x.dtype)) {
    if (!x.is_contiguous() || !x.offset.is(0)) {
      const Operand dense = c.Temp(x.dtype, x.sizes);
      c.Copy(x, dense);
      x = dense;
    }
    x.sizes = c.out_sizes();
    x.strides = ContiguousStrides(x.sizes);
  }
  x.dtype = to;
  c.Return(x);
}
void Expanded(PlanContext& c) {
  Operand x = c.in("self");
  if (x.rank() > static_cast<int>(c.out_sizes().size())) return c.Fail("fewer dims than the tensor has");
  c.Return(c.Expand(std::move(x), c.out_sizes()));
}
void Broadcast(PlanContext& c) {
  std::vector<Operand> out;
  for (ir::Value* v : c.tensors("tensors")) {
    if (!v) return c.Fail("a tensor is missing");
    out.push_back(c.Expand(c.of(v), c.out_sizes(out.size())));
  }
  c.Return(std::move(out));
}
void DimsMoved(PlanContext& c) {
  Operand x = c.in("self");
  std::vector<int> from = c.dims("source", x.rank(), false), to = c.dims("destination", x.rank(), false);
  std::vector<int> order(x.rank(), -1);
  if (x.rank() == 0) return c.Return(x);
  for (size_t i = 0; i < from.size() && i < to.size(); ++i) order[to[i]] = from[i];
  int next = 0;
  for (int& o : order) {
    if (o >= 0) continue;
    while (std::find(from.begin(), from.end(), next) != from.end()) ++next;
    o = next++;
  }
  c.Return(Permute(x, order));
}
void Permuted(PlanContext& c) {
  Operand x = c.in("self");
  std::vector<int> order = c.dims("dims", x.rank(), false);
  std::vector<int> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (int d = 0; d < static_cast<int>(sorted.size()); ++d)
    if (sorted[d] != d) return c.Fail("dims are no permutation");
  if (static_cast<int>(order.size()) != x.rank()) return c.Fail("dims are no permutation");
  c.Return(Permute(x, order));
}
void Transposed(PlanContext& c) {
  Operand x = c.in("self");
  if (x.rank() == 0) return c.Return(x);
  c.Return(Swap(x, c.dim(c.node().op_name().starts_with("aten.swap") ? "axis0" : "dim0", x.rank()),
                c.dim(c.node().op_name().starts_with("aten.swap") ? "axis1" : "dim1", x.rank())));
}
void MatrixTransposed(PlanContext& c) {
  Operand x = c.in("self");
  c.Return(x.rank() < 2 ? x : Swap(x, x.rank() - 2, x.rank() - 1));
}
void Reversed(PlanContext& c) {
  Operand x = c.in("self");
  std::vector<int> order;
  for (int d = x.rank(); d-- > 0;) order.push_back(d);
  c.Return(Permute(x, order));
}
void Unsqueezed(PlanContext& c) {
  Operand x = c.in("self");
  c.Return(Unsqueeze(x, c.dim("dim", x.rank() + 1)));
}
// The part that a slice names: torch clamps its bounds.
struct ViewPart {
  int dim = 0;
  Dim start, length, step;
};
ViewPart SliceOf(PlanContext& c, const Operand& x) {
  ViewPart p;
  if (x.rank() == 0) c.Fail("a slice of a 0-d tensor");
  if (!c.ok()) return p;
  p.dim = c.dim("dim", x.rank());
  p.step = c.n("step");
  const Dim size = x.sizes[p.dim];
  // The end that stands for "to the end".
  constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
  auto bound = [&](const char* name, Dim otherwise) {
    const Dim v = c.opt_n(name).value_or(otherwise);
    return v.is(kEnd) ? size : c.Clamp(c.FromEnd(v, size), size);
  };
  p.start = bound("start", 0);
  const Dim end = ir::Max(p.start, bound("end", size));
  if (!KnownLessEqual(1, p.step)) c.Fail("step is not positive");
  p.length = p.step.is(1) ? end - p.start : ir::CeilDiv(end - p.start, p.step);
  return p;
}
void Sliced(PlanContext& c) {
  Operand x = c.in("self");
  const ViewPart p = SliceOf(c, x);
  if (c.ok()) c.Return(Narrow(x, p.dim, p.start, p.length, p.step));
}
void Narrowed(PlanContext& c) {
  Operand x = c.in("self");
  if (x.rank() == 0) return c.Fail("a part of a 0-d tensor");
  const int dim = c.dim("dim", x.rank());
  const Dim start = c.FromEnd(c.n("start"), x.sizes[dim]), length = c.n("length");
  c.RequireLessEqual(0, start, "outside the tensor");
  c.RequireLessEqual(0, length, "outside the tensor");
  c.RequireLessEqual(start + length, x.sizes[dim], "outside the tensor");
  c.Return(Narrow(x, dim, start, length));
}
// The index of select and its like, checked.
Dim IndexOf(PlanContext& c, const Operand& x, int dim) {
  const Dim index = c.FromEnd(c.n("index"), x.sizes[dim]);
  c.RequireLessEqual(0, index, "index out of range");
  c.RequireLessEqual(index + 1, x.sizes[dim], "index out of range");
  return index;
}
void Selected(PlanContext& c) {
  Operand x = c.in("self");
  if (x.rank() == 0) return c.Fail("select of a 0-d tensor");
  const int dim = c.dim("dim", x.rank());
  c.Return(Select(x, dim, IndexOf(c, x, dim)));
}
// Parts one after another along a dim, of the sizes that the results declare.
void Parts(PlanContext& c) {
  Operand x = c.in("self");
  if (x.rank() == 0) return c.Fail("parts of a 0-d tensor");
  const int dim = c.dim("dim", x.rank());
  std::vector<Operand> parts;
  Dim at = 0;
  for (size_t i = 0; i < c.node().outputs().size() && c.ok(); ++i) {
    const Dims sizes = c.out_sizes(i);
    if (static_cast<int>(sizes.size()) != x.rank()) return c.Fail("parts do not fit");
    parts.push_back(Narrow(x, dim, at, sizes[dim]));
    at = at + sizes[dim];
  }
  c.RequireEqual(at, x.sizes[dim], "the parts do not add up to the size");
  c.Return(std::move(parts));
}
void Unbound(PlanContext& c) {
  Operand x = c.in("self");
  if (x.rank() == 0) return c.Fail("unbind of a 0-d tensor");
  const int dim = c.dim("dim", x.rank());
  std::vector<Operand> parts;
  const int64_t count = static_cast<int64_t>(c.node().outputs().size());
  c.RequireEqual(x.sizes[dim], count, "another number of parts");
  for (int64_t i = 0; i < count; ++i) parts.push_back(Select(x, dim, i));
  c.Return(std::move(parts));
}
void Diagonalled(PlanContext& c) {
  Operand x = c.in("self");
  const int a = c.dim("dim1", x.rank()), b = c.dim("dim2", x.rank());
  if (x.rank() < 2 || a == b) return c.Fail("dims are no plane");
  c.Return(Diagonal(x, c.Shift(c.i("offset")), a, b));
}
void Unfolded(PlanContext& c) {
  Operand x = c.in("self");
  const Dim size = c.n("size"), step = c.n("step");
  if (x.rank() == 0) {  // counts as one element
    if (!size.is(0) && !size.is(1)) return c.Fail("size is larger than the dim");
    Operand y = Unsqueeze(x, 0);
    return c.Return(Narrow(y, 0, 0, size));
  }
  if (!KnownLessEqual(1, step) || !KnownLessEqual(0, size)) return c.Unsupported("of these sizes");
  const int dim = c.dim("dimension", x.rank());
  c.RequireLessEqual(size, x.sizes[dim], "size is larger than the dim");
  const Dim stride = x.strides[dim];
  Operand y = Narrow(x, dim, 0, ir::FloorDiv(x.sizes[dim] - size, step) + 1, step);
  y.sizes.push_back(size);
  y.strides.push_back(stride);
  c.Return(y);
}
void Flipped(PlanContext& c) {
  Operand x = c.in("self");
  for (int d : c.dims("dims", x.rank(), false)) {
    if (d >= x.rank()) continue;
    x.offset = x.offset + (x.sizes[d] - 1) * x.strides[d] * ir::ByteSize(x.dtype);
    x.strides[d] = -x.strides[d];
  }
  c.Return(x);
}

// The tensor with a part of it replaced.
void SelectScatter(PlanContext& c) {
  Operand x = c.in("self"), src = c.in("src"), out = c.Result();
  if (x.rank() == 0) return c.Fail("select of a 0-d tensor");
  const int dim = c.dim("dim", x.rank());
  const Dim index = IndexOf(c, x, dim);
  c.Copy(x, out);
  c.Copy(src, Select(out, dim, index));
  c.Return(out);
}
void SliceScatter(PlanContext& c) {
  Operand x = c.in("self"), src = c.in("src"), out = c.Result();
  const ViewPart p = SliceOf(c, x);
  if (!c.ok()) return;
  c.Copy(x, out);
  c.Copy(src, Narrow(out, p.dim, p.start, p.length, p.step));
  c.Return(out);
}

void DiagonalScatter(PlanContext& c) {
  Operand x = c.in("self"), src = c.in("src"), out = c.Result();
  const int a = c.dim("dim1", x.rank()), b = c.dim("dim2", x.rank());
  if (x.rank() < 2 || a == b) return c.Fail("dims are no plane");
  c.Copy(x, out);
  c.Copy(src, Diagonal(out, c.Shift(c.i("offset")), a, b));
  c.Return(out);
}
void LinalgDiagonal(PlanContext& c) {
  Operand x = c.in("A");
  const int a = c.dim("dim1", x.rank()), b = c.dim("dim2", x.rank());
  if (x.rank() < 2 || a == b) return c.Fail("dims are no plane");
  c.Return(Diagonal(x, c.Shift(c.i("offset")), a, b));
}
// A vector becomes a diagonal, a matrix gives its own.
void Diag(PlanContext& c) {
  Operand x = c.in("self");
  const bool flat = c.kernel() == "diagflat";
  const int64_t offset = c.Shift(c.i(flat ? "offset" : "diagonal"));
  if (!flat && x.rank() == 2) return c.Return(Diagonal(x, offset, 0, 1));
  if (!flat && x.rank() != 1) return c.Fail("of neither a vector nor a matrix");
  Operand out = c.Full(c.out_sizes(), ir::Scalar(), c.out_dtype());
  if (c.ok()) c.Copy(c.Reshape(x, {x.numel()}), Diagonal(out, offset, 0, 1));
  c.Return(out);
}
void Trace(PlanContext& c) {
  Operand x = c.in("self"), out = c.Result();
  if (x.rank() != 2) return c.Fail("of no matrix");
  c.Emit("sum", {Diagonal(x, 0, 0, 1)}, {out}, out.dtype, kernels::ReduceAttributes{1});
  c.Return(out);
}
void PixelShuffle(PlanContext& c) {
  Operand x = c.in("self");
  const Dim r = c.n("upscale_factor");
  if (x.rank() < 3) return c.Fail("fewer than 3 dims");
  const Dims out = c.out_sizes();
  if (!c.ok()) return;
  const int n = x.rank() - 3;
  Dims sizes(out.begin(), out.begin() + n);
  for (Dim s : {out[n], r, r, x.sizes[n + 1], x.sizes[n + 2]}) sizes.push_back(s);
  std::vector<int> order;
  for (int d = 0; d < n; ++d) order.push_back(d);
  for (int d : {0, 3, 1, 4, 2}) order.push_back(n + d);
  c.Return(c.Reshape(Permute(c.Reshape(x, sizes), order), out));
}
void PixelUnshuffle(PlanContext& c) {
  Operand x = c.in("self");
  const Dim r = c.n("downscale_factor");
  if (x.rank() < 3) return c.Fail("fewer than 3 dims");
  const Dims out = c.out_sizes();
  if (!c.ok()) return;
  const int n = x.rank() - 3;
  Dims sizes(out.begin(), out.begin() + n);
  for (Dim s : {x.sizes[n], out[n + 1], r, out[n + 2], r}) sizes.push_back(s);
  std::vector<int> order;
  for (int d = 0; d < n; ++d) order.push_back(d);
  for (int d : {0, 2, 4, 1, 3}) order.push_back(n + d);
  c.Return(c.Reshape(Permute(c.Reshape(x, sizes), order), out));
}
void ChannelShuffle(PlanContext& c) {
  Operand x = c.in("self");
  const Dim groups = c.n("groups");
  if (x.rank() < 3) return c.Fail("fewer than 3 dims");
  if (!c.ok() || !KnownLessEqual(1, groups)) return c.Unsupported("of these groups");
  Dims sizes = x.sizes;
  sizes[1] = groups;
  sizes.insert(sizes.begin() + 2, ir::FloorDiv(x.sizes[1], groups));
  c.Return(c.Reshape(Swap(c.Reshape(x, sizes), 1, 2), x.sizes));
}
// Strides over the memory of a tensor that is dense in the program.
bool IsPlain(PlanContext& c) {
  const ir::Type& t = c.tensor("self")->type();
  Dim span = 1;
  for (int d = t.rank() - 1; t.strides_known && d >= 0; --d) {
    if (!t.sizes[d].is(1) && !KnownEqual(t.strides[d], span))
      c.Unsupported("strides over a tensor that is not contiguous");
    span = span * t.sizes[d];
  }
  if (t.strides_known && !t.storage_offset.is(0)) c.Unsupported("strides over a part of a tensor");
  return c.ok();
}
Operand Strided(PlanContext& c, Operand x) {
  x.sizes = c.ns("size");
  x.strides = c.ns("stride");
  if (x.sizes.size() != x.strides.size()) c.Fail("strides do not fit the sizes");
  x.offset = x.offset + c.opt_n("storage_offset").value_or(0) * ir::ByteSize(x.dtype);
  return x;
}
void AsStrided(PlanContext& c) {
  if (IsPlain(c)) c.Return(Strided(c, c.Dense(c.in("self"))));
}
void AsStridedScatter(PlanContext& c) {
  if (!IsPlain(c)) return;
  Operand x = c.in("self"), src = c.in("src"), out = c.Result();
  c.Copy(x, out);
  c.Copy(src, Strided(c, out));
  c.Return(out);
}

// Patches of images: windows are views, of a padded copy.
struct Patches {
  int64_t kernel[2], dilation[2], padding[2], stride[2];
};
bool ReadPatches(PlanContext& c, Patches* p) {
  const struct {
    const char* name;
    int64_t* to;
    int64_t least;
  } lists[] = {{"kernel_size", p->kernel, 1},
               {"dilation", p->dilation, 1},
               {"padding", p->padding, 0},
               {"stride", p->stride, 1}};
  for (const auto& l : lists) {
    const Ints v = c.ints(l.name, 2);
    if (!c.ok() || v.size() != 2 || v[0] < l.least || v[1] < l.least || v[0] > 1 << 20 || v[1] > 1 << 20) {
      c.Fail("the windows make no sense");
      return false;
    }
    std::copy(v.begin(), v.end(), l.to);
  }
  return true;
}
// How many windows lie along a dim of `size`.
Dim Windows(const Patches& p, int d, Dim size) {
  return ir::FloorDiv(size + 2 * p.padding[d] - p.dilation[d] * (p.kernel[d] - 1) - 1, p.stride[d]) + 1;
}
// Windows of `x` [n, c, h, w], padded already: [n, c, kh, kw, rows, columns].
Operand WindowView(const Patches& p, Operand x, Dim rows, Dim columns) {
  const Dim sh = x.strides[2], sw = x.strides[3];
  x.sizes = {x.sizes[0], x.sizes[1], p.kernel[0], p.kernel[1], rows, columns};
  x.strides = {x.strides[0], x.strides[1], sh * p.dilation[0], sw * p.dilation[1], sh * p.stride[0], sw * p.stride[1]};
  return x;
}
void Im2Col(PlanContext& c) {
  Operand x = c.in("self");
  Patches p;
  if (!ReadPatches(c, &p)) return;
  if (x.rank() == 3) x = Unsqueeze(x, 0);
  if (x.rank() != 4) return c.Fail("the rank is not that of the operator");
  const Dim rows = Windows(p, 0, x.sizes[2]), columns = Windows(p, 1, x.sizes[3]);
  if (p.padding[0] != 0 || p.padding[1] != 0) {
    Operand padded = c.Full({x.sizes[0], x.sizes[1], x.sizes[2] + 2 * p.padding[0], x.sizes[3] + 2 * p.padding[1]},
                            ir::Scalar(), x.dtype);
    if (!c.ok()) return;
    c.Copy(x, Narrow(Narrow(padded, 2, p.padding[0], x.sizes[2]), 3, p.padding[1], x.sizes[3]));
    x = padded;
  }
  c.Return(c.Reshape(WindowView(p, x, rows, columns), c.out_sizes()));
}
void Col2Im(PlanContext& c) {
  Operand x = c.in("self"), out = c.Result();
  Patches p;
  if (!ReadPatches(c, &p)) return;
  const Dims size = c.ns("output_size");
  if (size.size() != 2 || p.kernel[0] * p.kernel[1] > 4096) return c.Unsupported("of these sizes");
  if (ir::IsLowPrecision(x.dtype))
    return c.Unsupported(text::StrCat(ir::Name(x.dtype), ": torch rounds inside its kernel"));
  Operand to = out.rank() == 3 ? Unsqueeze(out, 0) : out;
  const Dim rows = Windows(p, 0, size[0]), columns = Windows(p, 1, size[1]);
  Operand from = c.Reshape(x, {to.sizes[0], to.sizes[1], p.kernel[0], p.kernel[1], rows, columns});
  Operand sum =
      c.Full({to.sizes[0], to.sizes[1], size[0] + 2 * p.padding[0], size[1] + 2 * p.padding[1]}, ir::Scalar(), x.dtype);
  if (!c.ok()) return;
  const Operand windows = WindowView(p, sum, rows, columns);
  for (int64_t i = 0; i < p.kernel[0]; ++i)
    for (int64_t j = 0; j < p.kernel[1]; ++j) {
      const Operand part = Select(Select(windows, 2, i), 2, j);
      c.Map("add", {part, Select(Select(from, 2, i), 2, j)}, part, x.dtype);
    }
  c.Copy(Narrow(Narrow(sum, 2, p.padding[0], size[0]), 3, p.padding[1], size[1]), to);
  c.Return(out);
}

constexpr PlanFamily kViewFamilies[] = {
    {Reshaped, "",
     "view reshape _unsafe_view view_copy view_as reshape_as flatten.using_ints unflatten.int squeeze squeeze.dim "
     "squeeze.dims "
     "squeeze_copy squeeze_copy.dim squeeze_copy.dims ravel _reshape_copy"},
    {Reinterpreted, "", "view.dtype view_copy.dtype"},
    {Expanded, "", "expand expand_copy expand_as broadcast_to"},
    {Broadcast, "", "broadcast_tensors"},
    {DimsMoved, "", "movedim.int movedim.intlist moveaxis.int moveaxis.intlist"},
    {Permuted, "", "permute permute_copy"},
    {Transposed, "", "transpose.int transpose_copy.int swapaxes swapdims"},
    {MatrixTransposed, "", "t t_copy mT"},
    {Reversed, "", "numpy_T"},
    {Unsqueezed, "", "unsqueeze unsqueeze_copy"},
    {Sliced, "", "slice.Tensor slice_copy.Tensor"},
    {Narrowed, "", "narrow narrow_copy"},
    {Selected, "", "select.int select_copy.int"},
    {Parts, "",
     "split.Tensor split_copy.Tensor unsafe_split.Tensor split.sizes split split_with_sizes split_with_sizes_copy "
     "unsafe_split_with_sizes chunk unsafe_chunk"},
    {Unbound, "", "unbind.int unbind_copy.int"},
    {Diagonalled, "", "diagonal diagonal_copy"},
    {Unfolded, "", "unfold unfold_copy"},
    {Flipped, "", "flip"},
    {DiagonalScatter, "", "diagonal_scatter"},
    {LinalgDiagonal, "", "linalg_diagonal"},
    {Diag, "diag", "diag"},
    {Diag, "diagflat", "diagflat"},
    {Trace, "sum", "trace"},
    {PixelShuffle, "", "pixel_shuffle"},
    {PixelUnshuffle, "", "pixel_unshuffle"},
    {ChannelShuffle, "", "channel_shuffle native_channel_shuffle"},
    {AsStrided, "", "as_strided as_strided_copy"},
    {AsStridedScatter, "", "as_strided_scatter"},
    {Im2Col, "", "im2col"},
    {Col2Im, "", "col2im", true},
    {SelectScatter, "", "select_scatter"},
    {SliceScatter, "", "slice_scatter"},
};

}  // namespace

absl::Span<const PlanFamily> ViewPlans() { return kViewFamilies; }

}  // namespace slipway::planner
