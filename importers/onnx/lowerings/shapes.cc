// What moves, selects and counts elements. Operators that models compute shapes with work on elements where these are
// known.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/status_macros.h"
#include "base/text.h"
#include "importers/onnx/lowering.h"
#include "importers/onnx/lowerings/elements.h"
#include "importers/onnx/lowerings/stored.h"
#include "ir/ops/args.h"
#include "ir/tensor.h"
#include "onnx_model/onnx_graph.h"
#include "onnx_model/onnx_graph_internal.h"

namespace slipway::importers::onnx_in {
namespace {

std::optional<ir::TensorRef> DataOf(Call& c, const onnx::TensorProto& t) {
  auto shape = onnx_model::ShapeOf(t);
  if (!shape.ok() || !*shape) {
    shape.ok() ? c.Refuse("of a type that is none of tensors") : c.Wrong(std::string(shape.status().message()));
    return std::nullopt;
  }
  std::string bytes = onnx_model::DenseText(t, (*shape)->dtype);
  if (bytes.size() != static_cast<size_t>((*shape)->nbytes())) {
    c.Wrong("a tensor whose data are not of its shape");
    return std::nullopt;
  }
  return ir::OwnedTensor((*shape)->dtype, (*shape)->sizes, std::move(bytes));
}

void Constant(Call& c) {
  const std::string name = c.node().output() ? c.node().output()->name() : "constant";
  if (c.has_attribute("value")) {
    const auto t = c.tensor("value");
    if (!t) return;
    if (const auto data = DataOf(c, *t)) c.Give(c.ConstantOf(name, *data));
    return;
  }
  if (c.has_attribute("value_int"))
    return c.Give(Elements{{IntOrValue(c.integer("value_int", 0))}, DType::kInt64, true});
  if (const auto ints = c.integers("value_ints"))
    return c.Give(Elements{SymInts(ints->begin(), ints->end()), DType::kInt64, false});
  std::vector<float> floats;
  std::vector<int64_t> sizes;
  if (c.has_attribute("value_float")) {
    floats.push_back(static_cast<float>(c.real("value_float", 0)));
  } else if (const auto reals = c.reals("value_floats")) {
    floats.assign(reals->begin(), reals->end());
    sizes.push_back(static_cast<int64_t>(floats.size()));
  } else {
    return c.Refuse("of a value that is no dense tensor of numbers");
  }
  c.Give(c.ConstantOf(name, StoredTensor(DType::kFloat32, sizes, floats)));
}

constexpr int64_t kMostOfList = 64;  // elements of a list that is known

void ConstantOfShape(Call& c) {
  constexpr double kExact = int64_t{1} << 53;  // up to which integers are what they are as numbers
  const SymInts sizes = c.ints(0, "sizes");
  Arg value(0.0);
  DType dtype = DType::kFloat32;
  if (const auto t = c.tensor("value")) {
    const auto data = DataOf(c, *t);
    if (!data) return;
    if (data->numel() != 1) return c.Wrong("a value of other than one element");
    if (const auto count = c.elements(0); count && count->values.size() == 1 && !count->values[0].value &&
                                          data->dtype == DType::kInt64 && count->values[0].constant >= 0 &&
                                          count->values[0].constant <= kMostOfList) {
      const auto bytes = ir::ReadDense(*data);
      int64_t number = 0;
      if (bytes.ok() && bytes->size() == sizeof number) {
        std::memcpy(&number, bytes->data(), sizeof number);
        return c.Give(Elements{SymInts(static_cast<size_t>(count->values[0].constant), IntOrValue(number))});
      }
    }
    if (const auto number = c.NumberOf(*data); number && std::isfinite(*number) && std::abs(*number) <= kExact) {
      const bool whole = !ir::IsFloating(data->dtype);
      return c.Give(c.b.Full(sizes, whole ? Arg(static_cast<int64_t>(*number)) : Arg(*number), data->dtype));
    }
    return c.Give(
        c.b.Call("aten.expand.default",
                 {c.b.Call("aten.reshape.default", {c.ConstantOf("value", *data), Arg(SymInts{})}), Arg(sizes)}));
  }
  c.Give(c.b.Full(sizes, value, dtype));
}

void Shape(Call& c) {
  Value* x = c.in(0);
  const int64_t rank = x->rank();
  const auto clamp = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + rank : i, 0, rank); };
  const int64_t start = clamp(c.integer("start", 0)), end = clamp(c.integer("end", rank));
  Elements out;
  for (int64_t d = start; d < end; ++d) out.values.push_back(c.b.Size(x, static_cast<int>(d)));
  c.Give(std::move(out));
}

