// Reductions over axes, and what sorts or counts along one.
#include <algorithm>
#include <limits>

#include "importers/onnx/lowering.h"

namespace slipway::importers::onnx_in {
namespace {

enum class Reduction : uint8_t { kSum, kMean, kMax, kMin, kProd, kL1, kL2, kLogSum, kLogSumExp, kSumSquare };

// Opset from which on axes are an input.
constexpr int AxesInputSince(Reduction r) { return r == Reduction::kSum ? 13 : 18; }

// What a reduction makes of elements that stand alone.
Value* OfEach(Call& c, Reduction r, Value* x) {
  if (r == Reduction::kSumSquare) return c.b.Call("aten.mul.Tensor", {x, x});
  if (r == Reduction::kL1 || r == Reduction::kL2) return c.b.Call("aten.abs.default", {x});
  if (r == Reduction::kLogSum) return c.b.Call("aten.log.default", {x});
  return x;
}

// The largest of no elements is less than all others; ATen's operators refuse that. Null where there are some.
Value* OfNothing(Call& c, Reduction r, Value* x, const Ints& dims, bool keep) {
  const bool max = r == Reduction::kMax || r == Reduction::kLogSumExp;
  if (!max && r != Reduction::kMin) return nullptr;
  SymInts sizes;
  bool empty = false;
  for (int d = 0; d < x->rank(); ++d) {
    const bool reduced = std::find(dims.begin(), dims.end(), d) != dims.end();
    if (reduced) empty = empty || x->sizes()[static_cast<size_t>(d)].constant() == 0;
    if (!reduced || keep) sizes.push_back(reduced ? IntOrValue(1) : c.b.Size(x, d));
  }
  if (!empty) return nullptr;
  const DType t = x->dtype();
  const double infinity = std::numeric_limits<double>::infinity();
  if (ir::IsFloating(t)) return c.b.Full(sizes, Arg(max ? -infinity : infinity), t);
  if (t == DType::kBool) return c.b.Full(sizes, Arg(!max), t);
  c.Refuse("of no integers");
  return x;
}

template <Reduction r>
void Reduce(Call& c) {
  Value* x = c.in(0);
  std::optional<Ints> axes;
  if (c.opset < AxesInputSince(r))
    axes = c.integers("axes");
  else if (c.has(1))
    axes = c.constants(1, "axes");
  const bool keep = c.integer("keepdims", 1) != 0;
  c.Ignore("noop_with_empty_axes");
  if ((!axes || axes->empty()) && c.integer("noop_with_empty_axes", 0) != 0) return c.Give(OfEach(c, r, x));
  Ints dims;
  if (axes && !axes->empty())
    for (int64_t a : *axes) dims.push_back(c.axis(a, x->rank()));
  else
    for (int d = 0; d < x->rank(); ++d) dims.push_back(d);
  if (!c.ok()) return;
  if (dims.empty()) return c.Give(OfEach(c, r, x));  // of a scalar
  if (Value* nothing = OfNothing(c, r, x, dims, keep)) return c.Give(nothing);
  const auto sum = [&](Value* v) {
    return c.b.Cast(c.b.Call("aten.sum.dim_IntList", {v, Arg(dims), keep}, {{"dtype", Arg(v->dtype())}}), v->dtype());
  };
  switch (r) {
    case Reduction::kSum: return c.Give(sum(x));
    case Reduction::kMean:
      if (ir::IsFloating(x->dtype())) return c.Give(c.b.Call("aten.mean.dim", {x, Arg(dims), keep}));
      return c.Refuse("of integers");
    case Reduction::kMax: return c.Give(c.b.Call("aten.amax.default", {x, Arg(dims), keep}));
    case Reduction::kMin: return c.Give(c.b.Call("aten.amin.default", {x, Arg(dims), keep}));
    case Reduction::kProd:
      for (size_t i = dims.size(); i-- > 0;)
        x = c.b.Call("aten.prod.dim_int", {x, dims[i], true}, {{"dtype", Arg(x->dtype())}});
      return c.Give(keep ? x : c.b.Call("aten.squeeze.dims", {x, Arg(dims)}));
    case Reduction::kL1: return c.Give(sum(c.b.Call("aten.abs.default", {x})));
    case Reduction::kL2: return c.Give(c.b.Call("aten.sqrt.default", {sum(c.b.Call("aten.mul.Tensor", {x, x}))}));
    case Reduction::kLogSum: return c.Give(c.b.Call("aten.log.default", {sum(x)}));
    case Reduction::kLogSumExp: return c.Give(c.b.Call("aten.logsumexp.default", {x, Arg(dims), keep}));
    case Reduction::kSumSquare: return c.Give(sum(c.b.Call("aten.mul.Tensor", {x, x})));
  }
}

template <bool max>
void ArgExtremum(Call& c) {
  Value* x = c.in(0);
  const int64_t axis = c.axis(c.integer("axis", 0), x->rank());
  const bool keep = c.integer("keepdims", 1) != 0;
  if (!c.ok()) return;
  const char* op = max ? "aten.argmax.default" : "aten.argmin.default";
  if (c.integer("select_last_index", 0) == 0) return c.Give(c.b.Call(op, {x, axis, keep}));
  Value* at = c.b.Call(op, {c.b.Call("aten.flip.default", {x, Arg(Ints{axis})}), axis, keep});
  const IntOrValue last = c.b.Sub(c.b.Size(x, static_cast<int>(axis)), 1);
  c.Give(c.b.Call("aten.add.Scalar", {c.b.Call("aten.neg.default", {at}), Arg(last)}));
}

// Exclusive: each is that of those before it, the first one the neutral element.
template <bool product>
void Cumulative(Call& c) {
  Value* x = c.in(0);
  const Ints axes = c.constants(1, "an axis");
  if (axes.size() != 1) return c.Wrong("other than one axis");
  const int64_t axis = c.axis(axes[0], x->rank());
  const bool reverse = c.integer("reverse", 0) != 0, exclusive = c.integer("exclusive", 0) != 0;
  if (!c.ok()) return;
  Value* in = reverse ? c.b.Call("aten.flip.default", {x, Arg(Ints{axis})}) : x;
  if (exclusive) {
    SymInts one = c.b.SizesOf(x);
    one[static_cast<size_t>(axis)] = 1;
    const Arg neutral = ir::IsFloating(x->dtype()) ? Arg(product ? 1.0 : 0.0) : Arg(int64_t{product});
    in = c.b.Call("aten.cat.default", {Arg(Values{c.b.Full(one, neutral, x->dtype()), in}), axis});
    in = c.b.Call("aten.slice.Tensor", {in, axis, 0, -1, 1});
  }
  const char* op = product ? "aten.cumprod.default" : "aten.cumsum.default";
  Value* out = c.b.Call(op, {in, axis}, {{"dtype", Arg(x->dtype())}});
  c.Give(reverse ? c.b.Call("aten.flip.default", {out, Arg(Ints{axis})}) : out);
}

void TopK(Call& c) {
  c.Ignore("sorted");  // any order will do where it is 0
  Value* x = c.in(0);
  const int64_t axis = c.axis(c.integer("axis", -1), x->rank());
  IntOrValue k;
  if (c.opset < 10) {
    k = c.integer("k", 0);
  } else {
    const SymInts given = c.ints(1, "a count");
    if (given.size() != 1) return c.Wrong("a count of other than one number");
    k = given[0];
  }
  const Values out = c.b.CallMulti("aten.topk.default", {x, Arg(k), axis, c.integer("largest", 1) != 0, true});
  if (!c.ok()) return;
  c.Give(0, out[0]);
  c.Give(1, out[1]);
}

constexpr Row kReductionRows[] = {
    {"ArgMax", ArgExtremum<true>},
    {"ArgMin", ArgExtremum<false>},
    {"CumProd", Cumulative<true>},
    {"CumSum", Cumulative<false>},
    {"ReduceL1", Reduce<Reduction::kL1>},
    {"ReduceL2", Reduce<Reduction::kL2>},
    {"ReduceLogSum", Reduce<Reduction::kLogSum>},
    {"ReduceLogSumExp", Reduce<Reduction::kLogSumExp>},
    {"ReduceMax", Reduce<Reduction::kMax>},
    {"ReduceMean", Reduce<Reduction::kMean>},
    {"ReduceMin", Reduce<Reduction::kMin>},
    {"ReduceProd", Reduce<Reduction::kProd>},
    {"ReduceSum", Reduce<Reduction::kSum>},
    {"ReduceSumSquare", Reduce<Reduction::kSumSquare>},
    {"TopK", TopK},
};

}  // namespace

absl::Span<const Row> ReductionRows() { return kReductionRows; }

}  // namespace slipway::importers::onnx_in
