// Bands of rows of a plane are copied with their border into memory that stays in the first-level cache; all that the
// loops over them read is there.
#include "kernels/conv/depthwise_nchw.h"

#include <algorithm>
#include <cstring>

#include "kernels/conv/work_partition.h"
#include "kernels/isa/isa.h"

namespace slipway::kernels {
namespace {

constexpr int64_t kTaps = 3;                 // either way
constexpr int64_t kMinRowPixels = 24;        // places: shorter rows are faster by panels of channels
constexpr int64_t kL1BlockFloats = 4 << 10;  // floats of a band
constexpr int64_t kRowsAtOnce = 4;           // which the loops take

// How long the padded rows of a band are: `phases` phases (PadRows of conv.h) of `phase` floats, which vectors may read
// beyond.
struct Rows {
  int64_t phases, phase;
  Rows(int64_t stride, int64_t to)
      : phases(stride), phase(RoundUp((kTaps - 1) / stride + RoundUp(to, BestIsa().lanes), BestIsa().lanes)) {}
  int64_t floats() const { return phases * phase; }
};

}  // namespace

bool CanUseDepthwiseNchw3x3(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& s) {
  for (const Tensor* t : {&x, &w, &out})
    if (t->dtype != DType::kF32 || t->numel() == 0 || t->sizes[2] != 1 || t->is_packed() || !t->is_contiguous())
      return false;
  const int64_t stride = s.stride[2], to = out.sizes[4], lanes = BestIsa().lanes;
  if (w.sizes[1] != 1 || s.groups != x.sizes[1] || s.groups != w.sizes[0] || s.pad[0] != 0) return false;
  if (w.sizes[3] != kTaps || w.sizes[4] != kTaps || s.stride[1] != stride || (stride != 1 && stride != 2)) return false;
  for (int d = 1; d < 3; ++d) {
    if (s.pad[d] < 0 || s.pad[d] >= kTaps || s.dilation[d] != 1) return false;
    if ((out.sizes[2 + d] - 1) * stride + kTaps > x.sizes[2 + d] + 2 * s.pad[d]) return false;
  }
  return to >= kMinRowPixels && 4 * to >= 3 * RoundUp(to, lanes);  // vectors are mostly full
}

bool DepthwiseNchw3x3(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& s, const Epilogue& e,
                      const Workers* workers, Scratch& scratch) {
  if (!CanUseDepthwiseNchw3x3(x, w, out, s)) return false;
  const int64_t planes = out.sizes[0] * out.sizes[1], channels = out.sizes[1], stride = s.stride[2];
  const int64_t in_y = x.sizes[3], in_x = x.sizes[4], to_y = out.sizes[3], to_x = out.sizes[4];
  const Rows row(stride, to_x);
  const int64_t near = std::max<int64_t>(1, (kL1BlockFloats / row.floats() - kTaps) / stride + 1);
  const int64_t most = std::min(to_y, RoundUp(std::min(near, to_y), kRowsAtOnce)), bands = Ceil(to_y, most);
  const int64_t reach = (most - 1) * stride + kTaps;
  if (static_cast<double>(out.numel() * kTaps * kTaps) < kMinParallelWork) workers = nullptr;
  const ConvNchwMicrokernels& ukernels = BestIsa().conv_nchw;
  ParallelFor(scratch, workers, planes * bands, 1, [&](int64_t begin, int64_t end, Scratch& own) {
    float* const image = own.Take<float>(reach * row.floats() + BestIsa().lanes);
    if (own.querying()) return;
    std::fill_n(image, reach * row.floats() + BestIsa().lanes, 0.0f);  // the border left and right, which stays
    for (int64_t i = begin; i < end; ++i) {
      const int64_t plane = i / bands, channel = plane % channels, y0 = i % bands * most,
                    y1 = std::min(to_y, y0 + most);
      // Rows of the image, and those among them that there are.
      const int64_t top = y0 * stride - s.pad[1], bottom = (y1 - 1) * stride - s.pad[1] + kTaps;
      const int64_t first = std::clamp<int64_t>(top, 0, in_y), last = std::clamp<int64_t>(bottom, first, in_y);
      std::fill_n(image, (first - top) * row.floats(), 0.0f);
      std::fill_n(image + (last - top) * row.floats(), (bottom - last) * row.floats(), 0.0f);
      const int64_t used = std::min(in_x, (to_x - 1) * stride + kTaps - s.pad[2]);
      ukernels.pad_and_deinterleave({x.as<float>() + (plane * in_y + first) * in_x, in_x, last - first, used, s.pad[2],
                                     stride, row.phase, image + (first - top) * row.floats(), row.floats()});
      const int64_t at = (plane * to_y + y0) * to_x;
      DwconvNchwParams t;
      t.x = image, t.x_stride = row.floats(), t.phase = row.phase, t.stride = stride,
      t.w = w.as<float>() + channel * kTaps * kTaps;
      t.out = out.as<float>() + at, t.out_stride = to_x, t.rows = y1 - y0, t.n = to_x;
      t.epilogue = e.At(channel, at);
      ukernels.dwconv3x3(t);
    }
  });
  return true;
}

}  // namespace slipway::kernels