void Size(Call& c) { c.Give(Elements{{c.b.Numel(c.in(0))}, DType::kInt64, true}); }

void Identity(Call& c) {
  const Operand o = c.operand(0);
  if (o.elements || o.sequence) return c.Give(0, o);
  c.Give(c.in(0));
}

void Dropout(Call& c) {
  c.Ignore("ratio"), c.Ignore("seed");
  Value* x = c.in(0);
  const bool training = c.opset >= 12 && c.has(2) && c.number(2).value_or(1) != 0;
  if (training && c.number(1).value_or(0.5) != 0) return c.Refuse("in training mode");
  c.Give(x);
  if (c.wants(1)) c.Give(1, c.b.Full(c.b.SizesOf(x), Arg(true), DType::kBool));
}

// A shape that is data: a 0 becomes the input's size, and -1 what is left.
void ReshapeByData(Call& c, Value* x, bool zeros) {
  Value* to = c.b.Cast(c.in(1), DType::kInt64);
  const auto rank = to->rank() == 1 ? to->sizes()[0].constant() : std::nullopt;
  if (!rank) return c.Refuse("with a shape whose number the program computes");
  if (!zeros) {
    SymInts own = c.b.SizesOf(x);
    own.resize(static_cast<size_t>(*rank), IntOrValue(1));
    to = c.b.Call("aten.where.self", {c.b.Call("aten.eq.Scalar", {to, 0}), c.TensorOf(own), to});
  }
  Value* open = c.b.Call("aten.eq.Scalar", {to, -1});
  Value* known = c.b.Call("aten.prod.default", {c.b.Call("aten.where.self", {open, c.Constant(1, DType::kInt64), to})});
  Value* left =
      c.b.Call("aten.div.Tensor_mode",
               {c.b.ScalarTensor(Arg(c.b.Numel(x)), DType::kInt64), c.b.Call("aten.clamp.default", {known, 1})},
               {{"rounding_mode", "trunc"}});
  const SymInts sizes = c.ints_of(c.b.Call("aten.where.self", {open, left, to}), "a shape");
  c.Give(c.b.Call("aten.reshape.default", {x, Arg(sizes)}));
}

void Reshape(Call& c) {
  c.Ignore("allowzero");
  if (const auto e = c.any_elements(0)) {
    const auto to = c.elements(1);
    if (to && std::all_of(to->values.begin(), to->values.end(), [](const IntOrValue& i) { return !i.value; })) {
      Ints shape;
      for (const IntOrValue& i : to->values) shape.push_back(i.constant);
      if (auto reshaped = Reshaped(*e, shape)) return c.Give(*std::move(reshaped));
    }
  }
  Value* x = c.in(0);
  const bool zeros = c.integer("allowzero", 0) != 0;
  if (!c.elements(1)) return ReshapeByData(c, x, zeros);
  SymInts sizes = c.ints(1, "a shape");
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d].value || sizes[d].constant != 0 || zeros) continue;
    if (static_cast<int>(d) >= x->rank()) return c.Wrong("a size of 0 stands for one that the input does not have");
    sizes[d] = c.b.Size(x, static_cast<int>(d));
  }
  c.Give(c.b.Call("aten.reshape.default", {x, Arg(sizes)}));
}

// To a shape that is data, of what is no list of sizes.
bool IsByData(Call& c) { return !c.any_elements(0) && !c.elements(1); }

void Flatten(Call& c) {
  Value* x = c.in(0);
  int64_t axis = c.integer("axis", 1);
  if (axis < -x->rank() || axis > x->rank()) return c.Wrong("an axis that the input does not have");
  if (axis < 0) axis += x->rank();
  IntOrValue rows = 1, columns = 1;
  for (int d = 0; d < x->rank(); ++d) (d < axis ? rows : columns) = c.b.Mul(d < axis ? rows : columns, c.b.Size(x, d));
  c.Give(c.b.Call("aten.reshape.default", {x, Arg(SymInts{rows, columns})}));
}

