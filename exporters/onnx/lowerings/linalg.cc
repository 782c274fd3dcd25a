// Linear algebra and spectra that ONNX has itself. Factorizations and solvers are decompositions.
#include <cmath>
#include <limits>
#include <numbers>

#include "exporters/onnx/lowerings/util.h"

namespace slipway::exporters::onnx_out {
namespace {

// Tables of sines and cosines are at most this long a side (f32: 1 MiB each).
constexpr int64_t kLongestTable = 512;

// slipway.dft. ONNX Runtime's DFT is accurate in f32 only where the length is a power of two; elsewhere its error grows
// with the length. So other lengths are products with a table where they are short and known, and computed in f64 where
// not.
void Dft(LoweringContext& c) {
  V re = c.in("re"), im = c.opt_in("im");
  const int rank = re.rank, dim = c.dim("dim", rank);
  const DType t = re.dtype;
  const auto n = c.tensor("re")->sizes()[dim].constant();
  const bool power_of_two = n && *n > 0 && (*n & (*n - 1)) == 0;
  if (n && *n == 0) return c.Unsupported("a transform of length 0");
  if (n && *n > std::numeric_limits<int32_t>::max()) return c.Unsupported("a transform of 2^31 points or more");
  if (t != DType::kFloat32 && t != DType::kFloat64) return c.Unsupported("a transform of half precision");

  if (t == DType::kFloat32 && n && !power_of_two && *n <= kLongestTable) {
    std::vector<double> cosine(*n * *n), sine(*n * *n);
    for (int64_t j = 0; j < *n; ++j)
      for (int64_t k = 0; k < *n; ++k) {
        const double angle = 2 * std::numbers::pi * static_cast<double>(j * k % *n) / static_cast<double>(*n);
        cosine[j * *n + k] = std::cos(angle), sine[j * *n + k] = std::sin(angle);
      }
    V cos = c.e.Numbers(std::move(cosine), t, {*n, *n}), sin = c.e.Numbers(std::move(sine), t, {*n, *n});
    Ints perm(rank);
    for (int d = 0; d < rank; ++d) perm[d] = d;
    std::swap(perm[dim], perm[rank - 1]);
    auto last = [&](V x) { return dim == rank - 1 ? x : c.e.Transpose(x, perm); };
    // (a + bi) (cos - i sin)
    re = last(re);
    V y_re = c.e.MatMul(re, cos), y_im = c.e.Op("Neg", {c.e.MatMul(re, sin)});
    if (im) {
      im = last(im);
      y_re = c.e.Add(y_re, c.e.MatMul(im, sin));
      y_im = c.e.Add(y_im, c.e.MatMul(im, cos));
    }
    return c.Return({last(y_re), last(y_im)});
  }

  const DType compute = power_of_two ? t : DType::kFloat64;
  V x = c.e.Cast(c.e.Unsqueeze(re, {rank}), compute);
  if (im) x = c.e.Concat({x, c.e.Cast(c.e.Unsqueeze(im, {rank}), compute)}, rank);
  V y = c.e.opset() >= 20 ? c.e.Op("DFT", {x, V{}, c.e.I64Scalar(dim)}) : c.e.Op("DFT", {x}, {{"axis", int64_t{dim}}});
  auto part = [&](int64_t i) {
    V p = c.e.Squeeze(c.e.Slice(y, {i}, {i + 1}, {rank}), {rank});
    return c.e.Cast(p, t);
  };
  c.Return({part(0), part(1)});
}

constexpr Row kLinalgRows[] = {
    {"slipway.dft.default", Dft},
};

}  // namespace

absl::Span<const Row> LinalgRows() { return kLinalgRows; }

}  // namespace slipway::exporters::onnx_out
