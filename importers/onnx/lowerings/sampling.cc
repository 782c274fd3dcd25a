// Images that are read at places which are data: grids and deformable convolutions.
#include <string>

#include "importers/onnx/lowering.h"

namespace slipway::importers::onnx_in {
namespace {

void GridSample(Call& c) {
  std::string mode = c.text("mode", c.opset < 20 ? "bilinear" : "linear"), padding = c.text("padding_mode", "zeros");
  const int64_t interpolation = mode == "bilinear" || mode == "linear" ? 0 : mode == "nearest" ? 1 : 2;
  const int64_t around = padding == "zeros" ? 0 : padding == "border" ? 1 : 2;
  c.Give(c.b.Call("aten.grid_sampler.default",
                  {c.in(0), c.in(1), interpolation, around, c.integer("align_corners", 0) != 0}));
}

void AffineGrid(Call& c) {
  Value* theta = c.in(0);
  const SymInts sizes = c.ints(1, "sizes");
  c.Give(c.b.Call("aten.affine_grid_generator.default", {theta, Arg(sizes), c.integer("align_corners", 0) != 0}));
}

// The column (dim 1) or row (dim 0) of the image at which each of the output's places begins to be read for kernel
// position (i, j), [kernel positions, rows, columns] when it is broadcast.
struct Kernel {
  int64_t size[2], stride[2], dilation[2], begin[2];
};
Value* Places(Call& c, const Kernel& k, int dim, const IntOrValue& count, DType dtype) {
  const auto arange = [&](const IntOrValue& n, int64_t by) {
    Value* i = c.b.Call("aten.arange.default", {Arg(n)}, {{"dtype", Arg(DType::kInt64)}});
    return c.b.Call("aten.mul.Scalar", {i, by});
  };
  Value* position = c.b.Call("aten.reshape.default", {arange(k.size[dim], k.dilation[dim]),
                                                      Arg(dim == 0 ? Ints{-1, 1, 1, 1} : Ints{1, -1, 1, 1})});
  Value* place = c.b.Call("aten.reshape.default",
                          {arange(count, k.stride[dim]), Arg(dim == 0 ? Ints{1, 1, -1, 1} : Ints{1, 1, 1, -1})});
  Value* sum = c.b.Call("aten.sub.Scalar", {c.b.Call("aten.add.Tensor", {position, place}), k.begin[dim]});
  return c.b.Cast(sum, dtype);
}

// Deformable convolution v2 (arXiv:1811.11168): each kernel position reads the image at a place of its own, between
// pixels, nothing outside; then a product with the weights.
void DeformConv(Call& c) {
  Value *x = c.in(0), *weight = c.in(1), *offset = c.in(2);
  if (x->rank() != 4 || weight->rank() != 4 || offset->rank() != 4) return c.Refuse("of other than images");
  const int64_t groups = c.integer("group", 1), parts = c.integer("offset_group", 1);
  const auto channels = x->sizes()[1].constant(), out = weight->sizes()[0].constant();
  Kernel k{};
  const auto pair = [&](std::string_view name, int64_t otherwise, int64_t(&into)[2]) {
    const Ints given = c.integers(name).value_or(Ints{otherwise, otherwise});
    if (given.size() < 2) return c.Wrong("a window of another rank");
    into[0] = given[0], into[1] = given[1];
  };
  pair("strides", 1, k.stride), pair("dilations", 1, k.dilation), pair("pads", 0, k.begin);
  c.Ignore("kernel_shape");
  const auto rows = weight->sizes()[2].constant(), columns = weight->sizes()[3].constant();
  if (!rows || !columns || !channels || !out) return c.Refuse("of dynamic channels or windows");
  k.size[0] = *rows, k.size[1] = *columns;
  const int64_t taps = *rows * *columns;
  if (groups < 1 || parts < 1 || *channels % groups != 0 || *out % groups != 0 || *channels % parts != 0)
    return c.Wrong("groups that do not divide the channels");
  if (!c.ok()) return;

  const IntOrValue n = c.b.Size(x, 0), height = c.b.Size(x, 2), width = c.b.Size(x, 3), oh = c.b.Size(offset, 2),
                   ow = c.b.Size(offset, 3);
  const auto shaped = [&](Value* v, SymInts sizes) {
    return c.b.Call("aten.reshape.default", {v, Arg(std::move(sizes))});
  };
  // Places as a grid has them: -1 and 1 are the image's edges.
  Value* moved = shaped(offset, {c.b.Mul(n, parts), *rows, *columns, 2, oh, ow});
  const auto coordinate = [&](int dim, const IntOrValue& size, const IntOrValue& count) {
    Value* at = c.b.Call("aten.add.Tensor",
                         {c.b.Call("aten.select.int", {moved, 3, dim}), Places(c, k, dim, count, offset->dtype())});
    Value* twice = c.b.Call("aten.add.Scalar", {c.b.Call("aten.mul.Scalar", {at, 2}), 1});
    Value* edges = c.b.Cast(c.b.ScalarTensor(Arg(size), DType::kInt64), offset->dtype());
    return c.b.Call("aten.sub.Scalar", {c.b.Call("aten.div.Tensor", {twice, edges}), 1});
  };
  Value* grid = c.b.Call("aten.stack.default", {Arg(Values{coordinate(1, width, ow), coordinate(0, height, oh)}), -1});
  grid = shaped(grid, {c.b.Mul(n, parts), c.b.Mul(oh, taps), ow, 2});
  Value* image = shaped(x, {c.b.Mul(n, parts), *channels / parts, height, width});
  Value* read = c.b.Call("aten.grid_sampler.default", {image, grid, 0, 0, false});
  if (c.has(4))
    read = c.b.Call("aten.mul.Tensor", {read, shaped(c.in(4), {c.b.Mul(n, parts), 1, c.b.Mul(oh, taps), ow})});
  Value* columns_of = shaped(read, {n, groups, *channels / groups * taps, c.b.Mul(oh, ow)});
  Value* matrix = shaped(weight, {1, groups, *out / groups, *channels / groups * taps});
  Value* y = shaped(c.b.Call("aten.matmul.default", {matrix, columns_of}), {n, *out, oh, ow});
  if (c.has(3)) y = c.b.Call("aten.add.Tensor", {y, shaped(c.in(3), {1, *out, 1, 1})});
  c.Give(y);
}

constexpr Row kSamplingRows[] = {
    {"AffineGrid", AffineGrid, 1, nullptr, Always},
    {"DeformConv", DeformConv, 1, nullptr, Always},
    {"GridSample", GridSample},
};

}  // namespace

absl::Span<const Row> SamplingRows() { return kSamplingRows; }

}  // namespace slipway::importers::onnx_in
