// Operators that move data without computing: views, concatenation, slicing, padding by constants.
#include <algorithm>
#include <limits>
#include <optional>

#include "exporters/onnx/lowerings/util.h"
#include "exporters/onnx/types.h"

namespace slipway::exporters::onnx_out {
namespace {

using ir::IntOrValue;
using ir::SymInts;

void Alias(LoweringContext& c) { c.Return(c.in("self")); }

// To the shape the type of the result states: a constant, or built from the argument with at most one -1. Static sizes
// of the result are used where the argument is symbolic, so that fewer nodes compute shapes.
V ReshapeTo(LoweringContext& c, V x, const SymInts& wanted) {
  const ir::Type& out = c.out_type();
  const ir::Sizes& own = c.tensor("self")->sizes();
  if (own == out.sizes) return x;
  if (V known = c.e.ReshapedAs(x, out.sizes)) return known;
  if (auto sizes = out.StaticSizes()) return c.e.Reshape(x, *sizes);
  SymInts target = wanted;
  int unknown = 0;
  for (size_t i = 0; i < target.size() && i < out.sizes.size(); ++i) {
    if (auto s = out.sizes[i].constant()) target[i] = *s;
    if (target[i].value || target[i].constant == -1) ++unknown;
  }
  // A single unknown size is what -1 means, unless a zero among the others makes it ambiguous.
  bool zero =
      std::any_of(target.begin(), target.end(), [](const IntOrValue& i) { return !i.value && i.constant == 0; });
  if (unknown == 1 && !zero)
    for (IntOrValue& i : target)
      if (i.value) i = -1;
  // 0 copies the size in the same place; beside a -1 it must not be one of no elements.
  if (unknown > 1 && !zero) {
    Ints copied;
    bool may_be_empty = false;
    for (size_t i = 0; i < target.size(); ++i) {
      const bool same = target[i].value && i < own.size() && i < out.sizes.size() && own[i] == out.sizes[i];
      may_be_empty |= same && ir::RangeOf(own[i]).min < 1;
      copied.push_back(same ? 0 : target[i].value ? -1 : target[i].constant);
    }
    const auto rest = std::count(copied.begin(), copied.end(), -1);
    if (rest == 0 || (rest == 1 && (!may_be_empty || c.e.shared()->from_onnx)))
      return c.e.Reshape(x, c.e.I64(copied), out.rank());
  }
  return c.e.Reshape(x, c.shape(target), out.rank(), zero);
}

void View(LoweringContext& c) {
  c.Return(ReshapeTo(c, c.in("self"), c.sym_ints(c.node().Find("shape") ? "shape" : "size")));
}

void Flatten(LoweringContext& c) {
  ir::Value* self = c.tensor("self");
  V x = c.in("self");
  int rank = self->rank();
  if (rank == 0) return c.Return(c.e.Reshape(x, {1}));
  int a = c.dim("start_dim", rank), b = c.dim("end_dim", rank);
  if (a > b) return c.Fail("start_dim comes after end_dim");
  if (a == b) return c.Return(x);
  if (auto sizes = c.out_type().StaticSizes()) return c.Return(c.e.Reshape(x, *sizes));
  // 0 copies a size by its position: of those before the run.
  Ints target;
  for (int d = 0; d < c.out_rank(); ++d) {
    const int64_t size = c.out_type().sizes[d].constant().value_or(d < a ? 0 : -1);
    if (size > 0 || !c.out_type().sizes[d].constant()) target.push_back(size);
  }
  if (static_cast<int>(target.size()) == c.out_rank() && std::count(target.begin(), target.end(), -1) == 0)
    return c.Return(c.e.Reshape(x, c.e.I64(target), c.out_rank()));
  std::vector<V> parts;
  for (int d = 0; d < a; ++d) parts.push_back(c.e.Dim(x, d));
  parts.push_back(c.e.Op("ReduceProd",
                         {c.e.Op("Shape", {x}, {{"start", int64_t{a}}, {"end", int64_t{b + 1}}}, DType::kInt64, 1)},
                         {{"keepdims", int64_t{1}}}, DType::kInt64, 1));
  for (int d = b + 1; d < rank; ++d) parts.push_back(c.e.Dim(x, d));
  c.Return(c.e.Reshape(x, c.e.Concat(parts, 0), rank - (b - a), true));
}
void Ravel(LoweringContext& c) { c.Return(c.e.Reshape(c.in("self"), c.e.I64({-1}), 1)); }
void Unflatten(LoweringContext& c) {
  ir::Value* self = c.tensor("self");
  V x = c.in("self");
  int d = c.dim("dim", self->rank());
  SymInts target;
  std::vector<V> parts;
  if (auto sizes = c.out_type().StaticSizes()) return c.Return(c.e.Reshape(x, *sizes));
  for (int k = 0; k < d; ++k) parts.push_back(c.e.Dim(x, k));
  parts.push_back(c.shape(c.sym_ints("sizes")));
  for (int k = d + 1; k < self->rank(); ++k) parts.push_back(c.e.Dim(x, k));
  V shape = c.e.Concat(parts, 0);
  c.Return(c.e.Reshape(x, shape, c.out_rank(), false));
}
void ViewAs(LoweringContext& c) {
  ir::Value* other = c.tensor("other");
  c.Return(c.e.Reshape(c.in("self"), c.shape_of(other), other->rank(), true));
}

// The sizes of a result whose elements stay where they are, since only dims of size 1 change places: for Reshape, with
// one -1 at most.
std::optional<Ints> SizesOfMove(const ir::Value* self, const Ints& perm) {
  Ints sizes;
  int64_t last = -1;
  int unknown = 0;
  for (int64_t d : perm) {
    const auto size = self->sizes()[static_cast<int>(d)].constant();
    if (size == 0) return std::nullopt;
    unknown += !size;
    sizes.push_back(size.value_or(-1));
    if (size == 1) continue;
    if (d < last) return std::nullopt;
    last = d;
  }
  return unknown <= 1 ? std::optional(sizes) : std::nullopt;
}

// transpose, permute, t, …; a weight may lie in the file as they give it.
void Permuted(LoweringContext& c) {
  const auto perm = PermutationOf(c.node());
  if (!perm) return c.Fail("dims that are no permutation");
  ir::Value* self = c.tensor("self");
  if (self->producer() && !std::is_sorted(perm->begin(), perm->end()) && !c.e.TransposeOf(c.value(self)))
    if (const auto sizes = SizesOfMove(self, *perm)) return c.Return(c.e.Reshape(c.value(self), *sizes));
  c.Return(c.transposed(self, *perm));
}
void Movedim(LoweringContext& c) {
  V x = c.in("self");
  std::vector<int> from = c.dims("source", x.rank, false), to = c.dims("destination", x.rank, false);
  if (from.size() != to.size()) return c.Fail("source and destination differ in length");
  Ints perm(x.rank, -1);
  std::vector<bool> taken(x.rank, false);
  for (size_t i = 0; i < from.size(); ++i) perm[to[i]] = from[i], taken[from[i]] = true;
  int next = 0;
  for (int d = 0; d < x.rank; ++d) {
    if (perm[d] >= 0) continue;
    while (taken[next]) ++next;
    perm[d] = next++;
  }
  c.Return(c.e.Transpose(x, perm));
}

// One node of a chain in which nothing else reads what is between.
void Unsqueeze(LoweringContext& c) {
  ir::Value* x = c.tensor("self");
  Ints dims = {c.dim("dim", x->rank() + 1)};  // of each, the last first
  for (const ir::Node* n = x->producer();
       n && n->op_name() == "aten.unsqueeze.default" && x->users().size() == 1 && !n->graph()->IsOutput(x);
       n = x->producer()) {
    ir::ArgReader of(*n);
    const int dim = of.dim("dim", x->rank());
    ir::Value* const self = of.tensor("self");
    if (!of.ok()) break;
    dims.push_back(dim);
    x = self;
  }
  for (size_t i = dims.size(); i-- > 0;)  // where those behind it move it to
    for (size_t j = i; j-- > 0;) dims[i] += dims[j] <= dims[i];
  std::sort(dims.begin(), dims.end());
  c.Return(c.e.Unsqueeze(c.value(x), dims));
}
// Only dims whose size is 1 go; a symbolic size was guarded to be different from 1 unless the result says otherwise.
void SqueezeDims(LoweringContext& c, const std::vector<int>& dims) {
  ir::Value* self = c.tensor("self");
  V x = c.in("self");
  Ints axes;
  for (int d : dims)
    if (d < self->rank() && self->sizes()[d].is(1)) axes.push_back(d);
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  if (self->rank() - static_cast<int>(axes.size()) != c.out_rank()) return c.Unsupported("squeeze of a symbolic size");
  c.Return(axes.empty() ? x : c.e.Squeeze(x, axes));
}
void SqueezeAll(LoweringContext& c) {
  std::vector<int> all;
  for (int d = 0; d < c.tensor("self")->rank(); ++d) all.push_back(d);
  SqueezeDims(c, all);
}
void SqueezeDim(LoweringContext& c) { SqueezeDims(c, {c.dim("dim", c.tensor("self")->rank())}); }
void SqueezeList(LoweringContext& c) { SqueezeDims(c, c.dims("dim", c.tensor("self")->rank(), false)); }

void Expand(LoweringContext& c) {
  ir::Value* self = c.tensor("self");
  SymInts target = c.sym_ints("size");
  const ir::Type& out = c.out_type();
  V x = c.in("self");
  if (self->sizes() == out.sizes) return c.Return(x);
  for (size_t i = 0; i < target.size(); ++i) {
    if (auto s = out.sizes[i].constant()) target[i] = *s;
    // -1 keeps the size: 1 broadcasts to it.
    if (!target[i].value && target[i].constant == -1) target[i] = 1;
  }
  c.Return(c.e.Expand(x, c.shape(target), out.rank()));
}
void ExpandAs(LoweringContext& c) {
  ir::Value* other = c.tensor("other");
  c.Return(c.e.Expand(c.in("self"), c.shape_of(other), other->rank()));
}

// One Slice for a chain of them along different dims that nothing else reads, all between known places. False where it
// is none.
bool SliceAlongDims(LoweringContext& c) {
  Ints starts, ends, axes, steps;
  const ir::Node* n = &c.node();
  ir::Value* from = nullptr;
  while (true) {
    ir::ArgReader args(*n);
    ir::Value* self = args.tensor("self");
    const IntOrValue start = args.opt_sym("start").value_or(0),
                     end = args.opt_sym("end").value_or(std::numeric_limits<int64_t>::max());
    const int64_t d = args.dim("dim", self->rank()), step = args.i("step");
    if (start.value || end.value || step <= 0 || std::find(axes.begin(), axes.end(), d) != axes.end()) break;
    starts.push_back(start.constant), ends.push_back(end.constant), axes.push_back(d), steps.push_back(step);
    from = self;
    n = self->producer();
    if (!n || n->op_name() != "aten.slice.Tensor" || self->users().size() != 1 || self->graph()->IsOutput(self)) break;
  }
  if (axes.size() < 2) return false;
  for (Ints* v : {&starts, &ends, &axes, &steps}) std::reverse(v->begin(), v->end());
  c.Return(c.e.Slice(c.value(from), starts, ends, axes, steps));
  return true;
}

// Start, end and step as torch clamps them: ONNX Slice clamps alike.
void Slice(LoweringContext& c) {
  if (SliceAlongDims(c)) return;
  V x = c.in("self");
  int d = c.dim("dim", x.rank);
  IntOrValue start = c.opt_sym("start").value_or(0),
             end = c.opt_sym("end").value_or(std::numeric_limits<int64_t>::max());
  int64_t step = c.i("step");
  if (step <= 0) return c.Fail("step is not positive");
  if (!start.value && !end.value && start.constant == 0 && end.constant == std::numeric_limits<int64_t>::max() &&
      step == 1)
    return c.Return(x);
  c.Return(c.e.SliceV(x, c.dim1(start), c.dim1(end), {d}, {step}));
}
void Narrow(LoweringContext& c) {
  ir::Value* self = c.tensor("self");
  V x = c.in("self");
  int d = c.dim("dim", x.rank);
  IntOrValue start = c.sym("start"), length = c.sym("length");
  if (!start.value && start.constant < 0) {
    auto size = self->sizes()[d].constant();
    if (!size) return c.Unsupported("a negative start on a symbolic size");
    start = start.constant + *size;
  }
  V begin = c.dim1(start);
  V end = !start.value && !length.value ? c.e.I64({start.constant + length.constant}) : c.e.Add(begin, c.dim1(length));
  c.Return(c.e.SliceV(x, begin, end, {d}));
}
void Select(LoweringContext& c) {
  V x = c.in("self");
  int d = c.dim("dim", x.rank);
  c.Return(c.e.Gather(x, c.dim0(c.sym("index")), d));
}

void Cat(LoweringContext& c) {
  DType t = c.compute_dtype();
  ir::Values list = c.tensors("tensors");
  std::vector<V> xs;
  for (ir::Value* v : list) {
    // A 1-D tensor of no elements is skipped, whatever the rank of the others (a torch legacy).
    if (v->rank() == 1 && v->sizes()[0].is(0) && c.out_rank() != 1) continue;
    xs.push_back(c.e.Cast(c.value(v), t));
  }
  if (xs.empty()) {
    if (list.empty()) return c.Fail("cat of nothing");
    return c.Return(c.value(list[0]));
  }
  c.Return(c.e.Concat(xs, c.dim("dim", c.out_rank())));
}
void Stack(LoweringContext& c) {
  DType t = c.compute_dtype();
  int d = c.dim("dim", c.out_rank());
  std::vector<V> xs;
  for (V& x : c.ins("tensors")) xs.push_back(c.e.Unsqueeze(c.e.Cast(x, t), {d}));
  if (xs.empty()) return c.Fail("stack of nothing");
  c.Return(c.e.Concat(xs, d));
}

// Results of known sizes along one dim: split, chunk, unbind and their kin all end here.
void SplitInto(LoweringContext& c, V x, int d, const std::vector<V>& sizes1) {
  std::vector<V> outs;
  if (sizes1.size() == 1) return c.Return(std::vector<V>{x});
  V sizes = c.e.Concat(sizes1, 0);
  std::vector<DType> types(sizes1.size(), x.dtype);
  outs = c.e.OpN("Split", {x, sizes}, {{"axis", int64_t{d}}}, types);
  for (V& o : outs) o.rank = x.rank;
  c.Return(outs);
}
void SplitByTypes(LoweringContext& c, const char* dim_arg) {
  V x = c.in("self");
  int d = c.dim(dim_arg, x.rank);
  Ints sizes;
  std::vector<V> parts;
  ir::Value* self = c.tensor("self");
  size_t n = c.node().outputs().size();
  for (size_t i = 0; i < n; ++i) {
    auto s = c.out_type(i).sizes[d].constant();
    if (!s) {
      // One symbolic part: what the others leave.
      if (i + 1 != n) return c.Unsupported("a symbolic size before the last part");
      V total = c.e.Dim(c.raw(self), d);
      int64_t before = 0;
      for (int64_t k : sizes) before += k;
      parts.push_back(before ? c.e.Sub(total, c.e.I64({before})) : total);
      continue;
    }
    sizes.push_back(*s);
    parts.push_back(c.e.I64({*s}));
  }
  if (sizes.size() == n) parts = {c.e.I64(sizes)};
  if (n == 1) return c.Return(std::vector<V>{x});
  if (parts.size() == 1) {
    std::vector<V> outs = c.e.OpN("Split", {x, parts[0]}, {{"axis", int64_t{d}}}, std::vector<DType>(n, x.dtype));
    return c.Return(outs);
  }
  SplitInto(c, x, d, parts);
}
void Split(LoweringContext& c) {
  V x = c.in("self");
  int d = c.dim("dim", x.rank);
  bool is_static = true;
  for (size_t i = 0; i < c.node().outputs().size(); ++i) is_static &= c.out_type(i).sizes[d].is_constant();
  const char* arg = c.node().op().ArgIndex("split_size") >= 0    ? "split_size"
                    : c.node().op().ArgIndex("split_sizes") >= 0 ? "split_sizes"
                                                                 : "";
  if (is_static || !*arg || c.node().Get(arg).is<int64_t>()) return SplitByTypes(c, "dim");
  std::vector<V> parts;
  for (const IntOrValue& i : c.sym_ints(arg)) parts.push_back(c.dim1(i));
  SplitInto(c, x, d, parts);
}
// chunk of a symbolic size: parts of ceil(n / chunks), the last shorter.
void Chunk(LoweringContext& c) {
  V x = c.in("self");
  int d = c.dim("dim", x.rank);
  size_t n = c.node().outputs().size();
  bool is_static = true;
  for (size_t i = 0; i < n; ++i) is_static &= c.out_type(i).sizes[d].is_constant();
  if (is_static) return SplitByTypes(c, "dim");
  int64_t chunks = c.i("chunks");
  V total = c.e.Dim(x, d);
  V part = c.e.Div(c.e.Add(total, c.e.I64({chunks - 1})), c.e.I64({chunks}));
  std::vector<V> outs;
  for (size_t i = 0; i < n; ++i) {
    V begin = c.e.Mul(part, c.e.I64({static_cast<int64_t>(i)}));
    V end = i + 1 == n ? c.e.I64({std::numeric_limits<int64_t>::max()})
                       : c.e.Mul(part, c.e.I64({static_cast<int64_t>(i + 1)}));
    outs.push_back(c.e.SliceV(x, begin, end, {d}));
  }
  c.Return(outs);
}
void Unbind(LoweringContext& c) {
  V x = c.in("self");
  int d = c.dim("dim", x.rank);
  std::vector<V> outs;
  for (size_t i = 0; i < c.node().outputs().size(); ++i)
    outs.push_back(c.e.Gather(x, c.e.I64Scalar(static_cast<int64_t>(i)), d));
  c.Return(outs);
}

void Repeat(LoweringContext& c) {
  V x = c.in("self");
  SymInts reps = c.sym_ints(c.node().op().ArgIndex("repeats") >= 0 ? "repeats" : "dims");
  int rank = c.out_rank();
  if (x.rank < rank) {
    Ints axes;
    for (int d = 0; d < rank - x.rank; ++d) axes.push_back(d);
    x = c.e.Unsqueeze(x, axes);
  }
  while (static_cast<int>(reps.size()) < rank) reps.insert(reps.begin(), 1);
  if (rank == 0) return c.Return(x);
  c.Return(c.e.Op("Tile", {x, c.shape(reps)}, {}, x.dtype, rank));
}
void Flip(LoweringContext& c) {
  V x = c.in("self");
  ir::Value* self = c.tensor("self");
  Ints starts, ends, axes, steps;
  for (int d : c.dims("dims", x.rank, false)) {
    // Nothing changes; and ONNX's inference takes the reverse of an empty dim for one element.
    if (auto size = d < self->rank() ? self->sizes()[d].constant() : 1; size && *size <= 1) continue;
    starts.push_back(-1);
    ends.push_back(std::numeric_limits<int64_t>::min() + 1);
    axes.push_back(d);
    steps.push_back(-1);
  }
  if (axes.empty() || x.rank == 0) return c.Return(x);
  c.Return(c.e.Slice(x, starts, ends, axes, steps));
}
// Rotation along dims: two slices joined. Without dims the flattened tensor rotates.
V RollDim(LoweringContext& c, V x, const IntOrValue& shift, int d) {
  V n = c.e.Dim(x, d);
  V s = c.dim1(shift);
  // start = (-shift) mod n; an empty dim stays as it is since both slices are empty.
  V start = c.e.Op("Mod", {c.e.Op("Neg", {s}), c.e.Max(n, c.e.I64({1}))});
  V head = c.e.SliceV(x, start, c.e.I64({std::numeric_limits<int64_t>::max()}), {d});
  V tail = c.e.SliceV(x, c.e.I64({0}), start, {d});
  return c.e.Concat({head, tail}, d);
}
void Roll(LoweringContext& c) {
  V x = c.in("self");
  SymInts shifts = c.sym_ints("shifts");
  std::vector<int> dims = c.dims("dims", x.rank, false);
  if (x.rank == 0) return c.Return(x);
  if (dims.empty()) {
    V flat = c.e.Reshape(x, c.e.I64({-1}), 1);
    V rolled = RollDim(c, flat, shifts.empty() ? IntOrValue(0) : shifts[0], 0);
    return c.Return(c.e.Reshape(rolled, c.shape_of(c.tensor("self")), x.rank, true));
  }
  if (dims.size() != shifts.size()) return c.Fail("shifts and dims differ in length");
  for (size_t i = 0; i < dims.size(); ++i) x = RollDim(c, x, shifts[i], dims[i]);
  c.Return(x);
}

void BroadcastTensors(LoweringContext& c) {
  std::vector<V> outs;
  ir::Values list = c.tensors("tensors");
  std::vector<V> xs = c.ins("tensors");
  // The common shape: of the sum of shapes' broadcast, found by expanding ones by each operand's shape in turn.
  if (auto sizes = c.out_type().StaticSizes()) {
    for (V& x : xs) outs.push_back(c.e.Expand(x, c.e.I64(*sizes), c.out_rank()));
    return c.Return(outs);
  }
  for (size_t i = 0; i < xs.size(); ++i) {
    V x = xs[i];
    for (size_t k = 0; k < xs.size(); ++k)
      if (k != i) x = c.e.Expand(x, c.e.Shape(xs[k]), std::max(x.rank, xs[k].rank));
    outs.push_back(x);
  }
  c.Return(outs);
}

// A view as another type of as many bits: BitCast takes no other.
bool IsOfSameSize(const ir::Node& n) {
  const ir::Value *self = n.Get("self").value(), *y = n.output();
  if (!self || !self->type().is_tensor() || !y || !y->type().is_tensor()) return false;
  const auto has = [](DType t) { return OnnxType(t) != 0 && !ir::IsComplex(t) && ir::BitSize(t) % 8 == 0; };
  return has(self->dtype()) && has(y->dtype()) && ir::BitSize(self->dtype()) == ir::BitSize(y->dtype());
}
void Reinterpret(LoweringContext& c) {
  V x = c.raw(c.tensor("self"));
  c.Return(x.dtype == c.out_dtype() ? x : c.e.BitCast(x, c.out_dtype()));
}

// clang-format off
constexpr Row kViewRows[] = {
    {"aten.view.default", View}, {"aten.reshape.default", View}, {"aten._unsafe_view.default", View},
    {"aten.view_copy.default", View}, {"aten._reshape_copy.default", View},
    {"aten.flatten.using_ints", Flatten}, {"aten.ravel.default", Ravel}, {"aten.unflatten.int", Unflatten},
    {"aten.view_as.default", ViewAs}, {"aten.reshape_as.default", ViewAs},
    {"aten.transpose.int", Permuted}, {"aten.transpose_copy.int", Permuted},
    {"aten.swapaxes.default", Permuted}, {"aten.swapdims.default", Permuted},
    {"aten.permute.default", Permuted}, {"aten.permute_copy.default", Permuted},
    {"aten.t.default", Permuted}, {"aten.t_copy.default", Permuted}, {"aten.mT.default", Permuted},
    {"aten.numpy_T.default", Permuted},
    {"aten.movedim.int", Movedim}, {"aten.movedim.intlist", Movedim}, {"aten.moveaxis.int", Movedim},
    {"aten.moveaxis.intlist", Movedim},
    {"aten.unsqueeze.default", Unsqueeze}, {"aten.unsqueeze_copy.default", Unsqueeze},
    {"aten.squeeze.default", SqueezeAll}, {"aten.squeeze_copy.default", SqueezeAll},
    {"aten.squeeze.dim", SqueezeDim}, {"aten.squeeze_copy.dim", SqueezeDim},
    {"aten.squeeze.dims", SqueezeList}, {"aten.squeeze_copy.dims", SqueezeList},
    {"aten.expand.default", Expand}, {"aten.expand_copy.default", Expand}, {"aten.broadcast_to.default", Expand},
    {"aten.expand_as.default", ExpandAs}, {"aten.broadcast_tensors.default", BroadcastTensors},
    {"aten.slice.Tensor", Slice}, {"aten.slice_copy.Tensor", Slice},
    {"aten.narrow.default", Narrow}, {"aten.narrow_copy.default", Narrow},
    {"aten.select.int", Select}, {"aten.select_copy.int", Select},
    {"aten.cat.default", Cat}, {"aten.concat.default", Cat}, {"aten.concatenate.default", Cat},
    {"aten.stack.default", Stack},
    {"aten.split.Tensor", Split}, {"aten.split.sizes", Split}, {"aten.split_with_sizes.default", Split},
    {"aten.unsafe_split.Tensor", Split}, {"aten.unsafe_split_with_sizes.default", Split},
    {"aten.split_with_sizes_copy.default", Split}, {"aten.split_copy.Tensor", Split},
    {"aten.chunk.default", Chunk}, {"aten.unsafe_chunk.default", Chunk},
    {"aten.unbind.int", Unbind}, {"aten.unbind_copy.int", Unbind},
    {"aten.repeat.default", Repeat}, {"aten.tile.default", Repeat},
    {"aten.flip.default", Flip}, {"aten.roll.default", Roll},
    {"aten.clone.default", Alias}, {"aten.contiguous.default", Alias}, {"aten.alias.default", Alias},
    {"aten.alias_copy.default", Alias}, {"aten.detach.default", Alias}, {"aten.lift_fresh_copy.default", Alias},
    {"aten.lift_fresh.default", Alias}, {"aten.lift.default", Alias}, {"aten.resolve_conj.default", Alias},
    {"aten.resolve_neg.default", Alias}, {"aten.cpu.default", Alias},
    {"aten.view.dtype", Reinterpret, false, 26, IsOfSameSize},
    {"aten.view_copy.dtype", Reinterpret, false, 26, IsOfSameSize},
};
// clang-format on

}  // namespace

std::optional<Ints> PermutationOf(const ir::Node& n) {
  const Row* row = FindRow(n.op_name(), kMaxOpset, nullptr);
  ir::Value* self = n.Get("self").value();
  if (row == nullptr || row->fn != Permuted || !self || !self->type().is_tensor()) return std::nullopt;
  ir::ArgReader c(n);
  const int rank = self->rank();
  Ints perm(rank);
  for (int d = 0; d < rank; ++d) perm[d] = d;
  const auto has = [&](std::string_view argument) { return n.op().ArgIndex(argument) >= 0; };
  if (has("dims")) {
    const std::vector<int> dims = c.dims("dims", rank, false);
    if (!c.ok() || dims.size() != perm.size()) return std::nullopt;
    std::copy(dims.begin(), dims.end(), perm.begin());
  } else if (has("dim0") || has("axis0")) {
    if (rank == 0) return perm;
    const int a = c.dim(has("dim0") ? "dim0" : "axis0", rank), b = c.dim(has("dim1") ? "dim1" : "axis1", rank);
    if (!c.ok()) return std::nullopt;
    std::swap(perm[a], perm[b]);
  } else if (n.op().base == "numpy_T") {
    std::reverse(perm.begin(), perm.end());
  } else if (rank >= 2) {  // t, mT: rank < 2 stays
    std::swap(perm[rank - 1], perm[rank - 2]);
  }
  return perm;
}

absl::Span<const Row> ViewRows() { return kViewRows; }

}  // namespace slipway::exporters::onnx_out