void Transpose(Call& c) {
  if (const auto e = c.any_elements(0); e && e->columns > 0 && c.integers("perm").value_or(Ints{1, 0}) == Ints{1, 0})
    return c.Give(Transposed(*e));
  Value* x = c.in(0);
  Ints perm;
  for (int d = x->rank(); d-- > 0;) perm.push_back(d);
  if (const auto given = c.integers("perm")) perm = *given;
  c.Give(c.b.Call("aten.permute.default", {x, Arg(perm)}));
}

void Concat(Call& c) {
  c.Ignore("axis");
  Elements all;
  bool known = true;
  for (size_t i = 0; known && i < c.input_count(); ++i) {
    const auto e = c.elements(i);
    known = e && !e->scalar;
    if (known) all.values.insert(all.values.end(), e->values.begin(), e->values.end()), all.dtype = e->dtype;
  }
  if (known && c.input_count() > 0) return c.Give(std::move(all));
  const Values xs = c.ins();
  if (xs.empty() || !c.ok()) return c.Wrong("no inputs");
  c.Give(c.b.Call("aten.cat.default", {Arg(xs), c.axis(c.integer("axis", 1), xs[0]->rank())}));
}

// Axes were an attribute before opset 13 and are an input since.
std::optional<Ints> AxesOf(Call& c) {
  if (c.opset < 13) return c.integers("axes");
  return c.has(1) ? std::optional<Ints>(c.constants(1, "axes")) : std::nullopt;
}

void Unsqueeze(Call& c) {
  const auto axes = AxesOf(c);
  if (!axes) return c.Wrong("no axes");
  if (auto e = c.elements(0); e && e->scalar && axes->size() == 1) {
    e->scalar = false;
    return c.Give(*std::move(e));
  }
  Value* x = c.in(0);
  const int rank = x->rank() + static_cast<int>(axes->size());
  Ints sorted;
  for (int64_t a : *axes) sorted.push_back(c.axis(a, rank));
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) return c.Wrong("an axis given twice");
  for (int64_t a : sorted) x = c.b.Call("aten.unsqueeze.default", {x, a});
  c.Give(x);
}

void Squeeze(Call& c) {
  const auto axes = AxesOf(c);
  if (auto e = c.elements(0); e && !e->scalar && e->values.size() == 1 && (!axes || axes->size() == 1)) {
    e->scalar = true;
    return c.Give(*std::move(e));
  }
  Value* x = c.in(0);
  Ints dims;
  if (axes)
    for (int64_t a : *axes) dims.push_back(c.axis(a, x->rank()));
  else
    for (int d = 0; d < x->rank(); ++d) {
      if (!x->sizes()[static_cast<size_t>(d)].constant()) return c.Refuse("of every dim of 1, of dynamic dims");
      if (x->sizes()[static_cast<size_t>(d)].is(1)) dims.push_back(d);
    }
  if (!c.ok() || dims.empty()) return c.Give(x);
  const auto is_one = [&](int64_t d) { return x->sizes()[static_cast<size_t>(d)].is(1); };
  if (std::all_of(dims.begin(), dims.end(), is_one)) return c.Give(c.b.Call("aten.squeeze.dims", {x, Arg(dims)}));
  // ATen keeps a dim that is not 1, ONNX has none then.
  SymInts sizes;
  for (int d = 0; d < x->rank(); ++d)
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) sizes.push_back(c.b.Size(x, d));
  c.Give(c.b.Call("aten.reshape.default", {x, Arg(sizes)}));
}

