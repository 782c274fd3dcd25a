// Operators that see the same numbers otherwise: arithmetic on strides. What joins or repeats copies into views of its
// result.
#include <algorithm>

#include "base/text.h"
#include "ir/tensor.h"
#include "planner/rules.h"

namespace slipway::planner {
namespace {

void Reshaped(PlanContext& c) { c.Return(c.Reshape(c.in(size_t{0}), c.out_sizes())); }
void Expanded(PlanContext& c) {
  Operand x = c.in("self");
  if (x.rank() > static_cast<int>(c.out_sizes().size())) return c.Fail("fewer dims than the tensor has");
  c.Return(Expand(std::move(x), c.out_sizes()));
}
void Broadcast(PlanContext& c) {
  std::vector<Operand> out;
  for (ir::Value* v : c.tensors("tensors")) {
    if (!v) return c.Fail("a tensor is missing");
    out.push_back(Expand(c.of(v), c.out_sizes(out.size())));
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
void Unsqueezed(PlanContext& c) {
  Operand x = c.in("self");
  c.Return(Unsqueeze(x, c.dim("dim", x.rank() + 1)));
}
void Sliced(PlanContext& c) {
  Operand x = c.in("self");
  if (x.rank() == 0) return c.Fail("a slice of a 0-d tensor");
  const int dim = c.dim("dim", x.rank());
  const int64_t size = x.sizes[dim], step = c.i("step");
  auto bound = [&](const char* name, int64_t otherwise) {
    int64_t v = c.opt_i(name).value_or(otherwise);
    if (v < 0) v += size;
    return std::clamp<int64_t>(v, 0, size);
  };
  const int64_t start = bound("start", 0), end = std::max(start, bound("end", size));
  if (step <= 0) return c.Fail("step is not positive");
  c.Return(Narrow(x, dim, start, (end - start) / step + ((end - start) % step != 0), step));
}
void Narrowed(PlanContext& c) {
  Operand x = c.in("self");
  if (x.rank() == 0) return c.Fail("a part of a 0-d tensor");
  const int dim = c.dim("dim", x.rank());
  int64_t start = c.i("start"), length = c.i("length");
  if (start < 0) start += x.sizes[dim];
  if (start < 0 || length < 0 || start > x.sizes[dim] || length > x.sizes[dim] - start)
    return c.Fail("outside the tensor");
  c.Return(Narrow(x, dim, start, length));
}
void Selected(PlanContext& c) {
  Operand x = c.in("self");
  if (x.rank() == 0) return c.Fail("select of a 0-d tensor");
  const int dim = c.dim("dim", x.rank());
  int64_t index = c.i("index");
  if (index < 0) index += x.sizes[dim];
  if (index < 0 || index >= x.sizes[dim]) return c.Fail("index out of range");
  c.Return(Select(x, dim, index));
}
// Parts one after another along a dim, of the sizes that the results declare.
void Parts(PlanContext& c) {
  Operand x = c.in("self");
  if (x.rank() == 0) return c.Fail("parts of a 0-d tensor");
  const int dim = c.dim("dim", x.rank());
  std::vector<Operand> parts;
  int64_t at = 0;
  for (size_t i = 0; i < c.node().outputs().size() && c.ok(); ++i) {
    Ints sizes = c.out_sizes(i);
    if (static_cast<int>(sizes.size()) != x.rank() || sizes[dim] > x.sizes[dim] - at) return c.Fail("parts do not fit");
    parts.push_back(Narrow(x, dim, at, sizes[dim]));
    at += sizes[dim];
  }
  c.Return(std::move(parts));
}
void Unbound(PlanContext& c) {
  Operand x = c.in("self");
  if (x.rank() == 0) return c.Fail("unbind of a 0-d tensor");
  const int dim = c.dim("dim", x.rank());
  std::vector<Operand> parts;
  for (int64_t i = 0; i < x.sizes[dim]; ++i) parts.push_back(Select(x, dim, i));
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
  const int64_t size = c.i("size"), step = c.i("step");
  if (x.rank() == 0 || step <= 0 || size < 0) return c.Unsupported("of these sizes");
  const int dim = c.dim("dimension", x.rank());
  if (size > x.sizes[dim]) return c.Fail("size is larger than the dim");
  const int64_t stride = x.strides[dim];
  Operand y = Narrow(x, dim, 0, (x.sizes[dim] - size) / step + 1, step);
  y.sizes.push_back(size);
  y.strides.push_back(stride);
  c.Return(y);
}
void Flipped(PlanContext& c) {
  Operand x = c.in("self");
  for (int d : c.dims("dims", x.rank(), false)) {
    if (d >= x.rank() || x.sizes[d] == 0) continue;
    x.offset += (x.sizes[d] - 1) * x.strides[d] * ir::ByteSize(x.dtype);
    x.strides[d] = -x.strides[d];
  }
  c.Return(x);
}

// Copies of the operands, one after another.
void Join(PlanContext& c, const std::vector<Operand>& parts, int dim) {
  Operand out = c.Result();
  int64_t at = 0;
  for (const Operand& x : parts) {
    if (!c.ok()) return;
    if (x.rank() != out.rank() || x.sizes[dim] > out.sizes[dim] - at) return c.Fail("the tensors do not fit together");
    c.Copy(x, Narrow(out, dim, at, x.sizes[dim]));
    at += x.sizes[dim];
  }
  c.Return(out);
}
std::vector<Operand> Tensors(PlanContext& c) {
  std::vector<Operand> out;
  for (ir::Value* v : c.tensors("tensors")) {
    if (!v)
      c.Fail("a tensor is missing");
    else
      out.push_back(c.of(v));
  }
  return out;
}
void Concatenated(PlanContext& c) {
  std::vector<Operand> parts = Tensors(c);
  const int rank = static_cast<int>(c.out_sizes().size());
  if (rank == 0) return c.Fail("of 0-d tensors");
  // Vectors of nothing join with everything.
  std::erase_if(parts, [&](const Operand& x) { return x.rank() == 1 && x.sizes[0] == 0 && rank > 1; });
  Join(c, parts, c.dim("dim", rank));
}
void Stacked(PlanContext& c) {
  std::vector<Operand> parts = Tensors(c);
  const int dim = c.dim("dim", static_cast<int>(c.out_sizes().size()));
  for (Operand& x : parts) {
    if (dim > x.rank()) return c.Fail("the tensors do not fit together");
    x = Unsqueeze(x, dim);
  }
  Join(c, parts, dim);
}
void Repeated(PlanContext& c) {
  Operand x = c.in("self"), out = c.Result();
  if (!c.ok()) return;
  if (x.rank() > out.rank()) return c.Fail("fewer dims than the tensor has");
  while (x.rank() < out.rank()) x = Unsqueeze(std::move(x), 0);
  // Each dim of the result as (times, size): the times are expanded.
  Operand from = x, to = out;
  from.sizes.clear(), from.strides.clear(), to.sizes.clear(), to.strides.clear();
  for (int d = 0; d < out.rank(); ++d) {
    if (out.sizes[d] == 0) return c.Return(out);
    if (x.sizes[d] == 0 || out.sizes[d] % x.sizes[d] != 0) return c.Fail("the sizes do not agree");
    from.sizes.insert(from.sizes.end(), {out.sizes[d] / x.sizes[d], x.sizes[d]});
    from.strides.insert(from.strides.end(), {0, x.strides[d]});
    to.sizes.insert(to.sizes.end(), {out.sizes[d] / x.sizes[d], x.sizes[d]});
    to.strides.insert(to.strides.end(), {out.strides[d] * x.sizes[d], out.strides[d]});
  }
  c.Copy(from, to);
  c.Return(out);
}
void Rolled(PlanContext& c) {
  Operand x = c.in("self");
  Ints shifts = c.ints("shifts");
  std::vector<int> dims = c.dims("dims", x.rank(), false);
  Ints sizes = x.sizes;
  if (c.ints("dims").empty()) {
    x = c.Reshape(x, {x.numel()});
    dims = {0};
  }
  if (shifts.size() != dims.size() || x.rank() == 0) return c.Unsupported("of these dims");
  for (size_t i = 0; i < dims.size() && c.ok(); ++i) {
    const int d = dims[i];
    const int64_t n = x.sizes[d];
    if (n == 0) continue;
    const int64_t shift = (shifts[i] % n + n) % n;
    Operand y = c.Temp(x.dtype, x.sizes);
    c.Copy(Narrow(x, d, 0, n - shift), Narrow(y, d, shift, n - shift));
    c.Copy(Narrow(x, d, n - shift, shift), Narrow(y, d, 0, shift));
    x = y;
  }
  c.Return(c.Reshape(x, sizes));
}
void Padded(PlanContext& c) {
  Operand x = c.in("self");
  const Ints pad = c.ints("pad");
  for (int64_t v : pad) c.Shift(v);
  Ints sizes = c.out_sizes();
  if (c.node().op_name() == "aten.pad.default" && c.str("mode") != "constant")
    return c.Unsupported("modes other than constant");
  if (pad.size() % 2 != 0 || static_cast<int>(pad.size()) > 2 * x.rank()) return c.Fail("pad does not fit the tensor");
  ir::Scalar value;
  if (auto given = c.opt_scalar("value")) value = *given;
  Operand out = c.Full(sizes, value, c.out_dtype());
  if (!c.ok()) return;
  Operand from = x, to = out;
  for (size_t k = 0; k < pad.size() / 2; ++k) {
    const int d = x.rank() - 1 - static_cast<int>(k);
    const int64_t cut = std::max<int64_t>(0, -pad[2 * k]), cut_end = std::max<int64_t>(0, -pad[2 * k + 1]);
    const int64_t length = x.sizes[d] - cut - cut_end;
    if (length < 0) return c.Fail("pad does not fit the tensor");
    from = Narrow(from, d, cut, length);
    to = Narrow(to, d, std::max<int64_t>(0, pad[2 * k]), length);
  }
  c.Copy(from, to);
  c.Return(out);
}

// The tensor with a part of it replaced.
void SelectScatter(PlanContext& c) {
  Operand x = c.in("self"), src = c.in("src"), out = c.Result();
  if (!c.ok()) return;
  const int dim = c.dim("dim", x.rank());
  int64_t index = c.i("index");
  if (index < 0) index += x.sizes[dim];
  if (x.rank() == 0 || index < 0 || index >= x.sizes[dim]) return c.Fail("index out of range");
  c.Copy(x, out);
  c.Copy(src, Select(out, dim, index));
  c.Return(out);
}
void SliceScatter(PlanContext& c) {
  Operand x = c.in("self"), src = c.in("src"), out = c.Result();
  if (!c.ok() || x.rank() == 0) return c.Fail("a slice of a 0-d tensor");
  const int dim = c.dim("dim", x.rank());
  const int64_t size = x.sizes[dim], step = c.i("step");
  auto bound = [&](const char* name, int64_t otherwise) {
    int64_t v = c.opt_i(name).value_or(otherwise);
    if (v < 0) v += size;
    return std::clamp<int64_t>(v, 0, size);
  };
  const int64_t start = bound("start", 0), end = std::max(start, bound("end", size));
  if (step <= 0) return c.Fail("step is not positive");
  c.Copy(x, out);
  c.Copy(src, Narrow(out, dim, start, (end - start) / step + ((end - start) % step != 0), step));
  c.Return(out);
}

constexpr PlanFamily kFamilies[] = {
    {Reshaped, "",
     "view reshape _unsafe_view view_copy view_as reshape_as flatten.using_ints unflatten.int squeeze squeeze.dim "
     "squeeze.dims "
     "squeeze_copy squeeze_copy.dim squeeze_copy.dims ravel _reshape_copy"},
    {Expanded, "", "expand expand_copy expand_as broadcast_to"},
    {Broadcast, "", "broadcast_tensors"},
    {DimsMoved, "", "movedim.int movedim.intlist moveaxis.int moveaxis.intlist"},
    {Permuted, "", "permute permute_copy"},
    {Transposed, "", "transpose.int transpose_copy.int swapaxes swapdims"},
    {MatrixTransposed, "", "t t_copy mT numpy_T"},
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
    {Concatenated, "", "cat concat concatenate"},
    {Stacked, "", "stack"},
    {Repeated, "", "repeat tile"},
    {Rolled, "", "roll"},
    {Padded, "", "constant_pad_nd pad"},
    {SelectScatter, "", "select_scatter"},
    {SliceScatter, "", "slice_scatter"},
};

}  // namespace

absl::Span<const PlanFamily> ViewPlans() { return kFamilies; }

}  // namespace slipway::planner
