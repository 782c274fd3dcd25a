// Entry points of NHWC convolutions: operands are brought into the layout that the selected algorithm reads, and
// outputs that are NCHW are reordered.
#include "kernels/conv/conv_nhwc.h"

#include <algorithm>

#include "kernels/conv/nhwc/algorithms.h"
#include "kernels/validate.h"

namespace slipway::kernels {
namespace {

// Brings the operands of a problem into place. `epilogue`: what the algorithm applies itself.
ConvOperands Prepare(const ConvProblem& c, const Epilogue& epilogue, const Workers* workers, Scratch& scratch) {
  ConvOperands o;
  o.filters = PackedFilters(c, scratch);
  float* const image = c.filter.reads_nchw()      ? ReorderToNchw(c, scratch)
                       : c.reorders_in_row_blocks ? nullptr
                                                  : ReorderToNhwc(c, workers, scratch);
  o.image_stride = c.input_is_nhwc_view() || c.reorders_in_row_blocks ? c.x.strides[0] : c.channels * c.in_y * c.in_x;
  o.image = image != nullptr ? image : c.x.as<float>();
  o.pixel_stride = c.pixel_stride, o.workers = workers, o.epilogue = epilogue;
  if (c.pointwise() && c.strided()) {
    o.image = GatherStrided(c, o, scratch);
    o.pixel_stride = c.channels, o.image_stride = c.out_y * c.out_x * c.channels;
  }
  if (c.multiplications() < kMinParallelWork) o.workers = nullptr;
  o.interleaved = o.workers != nullptr && o.workers->threads > 1;
  return o;
}

void RunConv(const ConvProblem& c, const Epilogue& epilogue, const Workers* workers, Scratch& scratch) {
  const ConvOperands operands = Prepare(c, epilogue, workers, scratch);
  const ConvRun run{c, operands};
  switch (SelectAlgorithm(c)) {
    case NhwcAlgorithm::kWinograd: return RunWinograd(run, scratch);
    case NhwcAlgorithm::kDepthwise: return RunDepthwise(run, scratch);
    case NhwcAlgorithm::kPointwise: return RunPointwise(run, scratch);
    case NhwcAlgorithm::kDirectNchw: return RunDirectNchw(run, c.out, epilogue, scratch);
    case NhwcAlgorithm::kGrouped: return RunGrouped(run, scratch);
    case NhwcAlgorithm::kIm2col: return RunIm2col(run, scratch);
    case NhwcAlgorithm::kDirect: return RunDirect(run, scratch);
    case NhwcAlgorithm::kRowBlocked: return RunRowBlocked(run, scratch);
  }
}

// From dense planes to dense planes.
bool CanRunPlanes(const ConvProblem& c) {
  return c.filter.reads_nchw() && c.x.is_contiguous() && ReadsPlanesInPlace(c);
}
void RunPlanes(const ConvProblem& c, const Tensor& out, const Epilogue& e, const Workers* workers, Scratch& scratch) {
  ConvOperands o;
  o.filters = PackedFilters(c, scratch);
  o.image = c.x.as<float>(), o.image_stride = c.channels * c.in_y * c.in_x, o.pixel_stride = c.pixel_stride;
  o.epilogue = {e.scale, e.bias, nullptr, e.residual != nullptr ? Activation::kNone : e.activation, e.min, e.max};
  o.workers = c.multiplications() < kMinParallelWork ? nullptr : workers;
  RunDirectNchw({c, o}, out, e, scratch);
}

// The rows of an NHWC image as one.
Tensor JoinImageRows(Tensor t) {
  t.sizes[4] *= t.sizes[3], t.sizes[3] = 1;
  return t;
}

}  // namespace

bool ChannelsLast(const Tensor& t) {
  return t.rank == 5 && t.sizes[2] == 1 && (t.strides[1] == 1 || t.sizes[1] == 1) && t.strides[4] >= t.sizes[1] &&
         (t.sizes[3] == 1 || t.strides[3] == t.sizes[4] * t.strides[4]) && t.strides[0] >= 0;
}

Tensor DenseNhwc(Tensor t) {
  t.strides[1] = 1, t.strides[4] = t.sizes[1], t.strides[3] = t.strides[2] = t.sizes[1] * t.sizes[4];
  t.strides[0] = t.strides[3] * t.sizes[3];
  return t;
}

bool UsesConvNhwc(const Tensor& x, const Tensor& w, const Tensor& out) {
  return w.packed == Packing::kConvFilters || (ChannelsLast(out) && !out.is_contiguous()) ||
         (ChannelsLast(x) && !x.is_contiguous());
}

bool CanUseDirectNchw(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape) {
  // Outputs are reordered, patches are not; and panels are to be mostly full.
  const int64_t outs = out.sizes[1], depth = w.sizes[1] * w.sizes[3] * w.sizes[4];
  if (!out.is_contiguous() || outs > 2 * depth || 5 * outs < 4 * Ceil(outs, kPanel) * kPanel) return false;
  const Tensor nhwc = DenseNhwc(out);
  const ConvProblem c(x, w, nhwc, shape);
  return c.supported() && CanRunPlanes(c);
}

bool ConvNhwc(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape, const Epilogue& epilogue,
              const Workers* workers, Scratch& scratch) {
  if (ChannelsLast(out)) {
    // 1 × 1 groups do not depend on where a row ends.
    const bool joins = shape.groups > 1 && w.sizes[3] * w.sizes[4] == 1 && SameSizes(x, 2, 3, out, 2) &&
                       shape.stride[1] == 1 && shape.stride[2] == 1 && shape.pad[1] == 0 && shape.pad[2] == 0 &&
                       ChannelsLast(x);
    const Tensor image = joins ? JoinImageRows(x) : x, result = joins ? JoinImageRows(out) : out;
    const ConvProblem c(image, w, result, shape);
    if (!c.supported()) return false;
    RunConv(c, epilogue, workers, scratch);
    return true;
  }
  // Scale and bias in NHWC, then the reorder to NCHW and the rest of the epilogue.
  Tensor nhwc = DenseNhwc(out);
  const ConvProblem c(x, w, nhwc, shape);
  if (!c.supported() || !out.is_contiguous()) return false;
  if (CanRunPlanes(c)) {
    RunPlanes(c, out, epilogue, workers, scratch);
    return true;
  }
  nhwc.data = scratch.Take<float>(out.numel());
  Epilogue affine;
  affine.scale = epilogue.scale, affine.bias = epilogue.bias;
  RunConv(c, affine, workers, scratch);
  if (scratch.querying()) return true;
  const int64_t plane = out.sizes[3] * out.sizes[4], channels = out.sizes[1], parts = Ceil(channels, kPanel);
  const Epilogue rest = epilogue.AfterAffine();
  ParallelFor(workers, out.sizes[0] * parts, std::max<int64_t>(1, 2048 / plane), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t c0 = i % parts * kPanel, count = std::min(kPanel, channels - c0),
                    first = i / parts * channels * plane, at = first + c0 * plane;
      float* const to = out.as<float>() + at;
      BestIsa().elementwise.transpose(reinterpret_cast<const uint32_t*>(nhwc.as<float>() + first + c0), channels,
                                      reinterpret_cast<uint32_t*>(to), plane, count, plane);
      if (!rest.empty()) BestIsa().elementwise.epilogue(to, to, count * plane, rest.At(0, at));
    }
  });
  return true;
}

bool ConvNhwcWritesOnce(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape) {
  const ConvProblem c(x, w, out, shape);
  return ChannelsLast(out) && c.supported() && StoresOnce(c);
}

const char* ConvNhwcAlgorithm(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape) {
  const ConvProblem c(x, w, out, shape);
  return c.supported() ? AlgorithmName(c) : nullptr;
}

}  // namespace slipway::kernels