// A shape that is data: where it says 1, the input's size stays.
void ExpandByData(Call& c, Value* x) {
  Value* to = c.b.Cast(c.in(1), DType::kInt64);
  const auto given = to->rank() == 1 ? to->sizes()[0].constant() : std::nullopt;
  if (!given) return c.Refuse("with a shape whose number the program computes");
  SymInts own = c.b.SizesOf(x), front;
  const auto rank = std::max<size_t>(static_cast<size_t>(*given), own.size());
  if (rank > static_cast<size_t>(*given))
    to = c.b.Call("aten.constant_pad_nd.default", {to, Arg(Ints{static_cast<int64_t>(rank) - *given, 0}), 1});
  own.insert(own.begin(), rank - own.size(), IntOrValue(1));
  to = c.b.Call("aten.where.self", {c.b.Call("aten.eq.Scalar", {to, 1}), c.TensorOf(own), to});
  c.Give(c.b.Call("aten.expand.default", {x, Arg(c.ints_of(to, "a shape"))}));
}

void Expand(Call& c) {
  Value* x = c.in(0);
  if (!c.elements(1)) return ExpandByData(c, x);
  const SymInts sizes = c.ints(1, "a shape");
  // Both are broadcast: a size of 1 keeps the input's.
  const size_t rank = std::max(sizes.size(), static_cast<size_t>(x->rank()));
  SymInts to(rank, IntOrValue(1));
  for (size_t d = 0; d < rank; ++d) {
    const auto from_end = rank - d;
    const bool given = from_end <= sizes.size(), has = from_end <= static_cast<size_t>(x->rank());
    const IntOrValue size = given ? sizes[sizes.size() - from_end] : IntOrValue(1);
    to[d] =
        size == IntOrValue(1) && has ? c.b.Size(x, static_cast<int>(static_cast<size_t>(x->rank()) - from_end)) : size;
  }
  c.Give(c.b.Call("aten.expand.default", {x, Arg(to)}));
}

void Tile(Call& c) { c.Give(c.b.Call("aten.repeat.default", {c.in(0), Arg(c.ints(1, "repeats"))})); }

void Gather(Call& c) {
  const auto at = c.elements(1);
  if (const auto e = c.elements(0); e && !e->scalar && at && c.integer("axis", 0) == 0) {
    Elements out{.dtype = e->dtype, .scalar = at->scalar};
    bool known = true;
    for (const IntOrValue& i : at->values) {
      const int64_t n = static_cast<int64_t>(e->values.size()), k = i.constant < 0 ? i.constant + n : i.constant;
      known = known && !i.value && k >= 0 && k < n;
      if (known) out.values.push_back(e->values[static_cast<size_t>(k)]);
    }
    if (known) return c.Give(std::move(out));
  }
  Value* x = c.in(0);
  const int64_t axis = c.axis(c.integer("axis", 0), x->rank());
  if (!c.ok()) return;
  if (at && at->scalar) return c.Give(c.b.Call("aten.select.int", {x, axis, Arg(at->values[0])}));
  Values indices(static_cast<size_t>(axis), nullptr);
  indices.push_back(c.b.Cast(c.in(1), DType::kInt64));
  c.Give(c.b.Call("aten.index.Tensor", {x, Arg(indices)}));
}

// A tensor in front of reshapes and sums with constants, and what these add.
std::pair<Value*, int64_t> RootOf(Call& c, Value* v) {
  int64_t added = 0;
  for (const ir::Node* n = v->producer(); n; n = v->producer()) {
    const bool sum = n->op_name() == "aten.add.Tensor";
    if (!sum && n->op_name() != "aten.reshape.default") break;
    const auto by = sum ? c.NumberOf(n->At(1).value()) : std::optional<double>(0);
    if (!by || *by != std::floor(*by) || std::abs(*by) > 1e9 || n->args().size() != 2) break;
    added += static_cast<int64_t>(*by);
    v = n->At(0).value();
  }
  return {v, added};
}

// Ends that are data and lie a number behind the starts, as in x[i:i + 1], which the sizes of the result tell.
std::optional<int64_t> Behind(Call& c) {
  if (c.elements(1) || c.elements(2)) return std::nullopt;
  const auto [start, from] = RootOf(c, c.in(1));
  const auto [end, to] = RootOf(c, c.in(2));
  return start == end && start->dtype() == DType::kInt64 ? std::optional(to - from) : std::nullopt;
}

