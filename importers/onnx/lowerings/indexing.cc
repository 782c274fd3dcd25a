// Gathering, scattering and counting by indices that are data.
#include <iterator>
#include <string>

#include "importers/onnx/lowering.h"
#include "ir/ops/args.h"

namespace slipway::importers::onnx_in {
namespace {

// Negative indices count from the end, which ATen's gather and scatter do not know.
Value* FromFront(Call& c, Value* indices, Value* x, int64_t axis) {
  indices = c.b.Cast(indices, DType::kInt64);
  const IntOrValue size = c.b.Size(x, static_cast<int>(axis));
  Value* negative = c.b.Call("aten.lt.Scalar", {indices, 0});
  return c.b.Call("aten.where.self", {negative, c.b.Call("aten.add.Scalar", {indices, Arg(size)}), indices});
}

void GatherElements(Call& c) {
  Value* x = c.in(0);
  const int64_t axis = c.axis(c.integer("axis", 0), x->rank());
  if (c.ok()) c.Give(c.b.Call("aten.gather.default", {x, axis, FromFront(c, c.in(1), x, axis)}));
}

// What ATen calls a reduction; null and an error for others.
const char* Reduce(Call& c, std::string_view how) {
  if (how == "add") return "sum";
  if (how == "mul") return "prod";
  if (how == "max") return "amax";
  if (how == "min") return "amin";
  c.Wrong("an unknown reduction");
  return nullptr;
}

void ScatterElements(Call& c) {
  Value* x = c.in(0);
  const int64_t axis = c.axis(c.integer("axis", 0), x->rank());
  if (!c.ok()) return;
  Value* at = FromFront(c, c.in(1), x, axis);
  const std::string how = c.text("reduction", "none");
  if (how == "none") return c.Give(c.b.Call("aten.scatter.src", {x, axis, at, c.in(2)}));
  if (const char* reduce = Reduce(c, how)) c.Give(c.b.Call("aten.scatter_reduce.two", {x, axis, at, c.in(2), reduce}));
}

// The last dim of the indices are coordinates in the dims of the data behind the batch dims.
std::optional<Values> Coordinates(Call& c, Value* at, int64_t batch) {
  if (at->rank() == 0) {
    c.Wrong("indices of rank 0");
    return std::nullopt;
  }
  const auto width = at->sizes().back().constant();
  if (!width || *width > 64) {
    c.Refuse("with indices of a dynamic last size");
    return std::nullopt;
  }
  if (batch < 0 || batch >= at->rank()) {
    c.Wrong("more batch_dims than the indices have");
    return std::nullopt;
  }
  Values out;
  for (int64_t d = 0; d < batch; ++d) {
    SymInts shape(static_cast<size_t>(at->rank() - 1), IntOrValue(1));
    const IntOrValue size = c.b.Size(at, static_cast<int>(d));
    shape[static_cast<size_t>(d)] = size;
    Value* places = c.b.Call("aten.arange.default", {Arg(size)}, {{"dtype", Arg(DType::kInt64)}});
    out.push_back(c.b.Call("aten.reshape.default", {places, Arg(shape)}));
  }
  // What stands alone in a last dim that was made for it.
  if (const ir::Node* n = at->producer(); n && *width == 1 && n->op_name() == "aten.unsqueeze.default") {
    ir::ArgReader args(*n);
    if (args.dim("dim", at->rank()) == at->rank() - 1) {
      out.push_back(args.tensor("self"));
      return out;
    }
  }
  for (int64_t i = 0; i < *width; ++i) out.push_back(c.b.Call("aten.select.int", {at, -1, i}));
  return out;
}

void GatherND(Call& c) {
  Value *x = c.in(0), *at = c.b.Cast(c.in(1), DType::kInt64);
  if (const auto indices = Coordinates(c, at, c.integer("batch_dims", 0)))
    c.Give(c.b.Call("aten.index.Tensor", {x, Arg(*indices)}));
}

void ScatterND(Call& c) {
  Value *x = c.in(0), *at = c.b.Cast(c.in(1), DType::kInt64), *updates = c.in(2);
  const std::string how = c.text("reduction", "none");
  const auto indices = Coordinates(c, at, 0);
  if (!indices) return;
  if (how == "none" || how == "add")
    return c.Give(c.b.Call("aten.index_put.default", {x, Arg(*indices), updates, how == "add"}));
  // One place in rows of what lies behind the coordinates.
  const char* reduce = Reduce(c, how);
  const int width = static_cast<int>(indices->size());
  if (!reduce || width > x->rank()) return c.Wrong("coordinates of more dims than the data has");
  Value* place = nullptr;
  IntOrValue rows = 1;
  for (int d = width; d-- > 0;) {
    Value* part = c.b.Call("aten.mul.Scalar", {FromFront(c, (*indices)[static_cast<size_t>(d)], x, d), Arg(rows)});
    place = place ? c.b.Call("aten.add.Tensor", {place, part}) : part;
    rows = c.b.Mul(rows, c.b.Size(x, d));
  }
  if (!place) return c.Refuse("without coordinates");
  Value* matrix = c.b.Call("aten.reshape.default", {x, Arg(SymInts{rows, IntOrValue(-1)})});
  place = c.b.Call("aten.reshape.default", {place, Arg(Ints{-1, 1})});
  const IntOrValue count = c.b.Size(place, 0), columns = c.b.Size(matrix, 1);
  Value* values = c.b.Call("aten.reshape.default", {updates, Arg(SymInts{count, columns})});
  place = c.b.Call("aten.expand.default", {place, Arg(SymInts{count, columns})});
  Value* out = c.b.Call("aten.scatter_reduce.two", {matrix, 0, place, values, reduce});
  c.Give(c.b.Call("aten.reshape.default", {out, Arg(c.b.SizesOf(x))}));
}

// `on` where the class is the index, at a new dim.
void OneHot(Call& c) {
  Value *at = c.b.Cast(c.in(0), DType::kInt64), *values = c.in(2);
  const int64_t axis = c.axis(c.integer("axis", -1), at->rank() + 1);
  IntOrValue depth;
  if (const auto number = c.number(1)) {
    depth = static_cast<int64_t>(*number);
  } else {
    const SymInts given = c.ints_of(c.b.Cast(c.in(1), DType::kInt64), "a depth");
    if (given.size() != 1) return c.Wrong("a depth of other than one number");
    depth = given[0];
  }
  if (!c.ok()) return;
  if (values->rank() != 1) return c.Wrong("values that are no pair");
  Value* negative = c.b.Call("aten.lt.Scalar", {at, 0});
  at = c.b.Call("aten.where.self", {negative, c.b.Call("aten.add.Scalar", {at, Arg(depth)}), at});
  Value* classes = c.b.Call("aten.arange.default", {Arg(depth)}, {{"dtype", Arg(DType::kInt64)}});
  Ints shape(static_cast<size_t>(at->rank()) + 1, 1);
  shape[static_cast<size_t>(axis)] = -1;
  Value* same = c.b.Call("aten.eq.Tensor", {c.b.Call("aten.unsqueeze.default", {at, axis}),
                                            c.b.Call("aten.reshape.default", {classes, Arg(shape)})});
  c.Give(c.b.Call("aten.where.self",
                  {same, c.b.Call("aten.select.int", {values, 0, 1}), c.b.Call("aten.select.int", {values, 0, 0})}));
}

void Compress(Call& c) {
  Value *x = c.in(0), *at = c.b.Call("aten.nonzero.default", {c.in(1)});
  at = c.b.Call("aten.squeeze.dims", {at, Arg(Ints{1})});
  if (!c.has_attribute("axis"))
    return c.Give(c.b.Call("aten.index_select.default", {c.b.Call("aten.reshape.default", {x, Arg(Ints{-1})}), 0, at}));
  const int64_t axis = c.axis(c.integer("axis", 0), x->rank());
  if (c.ok()) c.Give(c.b.Call("aten.index_select.default", {x, axis, at}));
}

// The first elements along one dim turned around, as many as the row of the other dim says.
void ReverseSequence(Call& c) {
  Value *x = c.in(0), *lengths = c.b.Cast(c.in(1), DType::kInt64);
  const int64_t time = c.integer("time_axis", 0), batch = c.integer("batch_axis", 1);
  if (x->rank() < 2 || lengths->rank() != 1 || time + batch != 1 || time * batch != 0)
    return c.Wrong("axes other than the first two");
  const auto line = [&](int64_t axis, Value* v) {
    return c.b.Call("aten.reshape.default", {v, Arg(axis == 0 ? Ints{-1, 1} : Ints{1, -1})});
  };
  const auto places = [&](int64_t axis) {
    return line(axis, c.b.Call("aten.arange.default", {Arg(c.b.Size(x, static_cast<int>(axis)))},
                               {{"dtype", Arg(DType::kInt64)}}));
  };
  Value *t = places(time), *length = line(batch, lengths);
  Value* last = c.b.Call("aten.sub.Scalar", {length, 1});
  Value* from =
      c.b.Call("aten.where.self", {c.b.Call("aten.lt.Tensor", {t, length}), c.b.Call("aten.sub.Tensor", {last, t}), t});
  Values indices(2);
  indices[static_cast<size_t>(time)] = from, indices[static_cast<size_t>(batch)] = places(batch);
  c.Give(c.b.Call("aten.index.Tensor", {x, Arg(indices)}));
}

void EyeLike(Call& c) {
  Value* x = c.in(0);
  if (x->rank() != 2) return c.Wrong("no matrix");
  const auto line = [&](int d) {
    Value* i = c.b.Call("aten.arange.default", {Arg(c.b.Size(x, d))}, {{"dtype", Arg(DType::kInt64)}});
    return d == 0 ? c.b.Call("aten.unsqueeze.default", {i, 1}) : i;
  };
  Value* rows = c.b.Call("aten.add.Scalar", {line(0), c.integer("k", 0)});
  c.Give(c.b.Cast(c.b.Call("aten.eq.Tensor", {rows, line(1)}), c.dtype("dtype", x->dtype())));
}

// Rows of a cache are overwritten from a place of their own on, round and round where it is circular.
void TensorScatter(Call& c) {
  Value *cache = c.in(0), *update = c.in(1);
  const int64_t axis = c.axis(c.integer("axis", -2), cache->rank());
  const std::string mode = c.text("mode", "linear");
  if (!c.ok()) return;
  if (axis == 0 || update->rank() != cache->rank())
    return c.Wrong("a cache without a batch dim, or an update of another rank");
  if (mode != "linear" && mode != "circular") return c.Wrong("a mode that is neither linear nor circular");
  Ints line(static_cast<size_t>(cache->rank()), 1), begins = line;
  line[static_cast<size_t>(axis)] = begins[0] = -1;
  Value* at =
      c.b.Call("aten.arange.default", {Arg(c.b.Size(update, static_cast<int>(axis)))}, {{"dtype", Arg(DType::kInt64)}});
  at = c.b.Call("aten.reshape.default", {at, Arg(line)});
  if (c.has(2)) {
    Value* first = c.b.Call("aten.reshape.default", {c.b.Cast(c.in(2), DType::kInt64), Arg(begins)});
    at = c.b.Call("aten.add.Tensor", {at, first});
  }
  if (mode == "circular") at = c.b.Call("aten.remainder.Scalar", {at, Arg(c.b.Size(cache, static_cast<int>(axis)))});
  at = c.b.Call("aten.expand.default", {at, Arg(c.b.SizesOf(update))});
  c.Give(c.b.Call("aten.scatter.src", {cache, axis, at, update}));
}

// Of all elements. In the order in which they come first, where they are not sorted.
void Unique(Call& c) {
  if (c.has_attribute("axis")) return c.Refuse("along an axis");
  Value* x = c.in(0);
  const bool sorted = c.integer("sorted", 1) != 0;
  const Values found = c.b.CallMulti("aten._unique2.default", {x, true, true, true});
  if (!c.ok()) return;
  Value *values = found[0], *inverse = c.b.Call("aten.reshape.default", {found[1], Arg(Ints{-1})}), *counts = found[2];
  Value* firsts = nullptr;  // the place where each is first
  if (c.wants(1) || !sorted) {
    const IntOrValue all = c.b.Numel(x);
    Value* places = c.b.Call("aten.arange.default", {Arg(all)}, {{"dtype", Arg(DType::kInt64)}});
    Value* last = c.b.Full({c.b.Size(values, 0)}, Arg(all), DType::kInt64);
    firsts = c.b.Call("aten.scatter_reduce.two", {last, 0, inverse, places, "amin"});
  }
  if (!sorted) {
    Value* order = c.b.Call("aten.argsort.default", {firsts});
    const auto ordered = [&](Value* v) { return c.b.Call("aten.index_select.default", {v, 0, order}); };
    Value* rank = c.b.Call("aten.argsort.default", {order});
    values = ordered(values), counts = ordered(counts), firsts = ordered(firsts);
    inverse = c.b.Call("aten.index_select.default", {rank, 0, inverse});
  }
  Value* const results[] = {values, firsts, inverse, counts};
  for (size_t i = 0; i < std::size(results); ++i)
    if (c.wants(i)) c.Give(i, results[i]);
}

void NonZero(Call& c) { c.Give(c.b.Call("aten.t.default", {c.b.Call("aten.nonzero.default", {c.in(0)})})); }

constexpr Row kIndexingRows[] = {
    {"Compress", Compress},
    {"EyeLike", EyeLike, 1, nullptr, Always},
    {"GatherElements", GatherElements},
    {"GatherND", GatherND, 1, nullptr, Always},
    {"NonZero", NonZero},
    {"OneHot", OneHot, 1, nullptr, Always},
    {"ReverseSequence", ReverseSequence, 1, nullptr, Always},
    {"Scatter", ScatterElements},
    {"ScatterElements", ScatterElements},
    {"ScatterND", ScatterND, 1, nullptr, Always},
    {"TensorScatter", TensorScatter, 1, nullptr, Always},
    {"Unique", Unique},
};

}  // namespace

absl::Span<const Row> IndexingRows() { return kIndexingRows; }

}  // namespace slipway::importers::onnx_in
