// Pad: what ATen has an operator for becomes that; other modes select elements, where sizes are known, or join parts.
#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "importers/onnx/lowering.h"
#include "importers/onnx/lowerings/stored.h"

namespace slipway::importers::onnx_in {
namespace {

// The tensor whose elements along each dim are those that the mode repeats; nothing where a size or a pad is dynamic.
std::optional<Value*> PadBySelection(Call& c, Value* x, const SymInts& pads, const std::string& mode) {
  const auto rank = static_cast<size_t>(x->rank());
  constexpr int64_t kMost = 1 << 20;
  for (size_t d = 0; d < rank; ++d) {
    const auto size = x->sizes()[d].constant();
    if (pads[d].value || pads[rank + d].value || (!size && (pads[d].constant != 0 || pads[rank + d].constant != 0)))
      return std::nullopt;
    if (pads[d].constant > kMost || pads[rank + d].constant > kMost || (size && *size > kMost)) return std::nullopt;
  }
  for (size_t d = 0; d < rank; ++d) {
    const int64_t before = pads[d].constant, behind = pads[rank + d].constant;
    if (before == 0 && behind == 0) continue;
    const int64_t n = *x->sizes()[d].constant();
    if (n < 1 || (mode == "reflect" && n < 2)) return std::nullopt;
    std::vector<int64_t> from;
    for (int64_t i = -before; i < n + behind; ++i) {
      const int64_t period = 2 * (n - 1), around = period > 0 ? ((i % period) + period) % period : 0;
      from.push_back(mode == "edge"      ? std::clamp<int64_t>(i, 0, n - 1)
                     : mode == "reflect" ? (around < n ? around : period - around)
                                         : ((i % n) + n) % n);
    }
    const auto count = static_cast<int64_t>(from.size());
    x = c.b.Call("aten.index_select.default",
                 {x, static_cast<int64_t>(d), c.ConstantOf("places", StoredTensor(DType::kInt64, {count}, from))});
  }
  return x;
}

// Pads were an attribute before opset 11: all begins, then all ends.
void Pad(Call& c) {
  Value* x = c.in(0);
  const auto rank = static_cast<size_t>(x->rank());
  SymInts given;
  double value = 0;
  bool computed = false;
  if (c.opset < 11) {
    if (const auto pads = c.integers("pads")) given.assign(pads->begin(), pads->end());
    value = c.real("value", 0);
  } else {
    given = c.ints(1, "pads");
    if (c.has(2)) {
      computed = !c.number(2);
      value = c.number(2).value_or(0);
    }
  }
  SymInts pads(2 * rank, IntOrValue(0));
  if (c.opset >= 18 && c.has(3)) {
    const Ints axes = c.constants(3, "axes");
    if (given.size() != 2 * axes.size()) return c.Wrong("pads of other axes");
    for (size_t i = 0; i < axes.size(); ++i) {
      const auto d = static_cast<size_t>(c.axis(axes[i], x->rank()));
      if (!c.ok()) return;
      pads[d] = given[i], pads[rank + d] = given[axes.size() + i];
    }
  } else {
    if (given.size() != 2 * rank) return c.Wrong("pads of another rank");
    pads = given;
  }
  if (!c.ok()) return;
  const std::string mode = c.text("mode", "constant");
  // From the last dim to the first, without those in front that have none.
  SymInts backwards;
  size_t used = 0;
  for (size_t d = rank; d-- > 0;) {
    backwards.push_back(pads[d]), backwards.push_back(pads[rank + d]);
    if (!(pads[d] == IntOrValue(0)) || !(pads[rank + d] == IntOrValue(0))) used = backwards.size();
  }
  backwards.resize(used);
  if (backwards.empty()) return c.Give(x);
  if (mode == "constant" && !computed)
    return c.Give(c.b.Call("aten.constant_pad_nd.default", {x, Arg(backwards), value}));
  if (mode == "constant") {  // a value that is data, where ones that are padded say so
    Value* ones = c.b.Full(c.b.SizesOf(x), Arg(true), DType::kBool);
    return c.Give(c.b.Call("aten.where.self", {c.b.Call("aten.constant_pad_nd.default", {ones, Arg(backwards), 0}),
                                               c.b.Call("aten.constant_pad_nd.default", {x, Arg(backwards), 0}),
                                               c.b.Call("aten.reshape.default", {c.in(2), Arg(Ints{})})}));
  }
  // What is taken away goes before anything is repeated.
  for (size_t d = 0; d < rank; ++d) {
    IntOrValue &begin = pads[d], &end = pads[rank + d];
    if ((begin.value || begin.constant >= 0) && (end.value || end.constant >= 0)) continue;
    x = c.b.Call("aten.slice.Tensor",
                 {x, static_cast<int64_t>(d), !begin.value && begin.constant < 0 ? -begin.constant : 0,
                  !end.value && end.constant < 0 ? end.constant : std::numeric_limits<int64_t>::max(), 1});
    if (!begin.value) begin.constant = std::max<int64_t>(begin.constant, 0);
    if (!end.value) end.constant = std::max<int64_t>(end.constant, 0);
  }
  backwards.clear();
  for (size_t d = rank; d-- > 0 && backwards.size() < used;)
    backwards.push_back(pads[d]), backwards.push_back(pads[rank + d]);
  const char* by_rank[3] = {"1d", "2d", "3d"};
  const size_t dims = backwards.size() / 2;
  const std::string kind = mode == "reflect" ? "reflection_pad" : mode == "edge" ? "replication_pad" : "";
  if (kind.empty() || dims > 3) {
    if (const auto selected = PadBySelection(c, x, pads, mode)) return c.Give(*selected);
    const auto known = [](const IntOrValue& p) { return p.value == nullptr; };
    if (mode == "wrap" && std::all_of(pads.begin(), pads.end(), known)) {
      // The end in front and the beginning behind, which is what a pad up to the size is.
      for (size_t d = 0; d < rank; ++d) {
        const auto axis = static_cast<int64_t>(d);
        Values parts;
        if (pads[d].constant > 0)
          parts.push_back(
              c.b.Call("aten.slice.Tensor", {x, axis, -pads[d].constant, std::numeric_limits<int64_t>::max(), 1}));
        parts.push_back(x);
        if (pads[rank + d].constant > 0)
          parts.push_back(c.b.Call("aten.slice.Tensor", {x, axis, 0, pads[rank + d].constant, 1}));
        if (parts.size() == 1) continue;
        const IntOrValue size = c.b.Add(c.b.Size(x, static_cast<int>(d)), pads[d].constant + pads[rank + d].constant);
        x = c.b.Call("aten.cat.default", {Arg(parts), axis});
        // Where the size is less than a pad, slices have fewer elements: an error of the run.
        SymInts sizes = c.b.SizesOf(x);
        sizes[d] = size;
        x = c.b.Call("aten.reshape.default", {x, Arg(sizes)});
      }
      return c.Give(x);
    }
    return c.Refuse(text::StrCat("of mode ", mode, " in these dims of dynamic sizes"));
  }
  // ATen's operators take one batch and channels in front of the dims that they pad.
  const std::string op = "aten." + kind + by_rank[dims - 1] + ".default";
  if (rank == dims + 2 || rank == dims + 1) return c.Give(c.b.Call(op, {x, Arg(backwards)}));
  SymInts own = c.b.SizesOf(x), image = {IntOrValue(1), IntOrValue(1)};
  const size_t front = rank - dims;
  for (size_t d = 0; d < front; ++d) image[1] = c.b.Mul(image[1], own[d]);
  image.insert(image.end(), own.begin() + static_cast<int64_t>(front), own.end());
  Value* out = c.b.Call(op, {c.b.Call("aten.reshape.default", {x, Arg(image)}), Arg(backwards)});
  own.resize(front);
  for (size_t d = front; d < rank; ++d) own.push_back(c.b.Size(out, static_cast<int>(d - front) + 2));
  c.Give(c.b.Call("aten.reshape.default", {out, Arg(own)}));
}

// Whether what is padded with are elements of the tensor: several operators where something is taken away, too, and
// where ATen's takes fewer dims.
bool Repeats(Call& c) { return c.text("mode", "constant") != "constant"; }

constexpr Row kPaddingRows[] = {
    {"Pad", Pad, 2, nullptr, Repeats},
};

}  // namespace

absl::Span<const Row> PaddingRows() { return kPaddingRows; }

}  // namespace slipway::importers::onnx_in