// Starts, ends, axes and steps were attributes before opset 10.
void Slice(Call& c) {
  SymInts starts, ends;
  std::optional<Ints> axes;
  Ints steps;
  if (c.opset < 10) {
    const auto s = c.integers("starts"), e = c.integers("ends");
    if (!s || !e) return c.Wrong("no starts or ends");
    starts.assign(s->begin(), s->end()), ends.assign(e->begin(), e->end());
    axes = c.integers("axes");
  } else {
    starts = c.ints(1, "starts");
    if (const auto behind = Behind(c))
      for (const IntOrValue& i : starts) ends.push_back(c.b.Add(i, *behind));
    else
      ends = c.ints(2, "ends");
    if (c.has(3)) axes = c.constants(3, "axes");
    if (c.has(4)) steps = c.constants(4, "steps");
    if (std::count(steps.begin(), steps.end(), 0) > 0 || std::count(steps.begin(), steps.end(), INT64_MIN) > 0)
      return c.Wrong("a step of 0");
  }
  if (!c.ok()) return;
  if (starts.size() != ends.size() || (axes && axes->size() != starts.size())) return c.Wrong("lists of other lengths");
  steps.resize(starts.size(), 1);
  const auto plain = [](const IntOrValue& i) { return i.value == nullptr; };
  if (const auto e = c.any_elements(0); e && starts.size() == 1 && plain(starts[0]) && plain(ends[0]))
    if (auto part = Sliced(*e, axes ? (*axes)[0] : 0, starts[0].constant, ends[0].constant, steps[0]))
      return c.Give(*std::move(part));
  Value* x = c.in(0);
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t axis = c.axis(axes ? (*axes)[i] : static_cast<int64_t>(i), x->rank());
    if (!c.ok()) return;
    if (steps[i] > 0) {
      x = c.b.Call("aten.slice.Tensor", {x, axis, Arg(starts[i]), Arg(ends[i]), steps[i]});
      continue;
    }
    // Backwards: the part turned around, then every so many elements of it. The element behind `end` is the first.
    if (!plain(starts[i]) || !plain(ends[i])) return c.Refuse("backwards between places that the program computes");
    const int64_t first = starts[i].constant, stop = ends[i].constant, most = std::numeric_limits<int64_t>::max();
    const int64_t behind = first == -1 || first == most ? most : first + 1;
    x = stop == -1 ? c.b.Call("aten.slice.Tensor", {x, axis, 0, 0, 1})
                   : c.b.Call("aten.slice.Tensor", {x, axis, stop == most ? most : stop + 1, behind, 1});
    x = c.b.Call("aten.flip.default", {x, Arg(Ints{axis})});
    if (steps[i] != -1) x = c.b.Call("aten.slice.Tensor", {x, axis, 0, std::numeric_limits<int64_t>::max(), -steps[i]});
  }
  c.Give(x);
}

// A slice that ATen has no operator for, of what is no list of sizes.
bool IsBackwards(Call& c) {
  const auto steps = c.opset < 10 || c.any_elements(0) ? std::nullopt : c.elements(4);
  return steps && std::any_of(steps->values.begin(), steps->values.end(),
                              [](const IntOrValue& i) { return !i.value && i.constant < 0; });
}

// Sizes were an attribute before opset 13; without any, the parts are as equal as they can be.
void Split(Call& c) {
  if (c.integer("num_outputs", static_cast<int64_t>(c.output_count())) != static_cast<int64_t>(c.output_count()))
    return c.Wrong("num_outputs of other results");
  Value* x = c.in(0);
  const int64_t axis = c.axis(c.integer("axis", 0), x->rank());
  if (!c.ok()) return;
  SymInts sizes;
  if (c.opset >= 13 && c.has(1)) {
    sizes = c.ints(1, "sizes");
  } else if (const auto given = c.opset < 13 ? c.integers("split") : std::nullopt) {
    sizes.assign(given->begin(), given->end());
  } else {
    const auto size = x->sizes()[static_cast<size_t>(axis)].constant();
    const auto n = static_cast<int64_t>(c.output_count());
    if (n < 1) return c.Wrong("no results");
    if (size) {
      const int64_t part = (*size + n - 1) / n;
      for (int64_t i = 0; i < n; ++i) sizes.emplace_back(std::clamp<int64_t>(*size - i * part, 0, part));
    } else {
      const IntOrValue all = c.b.Size(x, static_cast<int>(axis)), part = c.b.FloorDiv(c.b.Add(all, n - 1), n);
      sizes.assign(static_cast<size_t>(n - 1), part);
      sizes.push_back(c.b.Sub(all, c.b.Mul(part, n - 1)));
    }
  }
  const Values parts = c.b.CallMulti("aten.split_with_sizes.default", {x, Arg(sizes), axis});
  if (c.ok())
    for (size_t i = 0; i < parts.size(); ++i) c.Give(i, parts[i]);
}

