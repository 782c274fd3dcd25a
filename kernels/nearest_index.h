// Which pixel nearest and nearest-exact resampling read along one dim, as torch's CPU kernels compute it. torch has two
// formulas and picks one by the size of the result. Both multiply by the step from one pixel of the result to the next,
// in/out or 1/factor, rounded to f32 (or to f64, for f64 outside small images), so that a position that is an integer
// in exact arithmetic may fall below it. Used by the kernel resample_nearest and by the ONNX exporter, which looks up
// whether Resize reads the same pixels.
#ifndef SLIPWAY_KERNELS_NEAREST_INDEX_H_
#define SLIPWAY_KERNELS_NEAREST_INDEX_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace slipway::kernels {

struct NearestRule {
  // the pixel under the middle of the result's pixel (nearest-exact), else under its beginning (nearest)
  bool exact = false;
  bool wide = false;   // the elements are f64
  bool small = false;  // IsSmallImage
  double factor = 0;   // the factor that was asked for; 0 where sizes were
};

// Images of two dims whose result has at most this many rows and columns together go torch's other way.
inline constexpr int64_t kSmallImage = 128;
inline bool IsSmallImage(int spatial, int64_t rows, int64_t columns) {
  return spatial == 2 && rows <= kSmallImage && columns <= kSmallImage - rows;
}

// Pixel i of `out` along a dim of `in`; in >= 1.
inline int64_t NearestIndex(const NearestRule& r, int64_t in, int64_t out, int64_t i) {
  if (r.small && !r.exact && out == in) return i;
  if (r.small && !r.exact && out % 2 == 0 && out / 2 == in) return i / 2;
  float at;
  if (r.wide && !r.small) {
    const double scale = r.factor > 0 ? 1.0 / r.factor : static_cast<double>(in) / static_cast<double>(out);
    const double x = static_cast<double>(i);
    at = static_cast<float>(r.exact ? std::max(std::fma(scale, x + 0.5, -0.5), 0.0) + 0.5 : x * scale);
  } else {
    const float scale =
        r.factor > 0 ? static_cast<float>(1.0 / r.factor) : static_cast<float>(in) / static_cast<float>(out);
    const float x = static_cast<float>(i);
    at = !r.exact ? x * scale : r.small ? (x + 0.5f) * scale : std::max(std::fma(scale, x + 0.5f, -0.5f), 0.0f) + 0.5f;
  }
  const float floor = std::floor(at);
  return floor < static_cast<float>(in) ? std::clamp<int64_t>(static_cast<int64_t>(floor), 0, in - 1) : in - 1;
}

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_NEAREST_INDEX_H_
