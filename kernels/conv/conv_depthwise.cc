// Bands of rows of a plane are copied with their border into memory that stays in the first-level cache; all that the
// loops over them read is there.
#include "kernels/conv/conv_depthwise.h"

#include <algorithm>
#include <cstring>

#include "kernels/conv/shares.h"
#include "kernels/isa/isa.h"

namespace slipway::kernels {
namespace {

constexpr int64_t kTaps = 3;            // either way
constexpr int64_t kLeastRow = 24;       // places: shorter rows are faster by panels of channels
constexpr int64_t kNearBand = 4 << 10;  // floats of a band
constexpr int64_t kRowsAtOnce = 4;      // which the loops take

// How long the padded rows of a band are: `phases` phases (PadRows of conv.h) of `phase` floats, which vectors may read
// beyond.
struct Rows {
  int64_t phases, phase;
  Rows(int64_t stride, int64_t to)
      : phases(stride),
        phase(RoundUp((kTaps - 1) / stride + RoundUp(to, BestIsa().conv->lanes), BestIsa().conv->lanes)) {}
  int64_t floats() const { return phases * phase; }
};

}  // namespace

bool TakesConvDepthwiseRows(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& s) {
  for (const Tensor* t : {&x, &w, &out})
    if (t->dtype != DType::kF32 || t->numel() == 0 || t->sizes[2] != 1 || t->is_packed() || !t->is_contiguous())
      return false;
  const int64_t stride = s.stride[2], to = out.sizes[4], lanes = BestIsa().conv->lanes;
  if (w.sizes[1] != 1 || s.groups != x.sizes[1] || s.groups != w.sizes[0] || s.pad[0] != 0) return false;
  if (w.sizes[3] != kTaps || w.sizes[4] != kTaps || s.stride[1] != stride || (stride != 1 && stride != 2)) return false;
  for (int d = 1; d < 3; ++d) {
    if (s.pad[d] < 0 || s.pad[d] >= kTaps || s.dilation[d] != 1) return false;
    if ((out.sizes[2 + d] - 1) * stride + kTaps > x.sizes[2 + d] + 2 * s.pad[d]) return false;
  }
  return to >= kLeastRow && 4 * to >= 3 * RoundUp(to, lanes);  // vectors are mostly full
}

bool ConvDepthwiseRows(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& s, const ConvEpilogue& e,
                       const Workers* workers, Scratch& scratch) {
  if (!TakesConvDepthwiseRows(x, w, out, s)) return false;
  const int64_t planes = out.sizes[0] * out.sizes[1], channels = out.sizes[1], stride = s.stride[2];
  const int64_t in_y = x.sizes[3], in_x = x.sizes[4], to_y = out.sizes[3], to_x = out.sizes[4];
  const Rows row(stride, to_x);
  const int64_t near = std::max<int64_t>(1, (kNearBand / row.floats() - kTaps) / stride + 1);
  const int64_t most = std::min(to_y, RoundUp(std::min(near, to_y), kRowsAtOnce)), bands = Ceil(to_y, most);
  const int64_t reach = (most - 1) * stride + kTaps;
  if (static_cast<double>(out.numel() * kTaps * kTaps) < kLeastWork) workers = nullptr;
  const ConvIsa& isa = *BestIsa().conv;
  ParallelFor(scratch, workers, planes * bands, 1, [&](int64_t begin, int64_t end, Scratch& own) {
    float* const image = own.Take<float>(reach * row.floats() + isa.lanes);
    if (own.counting()) return;
    std::fill_n(image, reach * row.floats() + isa.lanes, 0.0f);  // the border left and right, which stays
    for (int64_t i = begin; i < end; ++i) {
      const int64_t plane = i / bands, channel = plane % channels, y0 = i % bands * most,
                    y1 = std::min(to_y, y0 + most);
      // Rows of the image, and those among them that there are.
      const int64_t top = y0 * stride - s.pad[1], bottom = (y1 - 1) * stride - s.pad[1] + kTaps;
      const int64_t first = std::clamp<int64_t>(top, 0, in_y), last = std::clamp<int64_t>(bottom, first, in_y);
      std::fill_n(image, (first - top) * row.floats(), 0.0f);
      std::fill_n(image + (last - top) * row.floats(), (bottom - last) * row.floats(), 0.0f);
      const int64_t used = std::min(in_x, (to_x - 1) * stride + kTaps - s.pad[2]);
      isa.pad(x.as<float>() + (plane * in_y + first) * in_x, in_x, last - first, used, s.pad[2], stride, row.phase,
              image + (first - top) * row.floats(), row.floats());
      const int64_t at = (plane * to_y + y0) * to_x;
      const Finish f = e.For(channel, at);
      PlaneTaps t;
      t.x = image, t.x_row = row.floats(), t.phase = row.phase, t.stride = stride,
      t.w = w.as<float>() + channel * kTaps * kTaps;
      t.out = out.as<float>() + at, t.out_row = to_x, t.rows = y1 - y0, t.n = to_x;
      t.scale = f.scale, t.shift = f.shift;
      t.finish.add = f.add, t.finish.activation = f.activation, t.finish.low = f.low, t.finish.high = f.high;
      isa.plane_taps(t);
    }
  });
  return true;
}

}  // namespace slipway::kernels