// From tensors: as many elements as the quotient says, first + i * step each.
void RangeOfData(Call& c) {
  Value *start = c.in(0), *end = c.in(1), *step = c.in(2);
  for (Value** v : {&start, &end, &step}) {  // some exporters write lists of one
    if (!(*v)->type().StaticNumel() || *(*v)->type().StaticNumel() != 1) return c.Wrong("limits that are no scalars");
    if ((*v)->rank() != 0) *v = c.b.Call("aten.reshape.default", {*v, Arg(Ints{})});
  }
  const DType t = start->dtype(), wide = ir::IsFloating(t) ? DType::kFloat64 : DType::kInt64;
  const bool from_zero = c.NumberOf(start) == 0, by_one = c.NumberOf(step) == 1 && !ir::IsFloating(t);
  Value* span = c.b.Cast(end, wide);
  if (!from_zero) span = c.b.Call("aten.sub.Tensor", {span, c.b.Cast(start, wide)});
  // The quotient rounded up, in whole numbers for integers.
  Value* count = span;
  if (ir::IsFloating(t))
    count = c.b.Call("aten.ceil.default", {c.b.Call("aten.div.Tensor", {span, c.b.Cast(step, wide)})});
  else if (!by_one)
    count = c.b.Call("aten.neg.default",
                     {c.b.Call("aten.div.Tensor_mode", {c.b.Call("aten.neg.default", {span}), c.b.Cast(step, wide)},
                               {{"rounding_mode", "floor"}})});
  count = c.b.Call("aten.clamp.default", {c.b.Cast(count, DType::kInt64), 0});
  const SymInts n = c.ints_of(count, "a count");
  if (n.size() != 1) return;
  Value* i = c.b.Cast(c.b.Call("aten.arange.default", {Arg(n[0])}, {{"dtype", Arg(DType::kInt64)}}), t);
  if (!by_one) i = c.b.Call("aten.mul.Tensor", {i, step});
  if (!from_zero) i = c.b.Call("aten.add.Tensor", {start, i});
  c.Give(c.b.Cast(i, t));
}

// A limit as an integer: what is known by its element, a constant that is whole, and either in another type.
std::optional<IntOrValue> WholeLimit(Call& c, size_t i) {
  if (const auto e = c.elements(i)) return e->values.size() == 1 ? std::optional(e->values[0]) : std::nullopt;
  constexpr double kMost = 1 << 24;  // f32 has all integers up to here
  if (const auto n = c.number(i))
    return std::trunc(*n) == *n && std::abs(*n) <= kMost ? std::optional(IntOrValue(static_cast<int64_t>(*n)))
                                                         : std::nullopt;
  // A size that is cast.
  const Value* v = c.in(i);
  const ir::Node* n = v->producer();
  if (n && n->op_name() == "aten._to_copy.default" && n->Get("self").value()) n = n->Get("self").value()->producer();
  if (!n || n->op_name() != "aten.full.default" || v->rank() != 0) return std::nullopt;
  const ir::Scalar s = ir::ArgReader(*n).scalar("fill_value");
  if (s.kind != ir::Scalar::kValue || s.value->type().kind != ir::Type::kSymInt) return std::nullopt;
  return IntOrValue(s.value);
}

void Range(Call& c) {
  c.Ignore("stash_type");  // sums in a wider type than asked for are as near
  const DType dtype = c.elements(0) ? c.elements(0)->dtype : c.in(0)->dtype();
  const auto start = WholeLimit(c, 0), end = WholeLimit(c, 1), step = WholeLimit(c, 2);
  if (!start || !end || !step || step->value || step->constant == 0) return RangeOfData(c);
  if (c.elements(0) && !start->value && !end->value) {
    const int64_t first = start->constant, by = step->constant;
    const double count = std::ceil(static_cast<double>(end->constant - first) / static_cast<double>(by));
    if (std::abs(static_cast<double>(end->constant)) < 1e15 && std::abs(static_cast<double>(first)) < 1e15 &&
        count <= kMostOfList) {
      Elements list{.dtype = dtype};
      for (int64_t i = 0; i < static_cast<int64_t>(count); ++i) list.values.emplace_back(first + i * by);
      return c.Give(std::move(list));
    }
  }
  c.Give(c.b.Call("aten.arange.start_step", {Arg(*start), Arg(*end), Arg(*step)}, {{"dtype", Arg(dtype)}}));
}

void Trilu(Call& c) {
  IntOrValue k = 0;
  if (c.has(1)) {
    const SymInts given = c.ints(1, "a diagonal");
    if (given.size() != 1) return c.Wrong("a diagonal of other than one number");
    k = given[0];
  }
  c.Give(c.b.Call(c.integer("upper", 1) != 0 ? "aten.triu.default" : "aten.tril.default", {c.in(0), Arg(k)}));
}

void DepthToSpace(Call& c) {
  const int64_t block = c.integer("blocksize", 1);
  Value* x = c.in(0);
  if (x->rank() != 4 || block < 1) return c.Wrong("no image, or no block");
  const std::string mode = c.text("mode", "DCR");
  if (mode == "CRD") return c.Give(c.b.Call("aten.pixel_shuffle.default", {x, block}));
  const IntOrValue n = c.b.Size(x, 0), deep = c.b.FloorDiv(c.b.Size(x, 1), block * block), h = c.b.Size(x, 2),
                   w = c.b.Size(x, 3);
  Value* parts = c.b.Call("aten.reshape.default", {x, Arg(SymInts{n, block, block, deep, h, w})});
  parts = c.b.Call("aten.permute.default", {parts, Arg(Ints{0, 3, 4, 1, 5, 2})});
  c.Give(c.b.Call("aten.reshape.default", {parts, Arg(SymInts{n, deep, c.b.Mul(h, block), c.b.Mul(w, block)})}));
}

void SpaceToDepth(Call& c) {
  const int64_t block = c.integer("blocksize", 1);
  Value* x = c.in(0);
  if (x->rank() != 4 || block < 1) return c.Wrong("no image, or no block");
  const IntOrValue n = c.b.Size(x, 0), channels = c.b.Size(x, 1), h = c.b.FloorDiv(c.b.Size(x, 2), block),
                   w = c.b.FloorDiv(c.b.Size(x, 3), block);
  Value* parts = c.b.Call("aten.reshape.default", {x, Arg(SymInts{n, channels, h, block, w, block})});
  // The place in a block before the channel, or behind it.
  const std::string mode = c.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") return c.Wrong("an unknown mode");
  parts =
      c.b.Call("aten.permute.default", {parts, Arg(mode == "DCR" ? Ints{0, 3, 5, 1, 2, 4} : Ints{0, 1, 3, 5, 2, 4})});
  c.Give(c.b.Call("aten.reshape.default", {parts, Arg(SymInts{n, c.b.Mul(channels, block * block), h, w})}));
}

constexpr Row kShapeRows[] = {
    {"Concat", Concat, 4},
    {"Constant", Constant},
    {"ConstantOfShape", ConstantOfShape},
    {"DepthToSpace", DepthToSpace},
    {"Dropout", Dropout, 7},
    {"Expand", Expand, 1, nullptr, IsByData},
    {"Flatten", Flatten},
    {"Gather", Gather},
    {"Identity", Identity},
    {"Range", Range},
    {"Reshape", Reshape, 5, nullptr, IsByData},
    {"Shape", Shape},
    {"Size", Size},
    {"Slice", Slice, 1, nullptr, IsBackwards},
    {"SpaceToDepth", SpaceToDepth},
    {"Split", Split, 2},
    {"Squeeze", Squeeze},
    {"Tile", Tile, 6},
    {"Transpose", Transpose},
    {"Trilu", Trilu},
    {"Unsqueeze", Unsqueeze},
};

}  // namespace

absl::Span<const Row> ShapeRows() { return kShapeRows; }

}  // namespace slipway::importers::onnx_in
